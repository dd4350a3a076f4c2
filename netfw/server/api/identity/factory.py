"""The identity that the configuration names."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address

from attrs import evolve
from oslo_config.cfg import ConfigOpts

from netfw.drivers.query import RequestContext
from netfw.errors import ConfigError, Unauthorized
from netfw.server.api.identity.headers import ClaimedIdentity, Environ, Method
from netfw.server.api.identity.noauth import NoAuth
from netfw.server.api.identity.proxy import TrustedProxy, networks
from netfw.server.api.identity.tokens import Tokens
from netfw.server.api.identity.unix_peer import group_ids, user_ids

LOG = logging.getLogger(__name__)


class Methods:
    """An :class:`~netfw.server.api.auth_protocols.Identity`: methods, tried in order."""

    def __init__(
        self, methods: Sequence[Method], is_admin: Callable[[RequestContext], bool]
    ) -> None:
        """*is_admin* is the policy's answer."""
        self._methods, self._is_admin = tuple(methods), is_admin
        challenges = [getattr(method, "challenge", "") for method in self._methods]
        self._challenge = next(filter(None, challenges), "Token")

    def __call__(self, environ: Environ) -> RequestContext:
        wants = []
        for method in self._methods:
            answer = method(environ)
            if isinstance(answer, ClaimedIdentity):
                return self._requester(answer, environ)
            wants.append(answer.wants)
        raise Unauthorized(
            f"nobody knows who you are; it takes {', or '.join(wants)}", self._challenge
        )

    def _requester(self, claim: ClaimedIdentity, environ: Environ) -> RequestContext:
        requester = RequestContext(
            project_id=claim.project_id,
            user=claim.user,
            roles=claim.roles,
            request_id=environ.get("netfw.request_id", ""),
        )
        if self._is_admin(requester):
            return evolve(requester, admin=True)
        if not requester.project_id:
            raise Unauthorized("your identity has no project; it takes one that is in a project")
        return requester

    def look(self) -> None:
        """Read files again that changed; what is wrong with one is logged."""
        for method in self._methods:
            if isinstance(method, Tokens):
                method.look()

    def reload(self) -> None:
        """Read again what can be read again.

        :raises ConfigError: something cannot be used; it stays as it was.
        """
        for method in self._methods:
            if isinstance(method, Tokens):
                method.reload()


def configured(conf: ConfigOpts, is_admin: Callable[[RequestContext], bool]) -> Methods:
    """The methods of the group ``identity``.

    :raises ConfigError: what is named there cannot be used.
    """
    makers: Mapping[str, Callable[[ConfigOpts], Method]] = {
        "noauth": _noauth,
        "tokens": lambda conf: Tokens(conf.identity.token_file),
        "keystone": _keystone,
        "proxy": _proxy,
    }
    names = conf.identity.methods
    if not names or len(set(names)) != len(names):
        raise ConfigError("[identity] methods: name at least one, and none twice")
    return Methods([makers[name](conf) for name in names], is_admin)


def refuse_unserved(conf: ConfigOpts, addresses: Sequence[str]) -> None:
    """Refuse to listen on TCP where nobody could be known; *addresses* are those listened on.

    :raises ConfigError: says which option to set.
    """
    options = conf.identity
    if not addresses or set(options.methods) != {"noauth"}:
        return
    if not (options.noauth_on_loopback or options.noauth_everybody_is_admin):
        raise ConfigError(
            f"nobody could be known on {', '.join(addresses)}: choose tokens, keystone or proxy in "
            "[identity] methods, or set noauth_on_loopback, which makes every user of this "
            "machine an administrator"
        )
    outside = [each for each in addresses if not _is_loopback(each)]
    if outside and not options.noauth_everybody_is_admin:
        LOG.warning(
            "%s can be reached from elsewhere, and nobody from there is served: noauth_on_loopback "
            "is for this machine's own users; bind 127.0.0.1, or choose another of [identity] "
            "methods",
            ", ".join(outside),
        )


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[] ")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _noauth(conf: ConfigOpts) -> NoAuth:
    options = conf.identity
    if options.noauth_everybody_is_admin:
        LOG.warning("whoever can reach the API is an administrator (noauth_everybody_is_admin)")
    return NoAuth(
        admin_uids=user_ids(options.admin_users, "admin_users") | {0, os.geteuid()},
        admin_gids=group_ids(options.admin_groups, "admin_groups"),
        others_are_members=options.other_users == "members",
        default_project=options.default_project,
        on_loopback=options.noauth_on_loopback,
        everybody=options.noauth_everybody_is_admin,
        hosts=frozenset(name.lower() for name in options.noauth_hosts),
    )


def _proxy(conf: ConfigOpts) -> TrustedProxy:
    options = conf.identity
    proxy = TrustedProxy(
        networks=networks(options.trusted_proxies),
        uids=user_ids(options.trusted_proxy_users, "trusted_proxy_users"),
    )
    if not (proxy.networks or proxy.uids):
        raise ConfigError(
            "[identity] methods has proxy, and neither trusted_proxies nor trusted_proxy_users "
            "says which"
        )
    return proxy


def _keystone(conf: ConfigOpts) -> Method:
    try:
        from netfw.server.api.identity.keystone import Keystone
    except ImportError as exc:
        raise ConfigError(
            f"[identity] methods has keystone, which needs {exc.name}: pip install netfw[keystone]"
        ) from exc
    return Keystone(conf, conf.identity.cached_tokens)
