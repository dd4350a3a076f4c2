"""``proxy``: authentication by identity headers, accepted from trusted proxies only."""

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
    """The authentication method ``proxy``.

    The proxy must remove these headers from the requests of its own clients.  Where it sends
    ``X-Identity-Status``, only ``Confirmed`` is accepted.
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
        client = peer(environ)
        if isinstance(client, PeerCredentials):
            return client.uid in self.uids
        return client is not None and any(client in network for network in self.networks)


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse the addresses and networks of ``trusted_proxies``.

    :raises ConfigError: one of them is neither.
    """
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as exc:
        raise ConfigError(f"[identity] trusted_proxies: {exc}") from exc
