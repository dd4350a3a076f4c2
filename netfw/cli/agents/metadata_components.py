"""The metadata agent, built from its configuration."""

from __future__ import annotations

import grp
import logging
import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from netfw.agents.common.loop import Intervals
from netfw.agents.metadata.agent import MetadataAgent
from netfw.agents.metadata.health_file import HealthProbe
from netfw.agents.metadata.instance_cache import CachePolicy, InstanceCache
from netfw.agents.metadata.proxy_app import MAX_REQUEST_BODY, ForwardingTarget, MetadataProxyApp
from netfw.agents.metadata.state_report import (
    MetadataSettings,
    RunAs,
    allowed_peers,
    socket_mode,
)
from netfw.agents.metadata.unix_listener import UnixListener
from netfw.agents.metadata.upstream_pool import TlsTrust, UpstreamConfig, UpstreamPool
from netfw.cli.agents.common import SOURCE_KINDS, timing_of
from netfw.cli.agents.components import ConfiguredComponents
from netfw.cli.runtime.driver_options import driver_options, groups_of
from netfw.conf import core, metadata_agent
from netfw.conf.agent import COMMON
from netfw.conf.agent import GROUP as AGENT_GROUP
from netfw.conf.loader import Groups
from netfw.conf.metadata_agent import GROUP, OWN, PROGRAM, PROXY_USERS, STATE
from netfw.errors import ConfigError
from netfw.http.server import HttpSettings
from netfw.linux.fs.lock_file import LockFile
from netfw.linux.fs.permissions import exposure_problem
from netfw.linux.process.users import first_user

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts, Opt

LOG = logging.getLogger(__name__)

LOOK_EVERY = 5.0
"""Seconds between checks of the listening socket."""


def metadata_groups(argv: Sequence[str]) -> Groups:
    """Return the options of the metadata agent that the files in *argv* choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    return groups_of(PROGRAM, argv, {AGENT_GROUP: COMMON, GROUP: OWN}, SOURCE_KINDS)


def list_opts() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the options of the agent and of every driver that it can use, for the sample file."""
    own = [(AGENT_GROUP, COMMON), *metadata_agent.list_opts()]
    return [*core.list_opts(), *own, *driver_options(SOURCE_KINDS)]


