"""``keystone``: OpenStack's identity service, by its own middleware.

Everything that imports keystonemiddleware is in here.  It reads ``[keystone_authtoken]`` of the
process's own configuration object, and keeps the tokens it has seen in a cache of ours, which does
not grow without end.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from keystoneauth1.exceptions import ClientException
from keystonemiddleware.auth_token import AuthProtocol, ConfigurationError
from oslo_config import cfg

from netfw.errors import BackendUnavailable, ConfigError
from netfw.server.api.identity.headers import (
    ClaimedIdentity,
    Environ,
    Unauthenticated,
    named_identity,
    token,
)

_CACHE = "netfw.keystone_tokens"


class BoundedCache:
    """What memcached's clients offer, within this process; the least used goes first."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """What was set, unless its time is over."""
        with self._lock:
            until, value = self._found.get(key, (0.0, None))
            if value is None:
                return None
            if until <= self._clock():
                del self._found[key]
                return None
            self._found.move_to_end(key)
            return value

    def set(self, key: str, value: bytes, time: float = 0) -> bool:
        """Remember *value* for *time* seconds; without any it is not remembered."""
        if time <= 0:
            return True
        with self._lock:
            self._found[key] = self._clock() + time, value
            self._found.move_to_end(key)
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return True


class Keystone:
    """Knows whom Keystone knows."""

    def __init__(self, conf: cfg.ConfigOpts, cached_tokens: int) -> None:
        """Nothing is connected yet.

        :raises ConfigError: ``[keystone_authtoken]`` cannot be used.
        """
        self._cache = BoundedCache(cached_tokens)
        self.challenge = "Keystone"
        settings = {"oslo_config_config": conf, "cache": _CACHE}
        try:
            self._middleware = AuthProtocol(_let_through, settings)
        except (cfg.Error, ConfigurationError, ClientException, ValueError) as exc:
            raise ConfigError(f"[keystone_authtoken]: {exc}") from exc
        if uri := conf.keystone_authtoken.www_authenticate_uri:
            self.challenge = f'Keystone uri="{uri}"'
        if self._middleware._auth is None:
            raise ConfigError(
                "[keystone_authtoken] auth_type is missing: name the account with which tokens "
                "are validated"
            )

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        if token(environ) is None:
            return Unauthenticated("a token of Keystone's in X-Auth-Token")
        inner = {**environ, _CACHE: self._cache}
        status, seen = self._validate(inner)
        if status == HTTPStatus.UNAUTHORIZED:
            return Unauthenticated("a token in X-Auth-Token that Keystone confirms")
        if status != HTTPStatus.OK or seen is None:
            raise BackendUnavailable("Keystone, which could tell who you are, does not answer")
        named = named_identity(seen)
        return ClaimedIdentity(
            project_id=named.project_id or "",
            user=named.user or "",
            roles=named.roles or frozenset(),
        )

    def _validate(self, environ: dict[str, Any]) -> tuple[int, Environ | None]:
        statuses: list[int] = []

        def start_response(status: str, headers: object, failure: object = None) -> None:
            statuses.append(int(status.split(maxsplit=1)[0]))

        seen: list[Environ] = []
        environ["netfw.seen"] = seen.append
        try:
            self._middleware(environ, start_response)
        except ClientException as exc:
            raise BackendUnavailable(f"Keystone cannot say who you are: {exc}") from exc
        return statuses[0], seen[0] if seen else None


def _let_through(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], None]
) -> Iterable[bytes]:
    """What stands behind the middleware: it only notes that it was reached, and how."""
    environ["netfw.seen"](environ)
    start_response("200 OK", [])
    return ()
