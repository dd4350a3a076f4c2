"""The listeners of a server: the API for clients, and RPC for agents."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from netfw.cli.runtime.driver_options import values
from netfw.cli.runtime.health import Check, HealthEndpoints
from netfw.cli.server.components import ServerComponents
from netfw.cli.server.metrics import Metrics
from netfw.drivers.registry.loader import create
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.transport import Transport
from netfw.errors import ConfigError
from netfw.http.event_streams import EventStreams
from netfw.http.server import HttpServer, admit_all
from netfw.server.api import resource_registry
from netfw.server.api.app import make_app
from netfw.server.api.config import http_settings, request_limits, stream_settings, tls_files
from netfw.server.api.error_responses import render_json_error
from netfw.server.api.events import find_subscribers
from netfw.server.api.identity import factory as identity
from netfw.server.api.live.page import ChangeSource, LivePage
from netfw.server.api.policy import enforcement as policy
from netfw.server.api.policy.target import lookup_in
from netfw.state.rpc import StateRpcServer

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.drivers.base import HostResources

LOG = logging.getLogger(__name__)

Sockets = Mapping[str, socket.socket]
STUCK_AFTER = 60.0
"""Seconds without a turn of a listener after which it counts as stuck; a turn takes a moment."""
LOOK_EVERY = 1.1
"""Seconds between checks of watched files."""


def transport_of(
    conf: ConfigOpts, host: HostResources, over: Mapping[str, str] | None = None
) -> Transport:
    """Make the transport that the configuration names; *over* overrides its options.

    :raises ConfigError: its options are not possible.
    """
    name = conf.server.transport
    return create(Transport, name, {**values(conf, Transport, name), **(over or {})}, host)


def _address(conf: ConfigOpts) -> str:
    """Return the name of the transport and its listen address, for the log."""
    name = conf.server.transport
    listen = values(conf, Transport, name).get("listen")
    return f"{name} on {', '.join(listen)}" if isinstance(listen, list) else str(name)


class AgentListener:
    """The RPC listener for agents."""

    def __init__(
        self, parts: ServerComponents, metrics: Metrics, over: Mapping[str, str] | None = None
    ) -> None:
        self._transport = transport_of(parts.conf, parts.host, over)
        self._address = _address(parts.conf)
        self._rpc_server = StateRpcServer(parts.source, self._transport, observe=metrics.count_call)

    def take_address(self) -> None:
        """Bind the address: agents that connect wait for an answer instead of failing.

        :raises Conflict: the address is taken.
        """
        self._transport.share_address()

    def open(self) -> None:
        """Start to serve agents.

        :raises Conflict: the address is taken.
        """
        self._rpc_server.open()
        LOG.info("agents are served by the transport %s", self._address)

    def close(self) -> None:
        """Finish the calls in flight, and stop."""
        self._rpc_server.close()
        self._transport.close()


class ApiBundle:
    """The API application, and those of its files that can be reloaded.

    :raises ConfigError: the schemas, the policy rules or the identity options are wrong.
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
        self.collections = [each.path for each in declared.resources]
        self.live = _live_page(parts) if conf.api.live_page else None
        self.app = make_app(
            declared,
            parts.plugins,
            policy=self._policy,
            identity=self._identity,
            limits=request_limits(conf),
            subscribers=find_subscribers([parts.plugin, *parts.services]),
            public_url=conf.api.public_url or "",
            live=self.live,
        )

    def look(self) -> None:
        """Reload rules and tokens if their files changed; log what is wrong."""
        for each in (self._policy, self._identity):
            each.reload_if_changed()

    def reload(self) -> None:
        """Reload rules and tokens; keep the former ones where a file is wrong."""
        for each in (self._policy, self._identity):
            try:
                each.reload()
            except ConfigError as exc:
                LOG.error("not reloaded: %s", exc)


def _live_page(parts: ServerComponents) -> LivePage:
    changes = ChangeSource(
        cursor=lambda: parts.database.read(lambda view: view.journal.cursor()),
        listen=parts.commits.listen,
    )
    page = LivePage(changes, EventStreams(stream_settings(parts.conf)))
    parts.status_listeners.append(page.note_reports)
    return page


