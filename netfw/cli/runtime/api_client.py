"""Client of the server's REST API for commands: reads resources, changes nothing."""

from __future__ import annotations

import argparse
import http.client
import json
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID

from attrs import field, frozen

from netfw.errors import BackendUnavailable, ConfigError, Forbidden, NotFound
from netfw.http.unix_connection import UnixConnection

DEFAULT_SOCKET: Final = "/run/netfw/api.sock"
_TIMEOUT = 30.0
_MOST_BYTES = 32 << 20
_MOST_RESOURCES = 1000
Body = dict[str, Any]


def add_api_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``--api`` to *parser*."""
    parser.add_argument(
        "--api",
        metavar="ADDRESS",
        help="the server's API: unix:PATH, or a URL; its token is read from the environment, "
        f"OS_TOKEN.  Default: OS_ENDPOINT of the environment, else unix:{DEFAULT_SOCKET} if it "
        "exists",
    )


def configured_api(address: str | None) -> ApiClient | None:
    """Return a client of the API at *address*, or at its usual place; ``None``: there is none.

    :raises ConfigError: the address is none.
    """
    chosen = address or os.environ.get("OS_ENDPOINT")
    if chosen is None:
        if not Path(DEFAULT_SOCKET).exists():
            return None
        chosen = f"unix:{DEFAULT_SOCKET}"
    scheme = chosen.partition(":")[0]
    if scheme not in ("unix", "http", "https") or chosen in ("unix:", "http://", "https://"):
        raise ConfigError(f"{chosen!r} is no address of an API: give unix:PATH, or a URL")
    return ApiClient(chosen, os.environ.get("OS_TOKEN", ""))


@frozen
class ApiClient:
    """The API at *address*; every request has a connection of its own."""

    address: str
    token: str = field(default="", repr=False)

    def show(self, collection: str, id: str) -> Body | None:
        """Return the resource, or ``None``.

        :raises BackendUnavailable: the server does not answer, or not as an API.
        :raises Forbidden: the server does not allow it to this client.
        """
        body = self._get(f"{collection}/{quote(id, safe='')}")
        return None if body is None else _only_value(body)

    def list(self, path: str, **filters: str) -> list[Body]:
        """Return the resources at *path*, 1000 at most.

        :raises BackendUnavailable: the server does not answer, or not as an API.
        :raises Forbidden: the server does not allow it to this client.
        """
        query = urlencode({**filters, "limit": str(_MOST_RESOURCES)})
        body = self._get(f"{path}?{query}")
        found = [] if body is None else _only_value(body)
        return list(found)

    def find(self, collection: str, name: str, attribute: str = "name") -> Body:
        """Return the resource with that id, or the only one whose *attribute* is *name*.

        :raises NotFound: there is none, or several have the name.
        """
        if _is_id(name) and (found := self.show(collection, name)) is not None:
            return found
        named = self.list(collection, **{attribute: name})
        if len(named) != 1:
            several, are = ("several", "are") if named else ("none", "is")
            where = f"{several} of the {collection} at {self.address}"
            raise NotFound(f"{where} {are} called {name!r}: give an id")
        return named[0]

    def _get(self, path: str) -> Body | None:
        try:
            status, data = self._request(f"/v2.0/{path}")
        except (OSError, http.client.HTTPException) as exc:
            raise BackendUnavailable(f"the API at {self.address} does not answer: {exc}") from exc
        if status == 404:
            return None
        if status in (401, 403):
            why = "set OS_TOKEN to a token of an administrator" if status == 401 else "not allowed"
            raise Forbidden(f"the API at {self.address} refuses to show {path}: {why}")
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        if status != 200 or not isinstance(body, dict):
            raise BackendUnavailable(f"the API at {self.address} answers {path} with {status}")
        return body

    def _request(self, path: str) -> tuple[int, bytes]:
        url = urlsplit(self.address)
        headers = {"Accept": "application/json", "Connection": "close"}
        if self.token:
            headers["X-Auth-Token"] = self.token
        connection: http.client.HTTPConnection
        if url.scheme == "unix":
            connection = UnixConnection(Path(self.address.partition(":")[2]), _TIMEOUT)
        elif url.scheme == "https":
            connection = http.client.HTTPSConnection(url.netloc, timeout=_TIMEOUT)
        else:
            connection = http.client.HTTPConnection(url.netloc, timeout=_TIMEOUT)
        try:
            connection.request(
                "GET", f"{url.path.rstrip('/') if url.netloc else ''}{path}", headers=headers
            )
            answer = connection.getresponse()
            data = answer.read(_MOST_BYTES + 1)
        finally:
            connection.close()
        if len(data) > _MOST_BYTES:
            raise BackendUnavailable(f"the API at {self.address}: an answer is too long")
        return answer.status, data


def _only_value(body: Body) -> Any:
    """Return the resource or the list in the envelope of an answer."""
    values = [value for name, value in body.items() if not name.endswith("_links")]
    if len(values) != 1 or not isinstance(values[0], dict | list):
        raise BackendUnavailable("an answer of the API is not one of this version")
    return values[0]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
