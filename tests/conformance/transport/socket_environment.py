"""Transports without a broker in a directory of their own, with a relay in the middle."""

from __future__ import annotations

import logging
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.drivers.transport import SharedAddress, Transport
from netfw.testing.conformance.transport.environment import TransportEnvironment
from netfw.testing.conformance.transport.suite import TransportConformance
from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw_drivers.transports.sockets.transport import SocketTransport

QUICK = {"reconnect_pause": 0.05, "reconnect_pause_max": 0.2}


def free_ports() -> tuple[int, int]:
    """Two ports of loopback that nobody uses."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return one.getsockname()[1], other.getsockname()[1]


class Remembering(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class LocalTransports(TransportConformance):
    """A server on a unix socket, and clients that reach it through a relay."""

    CLASS: ClassVar[type[SocketTransport]] = SocketTransport
    LOGGER: ClassVar[str] = "netfw_drivers.transports.sockets.server"

    def make(self, **options: Any) -> SocketTransport:
        """A transport with these options and those that all have."""
        given = {"message_size": self.LIMIT, "workers": self.WORKERS, **QUICK, **options}
        return self.CLASS.from_conf(
            check_options("socket", self.CLASS, given), LocalHostResources()
        )

    @contextmanager
    def make_environment(self) -> Iterator[TransportEnvironment]:
        log, self.log = logging.getLogger(self.LOGGER), Remembering()
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
        """What is between clients and server."""
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


class LocalTcpTransports(LocalTransports):
    """A server on loopback, where a token is needed."""

    def make_relay(self) -> FaultProxy:
        self.ports = free_ports()
        self.token(self.directory / "tokens", "a token of tests, long enough".replace(" ", "-"))
        self.token(self.directory / "wrong", "another-token-which-is-wrong")
        return FaultProxy(("127.0.0.1", self.ports[0]), ("127.0.0.1", self.ports[1]))

    def token(self, path: Path, text: str) -> None:
        """Write a file of tokens."""
        path.touch(mode=0o600)
        path.write_text(f"{text}\n")

    def make_server(self, shared: SharedAddress | None = None) -> Transport:
        over = dict(shared.options) if shared else {}
        where = {"listen": f"tcp:127.0.0.1:{self.ports[1]}", "connect": ""}
        return self.make(**{**where, "token_file": str(self.directory / "tokens"), **over})

    def make_client(self, tokens: str = "tokens") -> Transport:
        return self.make(
            listen="",
            connect=f"tcp:127.0.0.1:{self.ports[0]}",
            token_file=str(self.directory / tokens),
        )

    def unauthorized_clients(self) -> Iterable[Transport]:
        return [self.make_client("wrong")]


class LocalTlsTransports(LocalTcpTransports):
    """A server that asks for certificates."""

    def make_relay(self) -> FaultProxy:
        self.authority = PrivateAuthority(self.directory / "ca")
        self.other = PrivateAuthority(self.directory / "other")
        return super().make_relay()

    def shown(self, who: PrivateAuthority, name: str, *names: str) -> dict[str, str]:
        """Options of one whom that authority vouches for."""
        made = who.vouch_for(name, *names)
        return {
            "tls_certificate": str(made.certificate),
            "tls_key": str(made.key),
            "tls_ca": str(self.authority.certificate),
        }

    def make_server(self, shared: SharedAddress | None = None) -> Transport:
        over = dict(shared.options) if shared else {}
        tls = self.shown(self.authority, "server", "IP:127.0.0.1")
        where = {"listen": f"tls:127.0.0.1:{self.ports[1]}", "connect": ""}
        return self.make(**{**where, **tls, **over})

    def make_client(self, tokens: str = "") -> Transport:
        return self.connected(self.shown(self.authority, "agent"))

    def connected(self, tls: dict[str, str]) -> Transport:
        """A client with these options for TLS."""
        return self.make(listen="", connect=f"tls:127.0.0.1:{self.ports[0]}", **tls)

    def unauthorized_clients(self) -> Iterable[Transport]:
        nobody = {"tls_ca": str(self.authority.certificate)}
        return [self.connected(nobody), self.connected(self.shown(self.other, "agent"))]
