"""Streams of datagrams between instances, and how much of them arrives."""

from __future__ import annotations

import socket
import time
from contextlib import closing

from attrs import define, field

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import TIMEOUT, wait_until

PORT = 6001
"""No other listener of a lab has it."""
HEADERS = 42
"""Octets of Ethernet, IPv4 and UDP."""
IP_HEADERS = 28
ROUNDING = 1.01
"""The kernel's rates are multiples of 16 octets, of at most so much more."""
_BUFFER = 32 << 20
_MOMENT = 0.1
_ROOM = 50
"""Datagrams that the socket of a switch has room for; more than the burst of any limit here."""


@define
class Stream:
    """Datagrams from one instance to an address, counted by receivers.

    The time begins before the first datagram is sent and ends after the last one was read: no token
    bucket on the way can let more pass than its rate allows in that time, and its burst.
    """

    sender: Instance
    address: str
    size: int = 1000
    pause: float = 0.001
    sent: int = 0
    seconds: float = 0.0
    _started: float = field(factory=time.monotonic)
    _socket: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._socket = self.sender.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)

    @property
    def bits_of_one(self) -> int:
        return 8 * (self.size + HEADERS)

    def send(self, count: int) -> None:
        """Send so many datagrams more."""
        for _ in range(count):
            self._socket.sendto(bytes(self.size), (self.address, PORT))
            self.sent += 1
            if self.pause:
                time.sleep(self.pause)

    def send_all(self, count: int, *counters: Counter) -> None:
        """Send so many more, of which all have to arrive.

        A switch that waits for a core loses what its socket has no room for, so that the next ones
        are sent when the former ones have arrived.
        """
        before = [counter.read() for counter in counters]
        for sent in range(0, count, _ROOM):
            self.send(min(_ROOM, count - sent))
            wanted = min(sent + _ROOM, count)
            for counter, first in zip(counters, before, strict=True):
                wait_until(
                    lambda c=counter, n=first + wanted: c.read() >= n,
                    lambda c=counter, n=first + wanted: f"{c.count} of {n}",
                )

    def stop_clock(self) -> None:
        """Take the time; everything that is counted has been read."""
        self.seconds = time.monotonic() - self._started

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def close(self) -> None:
        self._socket.close()


@define
class Counter:
    """Counts datagrams that an instance receives."""

    receiver: Instance
    count: int = 0
    traffic_classes: set[int] = field(factory=set)
    _socket: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._socket = self.receiver.call(_receiving_socket)

    def read(self) -> int:
        """Count what has arrived; return how much that is so far."""
        while True:
            try:
                _, ancillary, _, _ = self._socket.recvmsg(65536, 256)
            except BlockingIOError:
                return self.count
            self.count += 1
            self.traffic_classes |= {
                data[0] for _, kind, data in ancillary if kind == socket.IP_TOS
            }

    def drain(self) -> None:
        """Count until nothing has arrived for a moment."""
        before = -1
        while before < self.count:
            before = self.count
            time.sleep(_MOMENT)
            self.read()

    def close(self) -> None:
        self._socket.close()


def _receiving_socket() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setsockopt(socket.SOL_SOCKET, 33, _BUFFER)  # SO_RCVBUFFORCE
    found.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    found.bind(("", PORT))
    found.setblocking(False)
    return found


def flood(stream: Stream, counter: Counter, rate: float, burst: float, unit: int = 1) -> None:
    """Send until at least twice as much was sent as a limit allows; then take the time.

    A switch that waits for a core delivers later: some datagrams have to arrive before sending
    ends, and those on the way are counted.

    :param unit: how much one datagram counts: its bits, or one packet.
    """
    limit = time.monotonic() + TIMEOUT
    while not counter.count or stream.sent * unit < 2 * (rate * stream.elapsed() + burst):
        assert time.monotonic() < limit, f"{stream.sent} sent, {counter.count} arrived"
        stream.send(50)
        counter.read()
    counter.drain()
    stream.stop_clock()


def assert_unlimited(source: Instance, sink: Instance, address: str, count: int) -> None:
    """Send so many datagrams, and check that all of them arrive."""
    with closing(Counter(sink)) as counter, closing(Stream(source, address)) as stream:
        stream.send_all(count, counter)
        assert counter.count == count


def assert_address_limited(source: Instance, sink: Instance, address: str, kbps: int) -> None:
    """Send twice as much as the limit of an address allows, and check that no more arrives.

    A router counts IP packets, and lets one second of the rate pass at once.
    """
    with closing(Counter(sink)) as counter, closing(Stream(source, address)) as stream:
        bits = 8 * (stream.size + IP_HEADERS)
        flood(stream, counter, kbps * 1000, kbps * 1000, bits)
        most = ROUNDING * kbps * 1000 * (stream.seconds + 1)
        assert counter.count * bits <= most, f"{counter.count} of {stream.sent}"
        assert counter.count > 0
