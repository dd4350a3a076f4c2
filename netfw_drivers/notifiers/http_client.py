"""HTTP client for notifiers: posts JSON, and classifies answers."""

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
"""Client errors that a repaired token, address or load resolves: retried, as server errors are."""
SHOWN: Final = 300


@frozen
class Reply:
    """Answer of the receiver."""

    status: int
    text: str


class HttpPoster:
    """Posts JSON to one receiver; keeps connections alive, follows no redirects."""

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
        """Post *body*, and return the answer; *accepted* are further statuses of success.

        :raises BackendUnavailable: no answer in time, or an error that may be temporary.
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
                f"{_origin(url)} does not answer: {type(exc).__name__}"
            ) from exc
        reply = Reply(response.status_code, response.text)
        if reply.status not in accepted:
            _check(url, reply)
        return reply


def _check(url: str, reply: Reply) -> None:
    if 200 <= reply.status < 300:
        return
    problem = f"{_origin(url)} answers {reply.status}: {_plain(reply.text) or 'nothing'}"
    if reply.status in LATER or reply.status >= 500:
        raise BackendUnavailable(problem)
    raise BackendBroken(problem)


def _origin(url: str) -> str:
    """Return scheme and host of *url*, without credentials and keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _plain(text: str) -> str:
    """Return the beginning of *text* in one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:SHOWN]).split())
