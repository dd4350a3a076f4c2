"""The server: one process per network, in the network's namespace.

``python -m tiny_dhcp.server DIRECTORY`` answers whoever has a file there, by its MAC address.  It
remembers nothing.  Everybody has an address of his own, so there are no leases to keep: what a
file says is so from the next question on, and who has no file is nobody.
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
ANSWERS: Final = {b"\x01": OFFER, b"\x03": ACK}
"""To those who look for a server, and to those who have chosen one or come back."""
REQUESTED, TYPE, SERVER, IPXE, BOOT_SERVER, END = 50, 53, 54, 175, 255, 255
HEADER: Final = struct.Struct("!4BIHH4s4s4s4s16s64s128s4s")
COOKIE, NOBODY = b"\x63\x82\x53\x63", bytes(4)
IP_PKTINFO, SO_NO_CHECK = 8, 11
PKTINFO: Final = struct.Struct("@I4s4s")


@frozen(kw_only=True)
class Question:
    """What a client says."""

    xid: int
    flags: int
    ciaddr: bytes
    giaddr: bytes
    mac: bytes
    options: dict[int, bytes]

    @classmethod
    def parse(cls, data: bytes) -> Question | None:
        """``None``: it is no question of DHCP on Ethernet."""
        if len(data) < HEADER.size:
            return None
        op, kind, length, _, xid, _, flags, ciaddr, _, _, giaddr, mac, _, _, cookie = (
            HEADER.unpack_from(data)
        )
        if (op, kind, length, cookie) != (1, 1, 6, COOKIE):
            return None
        options = dict(_options(data[HEADER.size :]))
        return cls(xid=xid, flags=flags, ciaddr=ciaddr, giaddr=giaddr, mac=mac[:6], options=options)

    def answer(self, address: bytes, boot_server: bytes, options: dict[int, bytes]) -> bytes:
        """A message that says *options*, a long one in parts."""
        head = HEADER.pack(
            2, 1, 6, 0, self.xid, 0, self.flags, self.ciaddr if address != NOBODY else NOBODY,
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


def answer(question: Question, directory: Path) -> tuple[bytes, bytes, str] | None:
    """What a client is told, by which server, and where; ``None``: it is not ours to answer."""
    kind = ANSWERS.get(question.options.get(TYPE, b""))
    try:
        offers = json.loads((directory / question.mac.hex(":")).read_text())["offers"]
    except FileNotFoundError:
        return None
    by_address = {socket.inet_aton(address): offer for address, offer in offers.items()}
    servers = {address: socket.inet_aton(each["server"]) for address, each in by_address.items()}
    if not kind or not offers or question.options.get(SERVER) not in (None, *servers.values()):
        return None
    wanted = question.options.get(REQUESTED, question.ciaddr)
    address = wanted if wanted in by_address else next(iter(by_address))
    server = servers[address]
    if kind == ACK and wanted != address:
        return question.answer(NOBODY, NOBODY, {TYPE: NAK, SERVER: server}), server, BROADCAST
    sort = "ipxe" if IPXE in question.options else "others"
    told = {int(number): bytes.fromhex(each) for number, each in by_address[address][sort].items()}
    boot_server = told.pop(BOOT_SERVER, NOBODY)
    reply = question.answer(address, boot_server, {TYPE: kind, SERVER: server, **told})
    renews = question.ciaddr == address
    return reply, server, socket.inet_ntoa(address) if renews else BROADCAST


def serve(directory: Path) -> None:
    """Answer for ever, each question on the device that it came from."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        door.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)  # no device is there to fill it in
        door.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        door.bind(("", SERVER_PORT))
        while True:
            data, ancillary, _, _ = door.recvmsg(4096, socket.CMSG_SPACE(PKTINFO.size))
            question = Question.parse(data)
            found = question and answer(question, directory)
            if found:
                reply, server, to = found
                device, _, _ = PKTINFO.unpack(ancillary[0][2])
                way = (socket.IPPROTO_IP, IP_PKTINFO, PKTINFO.pack(device, server, NOBODY))
                with suppress(OSError):  # the device is gone, or the client; it asks again
                    door.sendmsg([reply], [way], 0, (to, CLIENT_PORT))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
