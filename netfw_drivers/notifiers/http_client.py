"""Posting over HTTP, and what the answers mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen
from keystoneauth1 import exceptions
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session

from netfw.errors import BackendBroken, BackendUnavailable

LATER: Final = frozenset({401, 403, 404, 408, 425, 429})
"""Refusals that end when somebody mends a token, an address or a load: tried again, as all of the
server's own faults are."""
SHOWN: Final = 300


@frozen
class Reply:
    """What the other side answered."""

    status: int
    text: str


class HttpPoster:
    """Posts JSON to one party; connections are kept, and redirections not followed."""

    def __init__(
        self, *, timeout: float, ca_file: str | None = None, auth: BaseAuthPlugin | None = None
    ) -> None:
        self._timeout = timeout
        self._session = Session(
            auth=auth, verify=ca_file or True, timeout=timeout, redirect=False, app_name="netfw"
        )

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        accepted: Collection[int] = (),
        **more: Any,
    ) -> Reply:
        """Post *body*, and return what is no refusal; *accepted* are statuses that are none.

        :raises BackendUnavailable: nobody answers in time, or it may answer otherwise later.
        :raises BackendBroken: it refuses this for good.
        """
        try:
            response = self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                raise_exc=False,
                **more,
            )
        except exceptions.ClientException as exc:
            raise BackendUnavailable(
                f"{_place(url)} does not answer: {type(exc).__name__}"
            ) from exc
        reply = Reply(response.status_code, response.text)
        if reply.status not in accepted:
            _check(url, reply)
        return reply


def _check(url: str, reply: Reply) -> None:
    if 200 <= reply.status < 300:
        return
    told = f"{_place(url)} answers {reply.status}: {_plain(reply.text) or 'nothing'}"
    if reply.status in LATER or reply.status >= 500:
        raise BackendUnavailable(told)
    raise BackendBroken(told)


def _place(url: str) -> str:
    """Whom *url* names, without passwords and keys that may be in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _plain(text: str) -> str:
    """The beginning of what others say, in one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:SHOWN]).split())
