"""What distributed routers send and receive, on the test ports of the lab."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from netfw.model.values.address import IpAddress, Mac
from netfw.testing.conformance.common.raw_socket import drain
from netfw.testing.conformance.switch import frames
from netfw.testing.conformance.switch.environment import (
    NeighbourRequest,
    RoutedPacket,
    SwitchTestPort,
)

_TIMEOUT = 10.0
_RESEND = 0.3
_SILENCE = 0.1
_BURST = 256


class LabRouting:
    """Frames with any source, and requests that others receive and answer."""

    def socket(self, port: SwitchTestPort) -> socket.socket:
        """Return a raw socket on the test port's device."""
        raise NotImplementedError("override `socket`")

    def sources(
        self,
        packet: RoutedPacket,
        receivers: Iterable[SwitchTestPort],
        *,
        expected: Collection[SwitchTestPort],
    ) -> Mapping[SwitchTestPort, frozenset[Mac]]:
        token, own = os.urandom(8), _own(packet.sender, packet.target)
        frame = frames.udp_packet(packet.to, packet.source, own, packet.target, token)
        found: dict[SwitchTestPort, frozenset[Mac]] = {}
        with contextlib.ExitStack() as stack:
            wire = stack.enter_context(self.socket(packet.sender))
            ears = {port: stack.enter_context(self.socket(port)) for port in receivers}
            for _ in _sendings(wire, frame, _TIMEOUT if expected else 0):
                for port, received in _receive(ears, _RESEND if expected else _SILENCE):
                    if token in received:
                        found[port] = found.get(port, frozenset()) | {_source(received)}
                    if found.keys() >= set(expected):
                        break
                if found.keys() >= set(expected):
                    break
            for port, received in _receive(ears, _SILENCE):  # others may get it a moment later
                if token in received:
                    found[port] = found.get(port, frozenset()) | {_source(received)}
        return found

    def requests(
        self, port: SwitchTestPort, address: IpAddress, receiver: SwitchTestPort, *, expected: bool
    ) -> NeighbourRequest | None:
        question = frames.question(port.mac, _own(port, address), address)
        with self.socket(port) as wire, self.socket(receiver) as ear:
            for _ in _sendings(wire, question, _TIMEOUT if expected else 0):
                for _, packet in _receive({receiver: ear}, _RESEND if expected else _SILENCE):
                    if frames.is_question(packet, address):
                        return NeighbourRequest(_source(packet), frames.asker(packet) is not None)
        return None

    def resolve_by_owner(
        self, port: SwitchTestPort, owner: SwitchTestPort, version: int
    ) -> Mac | None:
        address = owner.address if version == 4 else owner.address6
        question = frames.question(port.mac, _own(port, address), address)
        with self.socket(port) as wire, self.socket(owner) as other:
            for _ in _sendings(wire, question, _TIMEOUT):
                for at, packet in _receive({port: wire, owner: other}, _RESEND):
                    if at is owner and frames.is_question(packet, address):
                        other.send(frames.reply(owner.mac, address, packet))
                    found = frames.answer(packet, address) if at is port else None
                    if found is not None and packet[:6] == frames.raw(port.mac):
                        return found
        return None


def _own(port: SwitchTestPort, other: IpAddress) -> IpAddress:
    return port.address if other.version == 4 else port.address6


def _source(packet: bytes) -> Mac:
    return Mac(packet[6:12].hex(":"))


def _sendings(wire: socket.socket, frame: bytes, seconds: float) -> Iterator[None]:
    """Send *frame* again and again for *seconds*, after each of which the caller receives."""
    until = time.monotonic() + seconds
    while True:
        wire.send(frame)
        yield
        if time.monotonic() >= until:
            return


def _receive(
    ears: Mapping[SwitchTestPort, socket.socket], seconds: float
) -> Iterator[tuple[SwitchTestPort, bytes]]:
    """Yield what the sockets receive, until *seconds* are over."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select(list(ears.values()), [], [], left)
        for port, wire in ears.items():
            if wire in ready:
                for packet in islice(drain(wire), _BURST):
                    yield port, packet
