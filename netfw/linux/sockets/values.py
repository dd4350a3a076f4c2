"""Sockets that listen for TCP connections, as values.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from sys import byteorder

from attrs import frozen

from netfw.model.address import IpAddress

_LISTENING = "0A"


@frozen(kw_only=True)
class Listener:
    """A socket that listens; the unspecified address stands for all of its family."""

    address: IpAddress
    port: int
    inode: int
    """What tells the socket from every other one of the machine."""

    def is_in_the_way_of(self, address: IpAddress, port: int) -> bool:
        """Whether nobody else can listen at *address* beside it.

        A socket for all IPv6 addresses may or may not take the IPv4 ones too; that is not seen
        here, and left to the kernel to refuse.
        """
        if self.port != port or self.address.version != address.version:
            return False
        return self.address == address or self.address.is_unspecified or address.is_unspecified


def parse_listeners(table: str) -> Iterator[Listener]:
    """The sockets that listen in a table of the kernel (``/proc/net/tcp`` or ``tcp6``)."""
    for line in table.splitlines()[1:]:
        words = line.split()
        if words[3] == _LISTENING:
            address, _, port = words[1].partition(":")
            yield Listener(address=_address(address), port=int(port, 16), inode=int(words[9]))


def _address(text: str) -> IpAddress:
    """The kernel prints each four bytes of an address as a number of the machine."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    packed = b"".join(word.to_bytes(4, byteorder) for word in words)
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
