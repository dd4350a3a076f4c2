"""The doors of a server: the API for clients, and messages for agents."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from netfw.cli.driver_conf import values
from netfw.cli.server_metrics import Metrics
from netfw.cli.server_parts import ServerParts
from netfw.drivers.loader import create
from netfw.drivers.transport import Transport
from netfw.errors import BackendError, ConfigError
from netfw.messaging.remote import Desk
from netfw.server.api import catalog
from netfw.server.api.app import Probe, make_app
from netfw.server.api.configured import bounds, http_settings, tls_files
from netfw.server.api.http import HttpServer
from netfw.server.api.identity import configured as identity
from netfw.server.api.policy import enforcement as policy
from netfw.server.api.policy.target import lookup_in

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.drivers.base import Host

LOG = logging.getLogger(__name__)

Sockets = Mapping[str, socket.socket]
Check = Callable[[], str]
"""Says why the server can not serve now; empty: it can."""


def transport_of(conf: ConfigOpts, host: Host, over: Mapping[str, str] | None = None) -> Transport:
    """The transport that the configuration names, with the options *over* its own.

    :raises ConfigError: it can not be.
    """
    name = conf.server.transport
    return create(Transport, name, {**values(conf, Transport, name), **(over or {})}, host)


class MessageDoor:
    """Agents' way in."""

    def __init__(self, parts: ServerParts, over: Mapping[str, str] | None = None) -> None:
        self._transport = transport_of(parts.conf, parts.host, over)
        self._desk = Desk(parts.source, self._transport)

    def open(self) -> None:
        """Answer agents from now on.

        :raises Conflict: the address is taken.
        """
        self._desk.open()

    def close(self) -> None:
        """Finish what is being answered, and answer no more."""
        self._desk.close()
        self._transport.close()


class ApiDoor:
    """Clients' way in: the API on every socket, and the probes of the process.

    :raises ConfigError: the declarations, the rules or the identity can not be.
    """

    def __init__(self, parts: ServerParts, sockets: Sockets, ready: Check) -> None:
        conf = parts.conf
        extending = parts.core.extensions.declared()
        declared = catalog.assemble(parts.plugins, extending=extending, api=parts.extensions)
        more = [rule for extension in parts.extensions for rule in extension.policies()]
        lookup = lookup_in(parts.plugins)
        self._policy = policy.configured(conf, declared.resources, lookup, more)
        self._identity = identity.configured(conf, self._policy.is_admin)
        identity.refuse_unserved(conf, [name for name in sockets if not _is_unix(sockets[name])])
        collections = [each.collection for each in declared.resources]
        self._metrics = Metrics(collections, parts.state)
        app = make_app(
            declared,
            parts.plugins,
            policy=self._policy,
            identity=self._identity,
            bounds=bounds(conf),
            probes=self._probes(ready),
        )
        counted, settings, tls = self._metrics.counting(app), http_settings(conf), tls_files(conf)
        self._servers = {
            name: HttpServer(counted, each, settings, None if _is_unix(each) else tls)
            for name, each in sockets.items()
        }

    def open(self) -> None:
        """Answer clients from now on."""
        for name, server in self._servers.items():
            server.start()
            LOG.info("the API is on %s", name)

    def close(self, grace: float) -> None:
        """Finish what is being answered within *grace* seconds, and answer no more."""
        for name, server in self._servers.items():
            if not server.stop(grace):
                LOG.warning("requests on %s did not end within %g s", name, grace)

    def reload(self) -> None:
        """Read rules and tokens again; what can not be used stays as it was."""
        for each in (self._policy, self._identity):
            try:
                each.reload()
            except ConfigError as exc:
                LOG.error("not reloaded: %s", exc)

    def _probes(self, ready: Check) -> Mapping[str, Probe]:
        def healthy() -> tuple[int, str, bytes]:
            return 200, "application/json", b'{"status":"alive"}'

        def readiness() -> tuple[int, str, bytes]:
            why = ready()
            told = {"status": "waiting", "reason": why} if why else {"status": "ready"}
            return 503 if why else 200, "application/json", json.dumps(told).encode()

        def metrics() -> tuple[int, str, bytes]:
            return 200, "text/plain; version=0.0.4; charset=utf-8", self._metrics.text()

        return {"/healthz": healthy, "/readyz": readiness, "/metrics": metrics}


class Doors:
    """All doors that the configuration opens, one after the other; closed the other way round."""

    def __init__(
        self, parts: ServerParts, sockets: Sockets, over: Mapping[str, str] | None = None
    ) -> None:
        self._parts, self._open = parts, False
        wanted = parts.conf.server.serve
        self.messages = MessageDoor(parts, over) if "messages" in wanted else None
        self.api = ApiDoor(parts, sockets, self._ready) if "api" in wanted else None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.api is not None:
                stack.callback(self.api.close, self._parts.conf.server.graceful_stop)
                self.api.open()
            if self.messages is not None:
                stack.callback(self.messages.close)
                self.messages.open()
            self._open = True
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._stack.close()

    def reload(self) -> None:
        """Take over what can change while it runs."""
        if self.api is not None:
            self.api.reload()

    def _ready(self) -> str:
        if not self._open:
            return "it is starting, or ending"
        try:
            self._parts.database.read(lambda view: view.journal.cursor())
        except BackendError as exc:
            return str(exc)
        return ""


def _is_unix(each: socket.socket) -> bool:
    return each.family == socket.AF_UNIX
