"""The doors of a server: the API for clients, and messages for agents."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from netfw.cli.runtime.driver_options import values
from netfw.cli.server.components import ServerComponents
from netfw.cli.server.health import Check, HealthEndpoints
from netfw.cli.server.metrics import Metrics
from netfw.drivers.registry.loader import create
from netfw.drivers.transport import Transport
from netfw.errors import ConfigError
from netfw.http.server import HttpServer
from netfw.server.api import resource_registry
from netfw.server.api.app import make_app
from netfw.server.api.config import http_settings, request_limits, tls_files
from netfw.server.api.error_responses import worded
from netfw.server.api.events import find_subscribers
from netfw.server.api.identity import factory as identity
from netfw.server.api.policy import enforcement as policy
from netfw.server.api.policy.target import lookup_in
from netfw.state.rpc import StateRpcServer

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.drivers.base import HostResources

LOG = logging.getLogger(__name__)

Sockets = Mapping[str, socket.socket]
LOOK_EVERY = 1.1
"""Seconds; what looks at a file does so once a second at most."""


def transport_of(
    conf: ConfigOpts, host: HostResources, over: Mapping[str, str] | None = None
) -> Transport:
    """The transport that the configuration names, with the options *over* its own.

    :raises ConfigError: it cannot be.
    """
    name = conf.server.transport
    return create(Transport, name, {**values(conf, Transport, name), **(over or {})}, host)


def _place(conf: ConfigOpts) -> str:
    """The transport, and where it listens, if it is one that does."""
    name = conf.server.transport
    listen = values(conf, Transport, name).get("listen")
    return f"{name} on {', '.join(listen)}" if isinstance(listen, list) else str(name)


class AgentListener:
    """Agents' way in."""

    def __init__(self, parts: ServerComponents, over: Mapping[str, str] | None = None) -> None:
        self._transport = transport_of(parts.conf, parts.host, over)
        self._place = _place(parts.conf)
        self._desk = StateRpcServer(parts.source, self._transport)

    def take_address(self) -> None:
        """Have agents wait for an answer instead of finding nobody.

        :raises Conflict: the address is taken.
        """
        self._transport.share()

    def open(self) -> None:
        """Answer agents from now on.

        :raises Conflict: the address is taken.
        """
        self._desk.open()
        LOG.info("agents are served by the transport %s", self._place)

    def close(self) -> None:
        """Finish what is being answered, and answer no more."""
        self._desk.close()
        self._transport.close()


class ApiBundle:
    """The API as an application, and what of it can be read again.

    :raises ConfigError: the declarations, the rules or the identity cannot be.
    """

    def __init__(self, parts: ServerComponents, sockets: Sockets) -> None:
        conf = parts.conf
        extending = parts.core.extensions.declared()
        declared = resource_registry.build(parts.plugins, extending=extending, api=parts.extensions)
        more = [rule for extension in parts.extensions for rule in extension.policies()]
        lookup = lookup_in(parts.plugins)
        self._policy = policy.make_policy(conf, declared.resources, lookup, more)
        self._identity = identity.make_methods(conf, self._policy.is_admin)
        identity.validate_listeners(conf, [name for name in sockets if not _is_unix(sockets[name])])
        self.collections = [each.collection for each in declared.resources]
        self.app = make_app(
            declared,
            parts.plugins,
            policy=self._policy,
            identity=self._identity,
            limits=request_limits(conf),
            subscribers=find_subscribers([parts.plugin, *parts.services]),
        )

    def look(self) -> None:
        """Read rules and tokens again if their files changed; what is wrong is logged."""
        for each in (self._policy, self._identity):
            each.reload_if_changed()

    def reload(self) -> None:
        """Read rules and tokens again; what cannot be used stays as it was."""
        for each in (self._policy, self._identity):
            try:
                each.reload()
            except ConfigError as exc:
                LOG.error("not reloaded: %s", exc)


class ApiListener:
    """Clients' way in: the API, if this server has one, and the probes of the process."""

    def __init__(self, parts: ServerComponents, sockets: Sockets, starting: Check) -> None:
        conf = parts.conf
        self.api = ApiBundle(parts, sockets) if "api" in conf.server.serve else None
        metrics = Metrics(() if self.api is None else self.api.collections, parts.state)
        probes = HealthEndpoints(
            starting=starting,
            ready=lambda: "it is ending" if self._closed.is_set() else parts.why_not_ready(),
            metrics=metrics.text,
            api=None if self.api is None else metrics.counting(self.api.app),
        )
        self._closed = threading.Event()
        self._looking = threading.Thread(target=self._look, name="netfw-files", daemon=True)
        settings, tls = http_settings(conf), tls_files(conf)
        self._servers = {
            name: HttpServer(
                probes, each, settings, None if _is_unix(each) else tls, wording=worded, name="api"
            )
            for name, each in sockets.items()
        }

    def open(self) -> None:
        """Answer clients from now on."""
        served = "probes are" if self.api is None else "the API is"
        for name, server in self._servers.items():
            server.start()
            LOG.info("%s on %s", served, name)
        self._looking.start()

    def close(self, grace: float) -> None:
        """Finish what is being answered within *grace* seconds, and answer no more."""
        self._closed.set()
        for name, server in self._servers.items():
            if not server.stop(grace):
                LOG.warning("requests on %s did not end within %g s", name, grace)

    def reload(self) -> None:
        """Take over what can change while it runs."""
        if self.api is not None:
            self.api.reload()

    def _look(self) -> None:
        """Notice changed files without a request: an operator waits for the log to say so."""
        while self.api is not None and not self._closed.wait(LOOK_EVERY):
            self.api.look()


class Listeners:
    """All doors that the configuration opens; closed the other way round.

    Entering it takes all addresses, and serves the probes.  Clients and agents are served from
    :meth:`open` on.
    """

    def __init__(
        self, parts: ServerComponents, sockets: Sockets, over: Mapping[str, str] | None = None
    ) -> None:
        self._parts = parts
        self.starting = "it is starting"
        """Why clients are not served yet."""
        wanted = parts.conf.server.serve
        self.messages = AgentListener(parts, over) if "messages" in wanted else None
        self.clients = ApiListener(parts, sockets, lambda: self.starting)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.messages is not None:
                stack.callback(self.messages.close)
                self.messages.take_address()
            stack.callback(self.clients.close, self._parts.conf.server.graceful_stop)
            self.clients.open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> None:
        """Serve clients and agents from now on."""
        if self.messages is not None:
            self.messages.open()
        self.starting = ""

    def reload(self) -> None:
        """Take over what can change while it runs."""
        self.clients.reload()


def _is_unix(each: socket.socket) -> bool:
    return each.family == socket.AF_UNIX
