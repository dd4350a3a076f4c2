"""Frames between hosts, out of their tunnels and tags."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address

from attrs import frozen

from netfw.testing.lab.wait import TIMEOUT, wait_until

ARP, IPV4, IPV6, TAGGED, TEST = 0x0806, 0x0800, 0x86DD, 0x8100, 0x88B5
_VXLAN, _GENEVE = 4789, 6081
_UDP = 17
_LARGEST = 4096


@frozen
class Frame:
    """A frame: its MAC addresses, type, and what follows."""

    to: str
    source: str
    kind: int
    payload: bytes

    @property
    def ip_addresses(self) -> tuple[str, str] | None:
        """Sender and receiver of an IP packet."""
        if self.kind == IPV4:
            return str(ip_address(self.payload[12:16])), str(ip_address(self.payload[16:20]))
        if self.kind == IPV6:
            return str(ip_address(self.payload[8:24])), str(ip_address(self.payload[24:40]))
        return None


def parse(raw: bytes) -> Frame:
    """Parse a frame; one in a tunnel is that inside."""
    to, source = (raw[start : start + 6].hex(":") for start in (0, 6))
    (kind,) = struct.unpack("!H", raw[12:14])
    payload = raw[14:]
    if kind == TAGGED:
        (kind,) = struct.unpack("!H", payload[2:4])
        payload = payload[4:]
    found = Frame(to, source, kind, payload)
    datagram = _datagram(found)
    return found if datagram is None else parse(datagram)


def _datagram(frame: Frame) -> bytes | None:
    """Return the frame inside of a tunnel's datagram."""
    if frame.kind == IPV4 and frame.payload[9] == _UDP:
        udp = frame.payload[20:]
    elif frame.kind == IPV6 and frame.payload[6] == _UDP:
        udp = frame.payload[40:]
    else:
        return None
    port, content = struct.unpack("!H", udp[2:4])[0], udp[8:]
    if port == _VXLAN:
        return content[8:]
    if port == _GENEVE:
        return content[8 + 4 * (content[0] & 0x3F) :]
    return None


def make(to: str, source: str, content: int, kind: int = TEST) -> bytes:
    macs = bytes.fromhex((to + source).replace(":", ""))
    return macs + struct.pack("!HI", kind, content) + bytes(46)


def received(wire: socket.socket) -> Iterator[bytes]:
    """Yield what the socket has, sent or received by its device."""
    while True:
        try:
            yield wire.recv(_LARGEST)
        except (BlockingIOError, OSError):
            return


def frames_until(wire: socket.socket, condition: Callable[[list[Frame]], object]) -> list[Frame]:
    """Return the frames up to the moment in which *condition* holds of them."""
    found: list[Frame] = []

    def enough() -> bool:
        found.extend(map(parse, received(wire)))
        return bool(condition(found))

    wait_until(enough, lambda: f"only {len(found)} other frames")
    return found


def resend_until(send: Callable[[], object], condition: Callable[[], object]) -> None:
    """Send again and again until *condition* holds."""
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, "nothing arrived"
        send()
        time.sleep(0.05)


def between(frame: Frame, one: str, other: str) -> bool:
    return frame.ip_addresses in ((one, other), (other, one))
