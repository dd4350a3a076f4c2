"""Pings with an exact count of losses.

The ``ping`` command counts what is still under way when it is stopped as lost; a test that allows
no loss would then fail once in a while.  Here every request gets the same time to be answered.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from attrs import frozen

_HEADER = struct.Struct("!BBHHH")
_ECHO = {4: (8, 0), 6: (128, 129)}
_BUFFER_SIZE = 2048


@frozen
class Ping:
    """The results of a row of echo requests: seconds until the answer, None if none came."""

    times: tuple[float | None, ...]
    interval: float
    sent_at: tuple[float, ...] = ()
    """The time of each request by the monotonic clock."""

    @property
    def sent(self) -> int:
        return len(self.times)

    @property
    def received(self) -> int:
        return sum(time is not None for time in self.times)

    @property
    def lost(self) -> int:
        return self.sent - self.received

    @property
    def rtt(self) -> float | None:
        """The mean of the round-trip times in seconds, None when nothing came back."""
        known = [time for time in self.times if time is not None]
        return sum(known) / len(known) if known else None

    @property
    def longest(self) -> float | None:
        """The longest of the round-trip times."""
        return max((time for time in self.times if time is not None), default=None)

    @property
    def outage(self) -> float:
        """Seconds of the longest run of requests without an answer."""
        longest = current = 0
        for answered in self.times:
            current = 0 if answered is not None else current + 1
            longest = max(longest, current)
        return longest * self.interval

    @property
    def outage_by_clock(self) -> float:
        """Seconds of the longest such run, until the request after it was sent.

        A sender that is delayed sends fewer requests, which makes :attr:`outage` too short.
        """
        longest, began = 0.0, None
        for at, answered in zip(self.sent_at, self.times, strict=True):
            if began is not None:
                longest = max(longest, at - began)
            if answered is not None:
                began = None
            elif began is None:
                began = at
        return longest


class Pinger:
    """A sender of echo requests in the namespace it was made in; use it from one thread."""

    def __init__(self, target: str, interval: float) -> None:
        self.interval = interval
        address = ip_address(target)
        self._request, self._reply = _ECHO[address.version]
        self._socket = _open(address)
        self._to = socket.getaddrinfo(target, 0, flags=socket.AI_NUMERICHOST)[0][4]
        self._source = address.packed  # without the scope of a link-local one
        self._token = os.urandom(8)
        self._sent: list[float] = []
        self._times: list[float | None] = []

    def run(self, enough: Callable[[int], bool], grace: float) -> Ping:
        """Send until *enough* of the number sent, then wait up to *grace* seconds for answers."""
        return run_pingers([self], enough, grace)[0]

    @property
    def sent(self) -> int:
        return len(self._times)

    @property
    def result(self) -> Ping:
        """What was sent so far, and when it was answered."""
        return Ping(tuple(self._times), self.interval, tuple(self._sent))

    @property
    def answered(self) -> bool:
        """Whether any request was answered so far."""
        return any(time is not None for time in self._times)

    def is_all_answered(self) -> bool:
        return None not in self._times

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self) -> None:
        """Send the next request."""
        sequence = len(self._sent)
        self._sent.append(time.monotonic())
        self._times.append(None)
        # What cannot be sent (no route, link down, filtered) is lost.
        with contextlib.suppress(OSError):
            self._socket.sendto(_message(self._request, sequence, self._token), self._to)

    def receive(self) -> None:
        """Read one packet: the socket has one."""
        packet, sender = self._socket.recvfrom(_BUFFER_SIZE)
        if ip_address(sender[0]).packed == self._source:  # else its translation is missing
            self._take(packet)

    def _take(self, packet: bytes) -> None:
        now = time.monotonic()
        if self._reply == 0:  # IPv4 comes with its header
            packet = packet[(packet[0] & 15) * 4 :]
        kind, _, _, _, low = _HEADER.unpack_from(packet)
        token, high = packet[8:16], packet[16:18]
        if kind == self._reply and token == self._token:
            sequence = low | int.from_bytes(high) << 16
            self._times[sequence] = now - self._sent[sequence]


def run_pingers(
    pingers: Sequence[Pinger], enough: Callable[[int], bool], grace: float
) -> list[Ping]:
    """Send with all *pingers* at the same times until *enough*, then wait up to *grace* seconds.

    They have one interval.  Requests that are sent together cost a switch in userspace about half
    as much as those of independent senders: it works per wake-up more than per packet.
    """
    first, due = pingers[0], time.monotonic()

    def is_enough() -> bool:
        return enough(first.sent)

    with contextlib.ExitStack() as stack:
        for each in pingers:
            stack.enter_context(contextlib.closing(each))
        while not is_enough():
            for each in pingers:
                each.send()
            # After a stall, continue from now: a burst would show little of the network.
            due = max(due + first.interval, time.monotonic())
            _collect(pingers, due, lambda: is_enough() and _are_all_answered(pingers))
        _collect(pingers, time.monotonic() + grace, lambda: _are_all_answered(pingers))
    return [each.result for each in pingers]


def _are_all_answered(pingers: Sequence[Pinger]) -> bool:
    return all(each.is_all_answered() for each in pingers)


def _collect(pingers: Sequence[Pinger], until: float, done: Callable[[], bool]) -> None:
    """Read answers until *done*, or until none is left to read at the time *until*.

    After a stall, those that arrived meanwhile are read, however late it is.
    """
    while not done():
        ready = select.select(pingers, [], [], max(until - time.monotonic(), 0))[0]
        if not ready:
            return
        for each in ready:
            each.receive()


class BackgroundPings:
    """Pingers of one interval in a background thread."""

    def __init__(self, pingers: Sequence[Pinger], grace: float) -> None:
        self._stop = threading.Event()
        self._results: list[Ping] = []
        self._thread = threading.Thread(target=self._run, args=(pingers, grace), daemon=True)
        self._thread.start()

    def _run(self, pingers: Sequence[Pinger], grace: float) -> None:
        self._results += run_pingers(pingers, lambda _: self._stop.is_set(), grace)

    def stop(self) -> list[Ping]:
        """Stop sending, wait for outstanding answers, and return the results."""
        self._stop.set()
        self._thread.join()
        return self._results


class BackgroundPing:
    """A pinger in a background thread."""

    def __init__(self, pinger: Pinger, grace: float) -> None:
        self._pings = BackgroundPings([pinger], grace)

    def stop(self) -> Ping:
        """Stop sending, wait for outstanding answers, and return the result."""
        return self._pings.stop()[0]


def _open(address: IPv4Address | IPv6Address) -> socket.socket:
    if address.version == 4:
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)


def _message(kind: int, sequence: int, token: bytes) -> bytes:
    body = token + (sequence >> 16).to_bytes(2)
    low = sequence & 0xFFFF
    checksum = _checksum(_HEADER.pack(kind, 0, 0, 1, low) + body)
    return _HEADER.pack(kind, 0, checksum, 1, low) + body


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
