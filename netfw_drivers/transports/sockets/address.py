"""Addresses of listen sockets and servers, as options write them.  Pure."""

from __future__ import annotations

import ipaddress

from attrs import frozen

from netfw.errors import ConfigError

FORMS = "unix:PATH, tcp:ADDRESS:PORT, tls:ADDRESS:PORT"


@frozen
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@frozen
class TcpAddress:
    """A port of a host, with or without TLS."""

    host: str
    port: int
    tls: bool

    @property
    def is_loopback(self) -> bool:
        """Whether the address is loopback; of names, only ``localhost`` counts."""
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'tcp'}:{host}:{self.port}"


@frozen
class OpenSocket:
    """A listening socket that this process inherited."""

    descriptor: int

    def __str__(self) -> str:
        return f"fd:{self.descriptor}"


Address = UnixAddress | TcpAddress | OpenSocket


def parse_address(text: str) -> Address:
    """Parse an address.

    :raises ConfigError: *text* is not an address; the message shows the forms.
    """
    kind, _, rest = text.strip().partition(":")
    if kind == "unix" and rest.startswith("/") and "\0" not in rest:
        if len(rest.encode()) > 100:
            raise ConfigError(f"{text}: the kernel takes paths of at most 100 bytes for sockets")
        return UnixAddress(rest)
    if kind == "fd" and rest.isascii() and rest.isdigit():
        return OpenSocket(int(rest))
    if kind in ("tcp", "tls"):
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if host and port.isascii() and port.isdigit() and int(port) < 65536:
            return TcpAddress(host, int(port), kind == "tls")
    raise ConfigError(f"{text!r} is no address: write {FORMS} or, to listen, fd:NUMBER")