class ApiListener:
    """The HTTP listener: the API, if this server has one, and the health endpoints."""

    def __init__(self, parts: ServerComponents, sockets: Sockets, starting: Check) -> None:
        conf = parts.conf
        self.api = ApiBundle(parts, sockets) if "api" in conf.server.serve else None
        self.metrics = metrics = Metrics(
            () if self.api is None else self.api.collections, parts.state
        )
        probes = HealthEndpoints(
            description="this server answers agents only ([server] serve)",
            stuck=self.stuck_reason,
            starting=starting,
            ready=lambda: self._unready_reasons(parts),
            metrics=metrics.text,
            api=None if self.api is None else metrics.counting(self.api.app),
        )
        self._closed = threading.Event()
        self._looking: threading.Thread | None = None
        settings, tls = http_settings(conf), tls_files(conf)
        self._servers = {
            name: HttpServer(
                probes,
                each,
                settings,
                None if _is_unix(each) else tls,
                render_error=render_json_error,
                admit=admit_all if self.api is None else self.api.app.admit,
                name="api",
            )
            for name, each in sockets.items()
        }
        self._unopened = list(self._servers)

    def open(self) -> None:
        """Start to serve clients, once.

        :raises BackendUnavailable: the machine has no thread left; a later call serves the rest.
        """
        served = "probes are" if self.api is None else "the API is"
        while self._unopened:
            self._servers[self._unopened[0]].start()
            LOG.info("%s on %s", served, self._unopened.pop(0))
        if self._looking is None:
            failure = "changes of files are not noticed"
            self._looking = start_daemon_thread("netfw-files", failure, self._look)

    def close(self, grace: float) -> None:
        """Finish the requests in flight within *grace* seconds, and stop."""
        self._closed.set()
        if self.api is not None and self.api.live is not None:
            self.api.live.close()
        for name, server in self._servers.items():
            if not server.stop(grace):
                LOG.warning("requests on %s did not end within %g s", name, grace)

    def _unready_reasons(self, parts: ServerComponents) -> list[str]:
        why = "it is ending" if self._closed.is_set() else parts.why_not_ready()
        return [why] if why else []

    def stuck_reason(self) -> str:
        """Return which accept loop has stopped turning; empty when all turn."""
        for name, server in self._servers.items():
            if (stalled := server.stalled_for()) > STUCK_AFTER:
                return f"{name}: the accept loop has not turned for {stalled:.0f} s"
        return ""

    def reload(self) -> None:
        """Apply options that can change at run time."""
        if self.api is not None:
            self.api.reload()

    def _look(self) -> None:
        """Check for changed files without a request, so that the log reports them soon."""
        while self.api is not None and not self._closed.wait(LOOK_EVERY):
            self.api.look()


class Listeners:
    """All listeners of the configuration; closed in reverse order.

    Entering the context binds all addresses: who connects early waits for an answer. Clients and
    agents are served from :meth:`open` on.
    """

    def __init__(
        self, parts: ServerComponents, sockets: Sockets, over: Mapping[str, str] | None = None
    ) -> None:
        self._parts = parts
        self.starting = "it is starting"
        """Reason why clients are not served yet."""
        self.clients = ApiListener(parts, sockets, lambda: self.starting)
        served = "messages" in parts.conf.server.serve
        self.messages = AgentListener(parts, self.clients.metrics, over) if served else None
        self._stack = ExitStack()
        self._lock, self._is_open = threading.Lock(), False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.messages is not None:
                stack.callback(self.messages.close)
                self.messages.take_address()
            stack.callback(self.clients.close, self._parts.conf.server.graceful_shutdown_timeout)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve_health_only(self, reason: str) -> None:
        """Serve the health endpoints with *reason*; clients get 503 until :meth:`open`.

        A worker that is merely starting must not do this: it would refuse the clients of the
        others, which share its sockets.  Without effect after :meth:`open`; any thread.
        """
        with self._lock:
            if not self._is_open:
                self.starting = reason
                self.clients.open()

    def open(self) -> None:
        """Start to serve clients and agents."""
        if self.messages is not None:
            self.messages.open()
        with self._lock:
            self._is_open, self.starting = True, ""
            self.clients.open()

    def reload(self) -> None:
        """Apply options that can change at run time."""
        self.clients.reload()


def _is_unix(each: socket.socket) -> bool:
    return each.family == socket.AF_UNIX
