"""``noauth``: authentication by the peer credentials of the unix socket.

An administrator may act for any project, as any user, with any roles, by identity headers, as
clients of OpenStack's services without authentication do.
"""

from __future__ import annotations

import ipaddress

from attrs import frozen

from netfw.linux.sockets.peer_credentials import PeerCredentials
from netfw.server.api.identity.headers import (
    ClaimedIdentity,
    Environ,
    NamedIdentity,
    Unauthenticated,
    header,
    named_identity,
)
from netfw.server.api.identity.unix_peer import Address, peer

ADMIN_ROLES = frozenset({"admin", "member", "reader"})
MEMBER_ROLES = frozenset({"member", "reader"})
_OTHER_SITES = ("cross-site", "same-site")
"""What browsers say in ``Sec-Fetch-Site`` of the pages of others, whose images have no Origin."""
_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_VIA")


@frozen(kw_only=True)
class NoAuth:
    """The authentication method ``noauth``: local processes are identified by their user."""

    admin_uids: frozenset[int]
    admin_gids: frozenset[int] = frozenset()
    others_are_members: bool = False
    default_project: str = "default"
    on_loopback: bool = False
    allow_remote_admin: bool = False
    hosts: frozenset[str] = frozenset({"localhost"})
    """Names that the ``Host`` header may have on TCP, besides addresses."""

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        client = peer(environ)
        if isinstance(client, PeerCredentials):
            return self._local_process(client, named_identity(environ))
        if client is None or not self._allows_tcp(client):
            return Unauthenticated("a connection to the unix socket")
        if reason := self._browser_or_proxy_reason(environ):
            return Unauthenticated(reason)
        return self._administrator(named_identity(environ), f"tcp-{client}")

    def _local_process(
        self, process: PeerCredentials, named: NamedIdentity
    ) -> ClaimedIdentity | Unauthenticated:
        if process.uid in self.admin_uids or (
            self.admin_gids and not self.admin_gids.isdisjoint(process.groups())
        ):
            return self._administrator(named, f"uid-{process.uid}")
        if not self.others_are_members:
            return Unauthenticated(
                "a user that [identity] noauth_admin_users or noauth_admin_groups names"
            )
        own = f"uid-{process.uid}"
        if named.project_id not in (None, own) or named.user not in (None, own):
            return Unauthenticated(
                f"no other project and user than {own} in X-Project-Id and X-User-Id"
            )
        if not (named.roles or MEMBER_ROLES) <= MEMBER_ROLES:
            return Unauthenticated("no other roles than member and reader in X-Roles")
        return ClaimedIdentity(
            project_id=own, user=own, roles=_or_default(named.roles, MEMBER_ROLES)
        )

    def _administrator(self, named: NamedIdentity, user: str) -> ClaimedIdentity:
        return ClaimedIdentity(
            project_id=named.project_id or self.default_project,
            user=named.user or user,
            roles=_or_default(named.roles, ADMIN_ROLES),
        )

    def _allows_tcp(self, address: Address) -> bool:
        return self.allow_remote_admin or (self.on_loopback and address.is_loopback)

    def _browser_or_proxy_reason(self, environ: Environ) -> str | None:
        """Return why a web page or a proxy may have caused the request, or ``None``."""
        if not self.allow_remote_admin and any(name in environ for name in _FORWARDED):
            return "no proxy in between: its clients would all look like users of this machine"
        if "HTTP_ORIGIN" in environ:
            return "no Origin header: it marks a request of a web page"
        if environ.get("HTTP_SEC_FETCH_SITE", "").strip().lower() in _OTHER_SITES:
            return "no Sec-Fetch-Site header of another site: it marks a request of its web page"
        host = _host_name(header(environ, "Host") or "")
        if host in self.hosts or _is_address(host):
            return None
        return "a Host header that is an address, or a name in [identity] noauth_hosts"


def _or_default(given: frozenset[str] | None, default: frozenset[str]) -> frozenset[str]:
    return default if given is None else given


def _host_name(host: str) -> str:
    """Return *host* without port, brackets and final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
