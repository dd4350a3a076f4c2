"""Transports without a broker in a directory of their own, with a relay in the middle."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from netfw.drivers.transport import SharedAddress, Transport
from netfw.testing.conformance.transport.socket_suite import SocketTransportConformance
from netfw.testing.lab.services.certificates import PrivateAuthority
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw_drivers.transports.sockets.transport import SocketTransport


def free_ports() -> tuple[int, int]:
    """Return two unused ports of the loopback interface."""
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        return one.getsockname()[1], other.getsockname()[1]


class LocalTransports(SocketTransportConformance):
    """A server of netfw's own transport on a unix socket."""

    CLASS: ClassVar[type[Transport]] = SocketTransport
    LOGGER: ClassVar[str] = "netfw_drivers.transports.sockets.server"


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
        """Return the TLS options of a peer with a certificate of that authority."""
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
        """Return a client with these options for TLS."""
        return self.make(listen="", connect=f"tls:127.0.0.1:{self.ports[0]}", **tls)

    def unauthorized_clients(self) -> Iterable[Transport]:
        nobody = {"tls_ca": str(self.authority.certificate)}
        return [self.connected(nobody), self.connected(self.shown(self.other, "agent"))]
