"""The suite of transports for those that listen on sockets, with a relay that can be cut.

For transports with the options of netfw's own: ``listen``, ``connect`` and the reconnection.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import SharedAddress, Transport
from netfw.testing.conformance.transport.environment import TransportEnvironment
from netfw.testing.conformance.transport.suite import TransportConformance
from netfw.testing.lab.services.fault_proxy import FaultProxy

QUICK = {"reconnect_interval": 0.05, "reconnect_interval_max": 0.2}


class RecordingHandler(logging.Handler):
    """Handler that keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class SocketTransportConformance(TransportConformance):
    """A server on a unix socket, and clients that reach it through a relay."""

    CLASS: ClassVar[type[Transport]]
    """Class of the transports."""
    LOGGER: ClassVar[str]
    """Logger of the refusals of the server."""

    def make(self, **options: Any) -> Transport:
        """Return a transport with these options and those that all have."""
        given = {"max_message_size": self.LIMIT, "threads": self.WORKERS, **QUICK, **options}
        return self.CLASS.from_conf(
            check_options("socket", self.CLASS, given), LocalHostResources()
        )

    @contextmanager
    def make_environment(self) -> Iterator[TransportEnvironment]:
        log, self.log = logging.getLogger(self.LOGGER), RecordingHandler()
        log.addHandler(self.log)
        self.directory = Path(tempfile.mkdtemp(prefix="netfw-"))
        try:
            self.relay = self.make_relay()
            try:
                with super().make_environment() as environment:
                    yield environment
            finally:
                self.relay.close()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
            log.removeHandler(self.log)

    def make_relay(self) -> FaultProxy:
        """Return the relay between clients and server."""
        return FaultProxy(str(self.directory / "relay"), str(self.directory / "server"))

    def make_server(self, shared: SharedAddress | None = None) -> Transport:
        over = dict(shared.options) if shared else {}
        return self.make(**{"listen": f"unix:{self.directory}/server", "connect": "", **over})

    def make_client(self) -> Transport:
        return self.make(listen="", connect=f"unix:{self.directory}/relay")

    def outage(self) -> AbstractContextManager[None]:
        return self.relay.outage()

    def unauthorized_clients(self) -> Iterable[Transport]:
        return ()

    def log_text(self) -> str:
        return "\n".join(self.log.lines)
