"""Build the authentication methods from the configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address

from attrs import evolve
from oslo_config.cfg import ConfigOpts

from netfw.drivers.server.query import RequestContext
from netfw.errors import ConfigError, Unauthorized
from netfw.server.api.identity.headers import ClaimedIdentity, Environ, Method
from netfw.server.api.identity.noauth import NoAuth
from netfw.server.api.identity.proxy import TrustedProxy, parse_networks
from netfw.server.api.identity.tokens import Tokens
from netfw.server.api.identity.unix_peer import group_ids, user_ids

LOG = logging.getLogger(__name__)


class Methods:
    """The :class:`~netfw.server.api.auth_interfaces.Authenticator` that tries methods in order."""

    def __init__(
        self, methods: Sequence[Method], is_admin: Callable[[RequestContext], bool]
    ) -> None:
        """*is_admin* is the decision of the policy."""
        self._methods, self._is_admin = tuple(methods), is_admin
        challenges = [getattr(method, "challenge", "") for method in self._methods]
        self._challenge = next(filter(None, challenges), "Token")

    def __call__(self, environ: Environ) -> RequestContext:
        wants = []
        for method in self._methods:
            result = method(environ)
            if isinstance(result, ClaimedIdentity):
                return self._requester(result, environ)
            wants.append(result.wants)
        raise Unauthorized(
            f"the request is not authenticated; it takes {', or '.join(wants)}", self._challenge
        )

    def _requester(self, identity: ClaimedIdentity, environ: Environ) -> RequestContext:
        requester = RequestContext(
            project_id=identity.project_id,
            user=identity.user,
            roles=identity.roles,
            request_id=environ.get("netfw.request_id", ""),
        )
        if self._is_admin(requester):
            return evolve(requester, admin=True)
        if not requester.project_id:
            raise Unauthorized("your identity has no project; it takes one that is in a project")
        return requester

    def reload_if_changed(self) -> None:
        """Reload files that changed; a problem is logged."""
        for method in self._methods:
            if isinstance(method, Tokens):
                method.reload_if_changed()

    def reload(self) -> None:
        """Reload the token files.

        :raises ConfigError: a file is not usable; its former contents stay in force.
        """
        for method in self._methods:
            if isinstance(method, Tokens):
                method.reload()


def make_methods(conf: ConfigOpts, is_admin: Callable[[RequestContext], bool]) -> Methods:
    """Build the methods that ``[identity] methods`` names.

    :raises ConfigError: a method is not usable as configured.
    """
    makers: Mapping[str, Callable[[ConfigOpts], Method]] = {
        "noauth": _noauth,
        "tokens": _tokens,
        "keystone": _keystone,
        "proxy": _proxy,
    }
    names = conf.identity.methods
    if not names or len(set(names)) != len(names):
        raise ConfigError("[identity] methods: name at least one, and none twice")
    return Methods([makers[name](conf) for name in names], is_admin)


def _tokens(conf: ConfigOpts) -> Tokens:
    path: str = conf.identity.token_file
    try:
        return Tokens(path)
    except ConfigError as exc:
        is_missing = isinstance(exc.__cause__, FileNotFoundError)
        advice = (
            f"; `netfw token USER --project PROJECT --file {path}` creates it" if is_missing else ""
        )
        raise ConfigError(f"[identity] token_file: {exc}{advice}") from exc


def validate_listeners(conf: ConfigOpts, addresses: Sequence[str]) -> None:
    """Raise for TCP *addresses* on which no method could authenticate a request.

    :raises ConfigError: says which option to set.
    """
    options = conf.identity
    if not addresses or set(options.methods) != {"noauth"}:
        return
    if not (options.noauth_on_loopback or options.noauth_allow_remote_admin):
        raise ConfigError(
            f"no request could be authenticated on {', '.join(addresses)}: choose tokens, keystone "
            "or proxy in [identity] methods, or set noauth_on_loopback, which makes every user of "
            "this machine an administrator"
        )
    outside = [each for each in addresses if not _is_loopback(each)]
    if outside and not options.noauth_allow_remote_admin:
        LOG.warning(
            "%s can be reached from other hosts, whose requests are refused: noauth_on_loopback "
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
    if options.noauth_allow_remote_admin:
        LOG.warning(
            "noauth_allow_remote_admin: every client that reaches the API is an administrator"
        )
    return NoAuth(
        admin_uids=user_ids(options.noauth_admin_users, "noauth_admin_users") | {0, os.geteuid()},
        admin_gids=group_ids(options.noauth_admin_groups, "noauth_admin_groups"),
        others_are_members=options.noauth_other_users == "members",
        default_project=options.noauth_default_project,
        on_loopback=options.noauth_on_loopback,
        allow_remote_admin=options.noauth_allow_remote_admin,
        hosts=frozenset(name.lower() for name in options.noauth_hosts),
    )


def _proxy(conf: ConfigOpts) -> TrustedProxy:
    options = conf.identity
    proxy = TrustedProxy(
        networks=parse_networks(options.trusted_proxies),
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
