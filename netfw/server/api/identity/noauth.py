"""``noauth``: believe whom the kernel says is there, and nobody from farther away.

Administrators may act for any project, as any user, with any roles: they say so in headers, as
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
_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_REAL_IP", "HTTP_VIA")


@frozen(kw_only=True)
class NoAuth:
    """Knows the processes of this machine by their users."""

    admin_uids: frozenset[int]
    admin_gids: frozenset[int] = frozenset()
    others_are_members: bool = False
    default_project: str = "default"
    on_loopback: bool = False
    everybody: bool = False
    hosts: frozenset[str] = frozenset({"localhost"})
    """Names, beside addresses, that clients may know the server by."""

    def __call__(self, environ: Environ) -> ClaimedIdentity | Unauthenticated:
        who = peer(environ)
        if isinstance(who, PeerCredentials):
            return self._process(who, named_identity(environ))
        if who is None or not self._served(who):
            return Unauthenticated("a connection to the unix socket")
        if fault := self._of_a_browser_or_proxy(environ, who):
            return Unauthenticated(fault)
        return self._administrator(named_identity(environ), f"tcp-{who}")

    def _process(
        self, process: PeerCredentials, named: NamedIdentity
    ) -> ClaimedIdentity | Unauthenticated:
        if process.uid in self.admin_uids or (
            self.admin_gids and not self.admin_gids.isdisjoint(process.groups())
        ):
            return self._administrator(named, f"uid-{process.uid}")
        if not self.others_are_members:
            return Unauthenticated("a user that [identity] admin_users or admin_groups names")
        own = f"uid-{process.uid}"
        if named.project_id not in (None, own) or named.user not in (None, own):
            return Unauthenticated(
                f"no other project and user than {own} in X-Project-Id and X-User-Id"
            )
        if not (named.roles or MEMBER_ROLES) <= MEMBER_ROLES:
            return Unauthenticated("no other roles than member and reader in X-Roles")
        return ClaimedIdentity(project_id=own, user=own, roles=_or(named.roles, MEMBER_ROLES))

    def _administrator(self, named: NamedIdentity, user: str) -> ClaimedIdentity:
        return ClaimedIdentity(
            project_id=named.project_id or self.default_project,
            user=named.user or user,
            roles=_or(named.roles, ADMIN_ROLES),
        )

    def _served(self, address: Address) -> bool:
        return self.everybody or (self.on_loopback and address.is_loopback)

    def _of_a_browser_or_proxy(self, environ: Environ, address: Address) -> str | None:
        """Why the request may be somebody else's than of the process that sent it."""
        if not self.everybody and any(name in environ for name in _FORWARDED):
            return "no proxy in between: it makes everybody look as if he were on this machine"
        if "HTTP_ORIGIN" in environ:
            return "no Origin header: it is a web page that asks"
        host = _host_name(header(environ, "Host") or "")
        if host in self.hosts or _is_address(host):
            return None
        return "a Host header that is an address, or a name in [identity] noauth_hosts"


def _or(given: frozenset[str] | None, otherwise: frozenset[str]) -> frozenset[str]:
    return otherwise if given is None else given


def _host_name(host: str) -> str:
    """Without port, brackets and final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
