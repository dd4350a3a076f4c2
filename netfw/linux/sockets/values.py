"""Sockets that listen for TCP connections, as values.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder

from attrs import frozen

from netfw.model.values.address import IpAddress

_LISTENING = "0A"


@frozen(kw_only=True)
class Listener:
    """A socket that listens; the unspecified address stands for all of its family."""

    address: IpAddress
    port: int
    inode: int
    """Inode of the socket, unique on the machine."""

    def is_in_the_way_of(self, address: IpAddress, port: int) -> bool:
        """Return whether it prevents another socket from listening at *address*.

        A socket for all IPv6 addresses may or may not accept IPv4 too; that is not visible here,
        and left to the kernel to refuse.
        """
        if self.port != port or self.address.version != address.version:
            return False
        return self.address == address or self.address.is_unspecified or address.is_unspecified


def parse_listeners(table: str) -> Iterator[Listener]:
    """Parse the listening sockets of a kernel table (``/proc/net/tcp`` or ``tcp6``)."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[3] == _LISTENING:
            address, _, port = words[1].partition(":")
            yield Listener(address=_address(address), port=int(port, 16), inode=int(words[9]))


def _address(text: str) -> IpAddress:
    """Parse an address: the kernel prints each four bytes as a number in host byte order."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, byteorder) for word in words)
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
