"""A client that asks for its lease again many times a second, and counts what it is told."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from ipaddress import IPv4Address
from types import TracebackType
from typing import Self

from netfw.testing.lab.instance import Instance

EVERY = 0.1
"""Seconds between two requests."""
_COOKIE = bytes([99, 130, 83, 99])
_REQUEST, _ACK, _NAK = 3, 5, 6
_TYPE, _END = 53, 255


class Renewals:
    """Asks in the instance's place while its block runs, as a client does whose first server is
    gone: by a request to everybody, which says what address it has."""

    def __init__(self, instance: Instance, mac: str, address: IPv4Address) -> None:
        self._mac, self._address = bytes.fromhex(mac.replace(":", "")), address
        self._socket = instance.call(_open, instance.device or "")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.refusals = 0
        self.foreign: set[IPv4Address] = set()
        """Addresses that it was told instead of its own."""
        self.answers: list[float] = []
        """When those requests were made after which it was told that the address is its own."""
        self._requests: dict[int, float] = {}
        """When each request was made, by its number: on a busy machine an answer takes longer than
        the next request."""

    def __enter__(self) -> Self:
        self._thread.start()
        self.await_answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._socket.close()

    def await_answer(self, timeout: float = 40.0) -> None:
        """Wait until a request is answered that is made from now on."""
        begun = time.monotonic()
        while not self.answers or self.answers[-1] < begun:
            assert time.monotonic() < begun + timeout, f"{self._address}: nobody renews it"
            time.sleep(0.02)

    def check(self) -> None:
        """Check that the client still has its lease, and never got another answer."""
        self.await_answer()
        assert not self.refusals, f"{self._address} was refused"
        assert not self.foreign, f"{self._address} was told to be {self.foreign}"

    @property
    def longest_silence(self) -> float:
        """Seconds between two requests that were answered, with others in between that were not.

        No request was made while this process waited for a core: that is nobody's silence.
        """
        answered = set(self.answers)
        longest, began = 0.0, None
        for at in sorted(self._requests.values()):
            if at not in answered:
                began = at if began is None else began
            elif began is not None:
                longest, began = max(longest, at - began + EVERY), None
        return longest

    def _run(self) -> None:
        while not self._stopped.is_set():
            number = random.getrandbits(32)
            self._requests[number] = time.monotonic()
            with contextlib.suppress(OSError):  # the device may be without a carrier
                self._socket.sendto(self._request(number), ("255.255.255.255", 67))
            until = time.monotonic() + EVERY
            while (left := until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                with contextlib.suppress(OSError):
                    self._take(self._socket.recv(2000))

    def _request(self, number: int) -> bytes:
        head = struct.pack("!4BIHH4s12x16s192x", 1, 1, 6, 0, number, 0, 0,
                           self._address.packed, self._mac)  # fmt: skip
        return head + _COOKIE + bytes([_TYPE, 1, _REQUEST, _END])

    def _take(self, packet: bytes) -> None:
        if len(packet) < 243:
            return
        requested = self._requests.get(struct.unpack_from("!I", packet, 4)[0])
        if requested is None:
            return
        kind = packet[packet.index(bytes([_TYPE, 1]), 240) + 2]
        offered = IPv4Address(packet[16:20])
        if kind == _NAK:
            self.refusals += 1
        elif kind == _ACK and offered != self._address:
            self.foreign.add(offered)
        elif kind == _ACK:
            self.answers.append(requested)


def _open(device: str) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    made.bind(("0.0.0.0", 68))
    return made
