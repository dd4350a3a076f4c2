"""The server: one process per network, in the network's namespace.

``python -m tiny_dhcp.server DIRECTORY`` answers each client that has a file there, named by its MAC
address.  The server is stateless: every port has addresses of its own, so there are no leases to
store.  A changed file takes effect with the next request; a client without a file gets no answer.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import frozen

SERVER_PORT, CLIENT_PORT, BROADCAST = 67, 68, "255.255.255.255"
OFFER, ACK, NAK = b"\x02", b"\x05", b"\x06"
REPLY_TYPES: Final = {b"\x01": OFFER, b"\x03": ACK}
"""The type of the reply to DISCOVER and to REQUEST."""
REQUESTED, TYPE, SERVER, IPXE, BOOT_SERVER, END = 50, 53, 54, 175, 255, 255
HEADER: Final = struct.Struct("!4BIHH4s4s4s4s16s64s128s4s")
COOKIE, ANY = b"\x63\x82\x53\x63", bytes(4)
IP_PKTINFO, SO_NO_CHECK = 8, 11
PKTINFO: Final = struct.Struct("@I4s4s")


@frozen(kw_only=True)
class Request:
    """A message of a client."""

    xid: int
    flags: int
    ciaddr: bytes
    giaddr: bytes
    mac: bytes
    options: dict[int, bytes]

    @classmethod
    def parse(cls, data: bytes) -> Request | None:
        """Parse *data*; return ``None`` unless it is a DHCP request on Ethernet."""
        if len(data) < HEADER.size:
            return None
        op, kind, length, _, xid, _, flags, ciaddr, _, _, giaddr, mac, _, _, cookie = (
            HEADER.unpack_from(data)
        )
        if (op, kind, length, cookie) != (1, 1, 6, COOKIE):
            return None
        options = dict(_options(data[HEADER.size :]))
        return cls(xid=xid, flags=flags, ciaddr=ciaddr, giaddr=giaddr, mac=mac[:6], options=options)

    def render_reply(self, address: bytes, boot_server: bytes, options: dict[int, bytes]) -> bytes:
        """Render the reply with *options*; split values over 255 octets (RFC 3396)."""
        head = HEADER.pack(
            2, 1, 6, 0, self.xid, 0, self.flags, self.ciaddr if address != ANY else ANY,
            address, boot_server, self.giaddr, self.mac, b"", b"", COOKIE,
        )  # fmt: skip
        for number, value in options.items():
            for part in (value[at : at + 255] for at in range(0, len(value), 255)):
                head += bytes([number, len(part)]) + part
        return (head + bytes([END])).ljust(300, b"\0")


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 1 < len(data) and data[at] != END:
        if data[at]:
            yield data[at], data[at + 2 : at + 2 + data[at + 1]]
        at += 2 + data[at + 1] if data[at] else 1


def make_reply(request: Request, directory: Path) -> tuple[bytes, bytes, str] | None:
    """Return a reply, its server and its destination, or ``None`` if none is due from here."""
    kind = REPLY_TYPES.get(request.options.get(TYPE, b""))
    try:
        offers = json.loads((directory / request.mac.hex(":")).read_text())["offers"]
    except FileNotFoundError:
        return None
    by_address = {socket.inet_aton(address): offer for address, offer in offers.items()}
    servers = {address: socket.inet_aton(offer["server"]) for address, offer in by_address.items()}
    if not kind or not offers or request.options.get(SERVER) not in (None, *servers.values()):
        return None
    wanted = request.options.get(REQUESTED, request.ciaddr)
    address = wanted if wanted in by_address else next(iter(by_address))
    server = servers[address]
    if kind == ACK and wanted != address:
        return (
            request.render_reply(ANY, ANY, {TYPE: NAK, SERVER: server}),
            server,
            BROADCAST,
        )
    client = "ipxe" if IPXE in request.options else "others"
    options = {
        int(number): bytes.fromhex(value) for number, value in by_address[address][client].items()
    }
    boot_server = options.pop(BOOT_SERVER, ANY)
    reply = request.render_reply(address, boot_server, {TYPE: kind, SERVER: server, **options})
    renews = request.ciaddr == address
    return reply, server, socket.inet_ntoa(address) if renews else BROADCAST


def serve(directory: Path) -> None:
    """Answer requests for ever, each on the device that received it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server_socket:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        server_socket.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)  # no device fills in checksums
        server_socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        server_socket.bind(("", SERVER_PORT))
        while True:
            data, ancillary, _, _ = server_socket.recvmsg(4096, socket.CMSG_SPACE(PKTINFO.size))
            request = Request.parse(data)
            reply = request and make_reply(request, directory)
            if reply:
                message, server, destination = reply
                device, _, _ = PKTINFO.unpack(ancillary[0][2])
                source = (socket.IPPROTO_IP, IP_PKTINFO, PKTINFO.pack(device, server, ANY))
                with suppress(OSError):  # the device or the client is gone; clients retry
                    server_socket.sendmsg([message], [source], 0, (destination, CLIENT_PORT))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
