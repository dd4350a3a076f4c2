"""``proxy``: believe the identity headers of those whom the operator trusts, and of nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from attrs import frozen

from netfw.errors import ConfigError
from netfw.linux.sockets.peer_credentials import PeerCredentials
from netfw.server.api.identity.headers import (
    ClaimedIdentity,
    Environ,
    Unauthenticated,
    header,
    named_identity,
)
from netfw.server.api.identity.unix_peer import peer

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@frozen(kw_only=True)
class TrustedProxy:
    """Knows whom a proxy vouches for.

    The proxy must remove what its own clients say in these headers, and it says in
    ``X-Identity-Status``, if at all, whether it confirmed them.
    """

    networks: tuple[Network, ...] = ()
    uids: frozenset[int] = frozenset()

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        if not self._trusts(environ):
            return Unauthenticated(
                "a proxy that [identity] trusted_proxies or trusted_proxy_users names"
            )
        if (header(environ, "X-Identity-Status") or "Confirmed") != "Confirmed":
            return Unauthenticated("a token that the proxy confirms")
        named = named_identity(environ)
        if named.roles is None or named.user is None:
            return Unauthenticated("X-User-Id, X-Roles and X-Project-Id from the proxy")
        return ClaimedIdentity(
            project_id=named.project_id or "", user=named.user, roles=named.roles
        )

    def _trusts(self, environ: Environ) -> bool:
        who = peer(environ)
        if isinstance(who, PeerCredentials):
            return who.uid in self.uids
        return who is not None and any(who in network for network in self.networks)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Addresses and networks as the operator writes them.

    :raises ConfigError: one of them is neither.
    """
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as exc:
        raise ConfigError(f"[identity] trusted_proxies: {exc}") from exc