class MetadataAgentComponents(ConfiguredComponents):
    """State source, proxy application and listener of one metadata agent.

    :raises ConfigError: the configuration is not possible.
    """

    PROGRAM = PROGRAM

    def build(self) -> None:
        conf, stack = self._conf, self._stack
        settings = _settings(conf)
        _check_directories(
            {
                "metadata_proxy_socket": settings.socket,
                "status_file": self.status_path(),
                "liveness_file": _liveness_path(conf),
            }
        )
        self._liveness = HealthProbe(
            _liveness_path(conf), settings.socket, lambda: conf[GROUP].liveness_interval
        )
        self._relay = MetadataProxyApp(
            InstanceCache(self.source.request, _cache_policy(conf)),
            _policy(conf),
            share=max(1, settings.workers // 2),
            peers=settings.peers,
            probe=self._liveness.token,
            alive=self._liveness.write,
        )
        stack.callback(self._forget_service)
        listener = UnixListener(
            self._relay,
            settings.socket,
            mode=settings.mode,
            settings=_http(settings),
            lock=LockFile(settings.socket.with_name(f"{settings.socket.name}.lock")),
        )
        stack.callback(listener.close)
        stack.callback(self._liveness.close)
        self.agent = MetadataAgent(settings, self._relay, listener, self._liveness)

    def __str__(self) -> str:
        settings = self.agent.settings
        return (
            f"{super().__str__()}, socket {settings.socket}, "
            f"metadata service {_service(self._conf)}"
        )

    def timing(self) -> Intervals:
        return timing_of(self._conf, LOOK_EVERY)

    def status_path(self) -> Path:
        default = Path(self._conf.state_path) / STATE / f"{PROGRAM}.json"
        return Path(self._conf.agent.status_file or default)

    def reload(self) -> None:
        """Apply changed options and TLS files; on an error, keep the former ones."""
        try:
            settings, policy = _settings(self._conf), _policy(self._conf)
        except ConfigError as exc:
            LOG.error("the metadata service stays as it was: %s", exc)
            return
        former, self._relay.policy = self._relay.policy, policy
        former.upstream.close()
        self._relay.directory.policy = _cache_policy(self._conf)
        self.agent.settings = settings
        LOG.info("the metadata service is %s", _service(self._conf))

    def _forget_service(self) -> None:
        self._relay.policy.upstream.close()


def _check_directories(paths: Mapping[str, Path]) -> None:
    """Check the directories of *paths* by option; those of an agent without privileges are its own.

    :raises ConfigError: this is root, and others could change a directory.
    """
    for option, path in paths.items():
        if problem := exposure_problem(path.parent):
            raise ConfigError(f"{option}: {problem}, or run this agent as that user")


def _settings(conf: ConfigOpts) -> MetadataSettings:
    options = conf[GROUP]
    agent = RunAs(user=os.geteuid(), group=os.getegid())
    proxy = _proxy(options.metadata_proxy_user, options.metadata_proxy_group, agent)
    return MetadataSettings(
        host=conf.host,
        socket=Path(options.metadata_proxy_socket),
        mode=socket_mode(options.metadata_proxy_socket_mode, agent, proxy),
        peers=allowed_peers(options.metadata_proxy_socket_mode, agent, proxy),
        service_host=options.nova_metadata_host,
        service_port=options.nova_metadata_port,
        workers=options.metadata_workers,
        backlog=options.metadata_backlog,
        binary=PROGRAM,
    )


def _proxy(user: str, group: str, agent: RunAs) -> RunAs:
    """Return the user and group that proxies run as; those of the *agent* if there is no other.

    :raises ConfigError: the machine has no such user or group.
    """
    found, user = agent, user or first_user(PROXY_USERS) or ""
    try:
        if user:
            entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
            found = RunAs(user=entry.pw_uid, group=entry.pw_gid)
        if group:
            number = int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
            found = evolve(found, group=number)
    except KeyError as exc:
        raise ConfigError(
            f"[{GROUP}] metadata_proxy_user {user!r}, metadata_proxy_group {group!r}: {exc.args[0]}"
            "; write those of [haproxy]"
        ) from exc
    return found


def _http(settings: MetadataSettings) -> HttpSettings:
    return HttpSettings(
        threads=settings.workers,
        queue=settings.backlog,
        backlog=max(512, settings.backlog),
        connections=settings.backlog + settings.workers,
        body=MAX_REQUEST_BODY,
    )


def _policy(conf: ConfigOpts) -> ForwardingTarget:
    options = conf[GROUP]
    upstream = UpstreamPool(_service(conf), spare=options.metadata_workers)
    return ForwardingTarget(upstream, options.metadata_proxy_shared_secret)


def _service(conf: ConfigOpts) -> UpstreamConfig:
    options = conf[GROUP]
    trust = TlsTrust(
        authorities=options.auth_ca_cert,
        certificate=options.nova_client_cert,
        key=options.nova_client_priv_key,
        insecure=options.nova_metadata_insecure,
    )
    return UpstreamConfig(
        host=options.nova_metadata_host,
        port=options.nova_metadata_port,
        tls=trust if options.nova_metadata_protocol == "https" else None,
        timeout=options.nova_metadata_timeout,
    )


def _cache_policy(conf: ConfigOpts) -> CachePolicy:
    options = conf[GROUP]
    return CachePolicy(
        found=options.metadata_cache_seconds,
        none=options.metadata_cache_negative_seconds,
        most=options.metadata_cache_size,
    )


def _liveness_path(conf: ConfigOpts) -> Path:
    default = Path(conf.state_path) / STATE / f"{PROGRAM}.alive"
    return Path(conf[GROUP].liveness_file or default)
