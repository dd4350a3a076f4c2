"""``keystone``: authentication by OpenStack's keystonemiddleware.

Only this module imports keystonemiddleware.  The middleware reads ``[keystone_authtoken]`` of the
process's own configuration object, and caches validated tokens in a :class:`BoundedCache`.
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
    """An in-process LRU cache with TTL, with the interface of a memcached client."""

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity, self._clock = capacity, clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        """Return the value of *key*, or ``None`` if it is missing or expired."""
        with self._lock:
            until, value = self._entries.get(key, (0.0, None))
            if value is None:
                return None
            if until <= self._clock():
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def set(self, key: str, value: bytes, time: float = 0) -> bool:
        """Cache *value* for *time* seconds; zero does not cache it."""
        if time <= 0:
            return True
        with self._lock:
            self._entries[key] = self._clock() + time, value
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
        return True


class Keystone:
    """The authentication method ``keystone``."""

    def __init__(self, conf: cfg.ConfigOpts, cached_tokens: int) -> None:
        """Build the middleware, without connecting to Keystone.

        :raises ConfigError: ``[keystone_authtoken]`` is not usable.
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
            raise BackendUnavailable("Keystone does not answer")
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
            raise BackendUnavailable(f"Keystone cannot validate the token: {exc}") from exc
        return statuses[0], seen[0] if seen else None


def _let_through(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], None]
) -> Iterable[bytes]:
    """Record the environment that the middleware passes on, and answer 200."""
    environ["netfw.seen"](environ)
    start_response("200 OK", [])
    return ()
