"""A `SwitchEnvironment` of the lab: instances that send and receive on raw sockets."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv6Address
from itertools import count, islice
from pathlib import Path

from netfw.model.values.address import IpAddress, Mac
from netfw.testing.conformance.common.raw_socket import drain, open_wire
from netfw.testing.conformance.common.vlan_socket import open_vlan
from netfw.testing.conformance.switch import frames
from netfw.testing.conformance.switch.environment import (
    Pair,
    SwitchEnvironment,
    SwitchTestPort,
    TrafficProbe,
)
from netfw.testing.conformance.switch.lab_routing import LabRouting
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab

_BUFFER_SIZE = 8 << 20
_BURST = 256
_INTERVAL = 0.01
_TIMEOUT = 10.0
_QUIET = 0.03
_RESEND = 0.3
_SILENCE = 0.1
_SOME_GROUP = IPv6Address("ff02::1:ff00:1")
TO_ALL, TO_ONE, FORGED = range(3)


class LabSwitchPorts(LabRouting):
    """Test ports on the hosts of a lab, from a pool of instances on each.

    The vendor adds how an instance is plugged.
    """

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.hosts: tuple[Host, ...] = tuple(lab.hosts.values())
        self.plugged: dict[SwitchTestPort, Instance | None] = {}
        self._idle: dict[int, list[Instance]] = defaultdict(list)
        self._made = 0

    def plug_in(self, port: SwitchTestPort, instance: Instance) -> None:
        """Make a device for *instance*, ``eth0`` or ``instance.device``, plugged."""
        raise NotImplementedError("override `plug_in`")

    def take_out(self, *ports: SwitchTestPort) -> None:
        """Undo `plug_in` and `plug_mute`."""
        raise NotImplementedError("override `take_out`")

    def plug(self, *ports: SwitchTestPort) -> None:
        for port in ports:
            instance = self._instance(port.host)
            self.plug_in(port, instance)
            self.plugged[port] = instance

    def unplug(self, *ports: SwitchTestPort) -> None:
        there = [port for port in ports if port in self.plugged]
        if there:
            self.take_out(*there)
        for port in there:
            instance = self.plugged.pop(port)
            if instance is not None:
                self._idle[port.host].append(instance)

    def clear(self) -> None:
        self.unplug(*self.plugged)

    @contextlib.contextmanager
    def probe_traffic(self, *ports: SwitchTestPort) -> Iterator[TrafficProbe]:
        with contextlib.ExitStack() as stack:
            parents = {port.parent for port in ports}
            sockets = {
                one: stack.enter_context(self.socket(one, only_untagged=one in parents))
                for one in ports
            }
            probe = LabTrafficProbe(sockets)
            stack.callback(probe.close)
            yield probe

    def resolve(self, port: SwitchTestPort, address: IpAddress, *, expected: bool) -> Mac | None:
        own = port.address if address.version == 4 else port.address6
        with self.socket(port) as wire:
            return _answer(wire, frames.question(port.mac, own, address), wire, address, expected)

    def copies(
        self,
        sender: SwitchTestPort,
        mac: Mac,
        receivers: Iterable[SwitchTestPort],
        *,
        expected: Collection[SwitchTestPort],
    ) -> Mapping[SwitchTestPort, int]:
        token, until = os.urandom(8), time.monotonic() + _TIMEOUT
        with contextlib.ExitStack() as stack:
            wire = stack.enter_context(self.socket(sender))
            ears = {port: stack.enter_context(self.socket(port)) for port in receivers}
            copies: Counter[SwitchTestPort] = Counter()
            for number in count(1):
                payload = frames.make_payload(token, sender.number, number, TO_ONE, 0)
                wire.send(frames.frame(frames.raw(mac), frames.raw(sender.mac), payload))
                copies = _count_copies(ears, token, number, expected)
                if copies.keys() >= set(expected) or time.monotonic() > until:
                    break
        return dict(copies)

    def announces(
        self,
        port: SwitchTestPort,
        mac: Mac,
        address: IpAddress,
        receiver: SwitchTestPort,
        *,
        expected: bool,
    ) -> bool:
        with self.socket(port) as wire, self.socket(receiver) as ear:
            return _answer(wire, frames.announcement(mac, address), ear, address, expected) == mac

    def reports_groups(
        self, port: SwitchTestPort, receiver: SwitchTestPort, *, expected: bool
    ) -> bool:
        report = frames.group_report(port.mac, _SOME_GROUP)
        until = time.monotonic() + (_TIMEOUT if expected else _SILENCE)
        with self.socket(port) as wire, self.socket(receiver) as ear:
            while (left := until - time.monotonic()) > 0:
                wire.send(report)
                ready, _, _ = select.select([ear], [], [], min(left, _RESEND))
                if ready and report in islice(drain(ear), _BURST):
                    return True
        return False

    def socket(self, port: SwitchTestPort, *, only_untagged: bool = False) -> socket.socket:
        """Return a raw socket on the test port's device; that of a sub-port is under its tag."""
        instance = self.plugged[port.parent or port]
        assert instance is not None, f"{port} is mute"
        assert instance.device is not None
        if port.parent is not None:
            return instance.call(open_vlan, instance.device, _BUFFER_SIZE, port.tag)
        if only_untagged:
            return instance.call(open_vlan, instance.device, _BUFFER_SIZE, None)
        return instance.call(open_wire, instance.device, _BUFFER_SIZE)

    def _instance(self, host: int) -> Instance:
        if self._idle[host]:
            return self._idle[host].pop()
        self._made += 1
        instance = self.hosts[host].instance(f"instance{self._made}")
        # Only the tests send: a kernel with a link-local address would be learned from.
        instance.call(Path("/proc/sys/net/ipv6/conf/default/addr_gen_mode").write_text, "1")
        return instance


class SwitchLabEnvironment(LabSwitchPorts, SwitchEnvironment):
    """An environment of two lab hosts; subclasses add how to observe the vendor's switch."""


class LabTrafficProbe(TrafficProbe):
    """Sends and receives for all test ports, in one thread."""

    def __init__(self, sockets: Mapping[SwitchTestPort, socket.socket]) -> None:
        self._sockets = dict(sockets)
        self._ports = {port.number: port for port in sockets}
        assert len(self._ports) == len(self._sockets), "two test ports have one number"
        self._token = os.urandom(8)
        self._lock = threading.Condition()
        self._sent: dict[Pair, set[int]] = defaultdict(set)
        self._received: dict[Pair, set[int]] = defaultdict(set)
        self._rounds: dict[tuple[int, int], set[Pair]] = defaultdict(set)
        self._number = self._round = 0
        self._quiet = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netfw-traffic-probe", daemon=True)
        self._thread.start()

    def exchange(self, expected: Iterable[Pair] = (), within: float = 20.0) -> frozenset[Pair]:
        pairs = frozenset(expected)
        with self._lock:
            self._round += 1
            number = self._round
            for port in self._sockets:
                self._send_numbered(port, None, number)
                for other in self._sockets:
                    if other is not port:
                        self._send_numbered(port, other, number)
            self._lock.wait_for(
                lambda: bool(pairs) and pairs <= self._both(number),
                within if pairs else _SILENCE,
            )
        time.sleep(_QUIET)
        with self._lock:
            # To expect nothing is to be content with any scrap as a proof of the contrary.
            return self._both(number) | (self._either(number) - pairs)

    def lost(self, *pairs: Pair) -> int:
        self._quiet.set()
        with self._lock:
            self._lock.wait_for(lambda: not self._missing(pairs), _TIMEOUT)
            return self._missing(pairs)

    @property
    def ever_received(self) -> frozenset[Pair]:
        with self._lock:
            return frozenset(pair for pair, numbers in self._received.items() if numbers)

    def forge(
        self, sender: SwitchTestPort, *, vlans: Iterable[int] = (), source: Mac | None = None
    ) -> None:
        address = frames.raw(source or sender.mac)
        tags = tuple(vlans) or (None,)
        for position, vlan in enumerate(tags):
            payload = frames.make_payload(self._token, sender.number, 0, FORGED, 0)
            self._send(sender, frames.frame(frames.BROADCAST, address, payload, vlan))
            if position % 64 == 63:
                time.sleep(0.005)  # no queue on the way is longer

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _missing(self, pairs: Iterable[Pair]) -> int:
        return sum(len(self._sent[pair] - self._received[pair]) for pair in pairs)

    def _both(self, number: int) -> frozenset[Pair]:
        return frozenset(self._rounds[number, TO_ALL] & self._rounds[number, TO_ONE])

    def _either(self, number: int) -> frozenset[Pair]:
        return frozenset(self._rounds[number, TO_ALL] | self._rounds[number, TO_ONE])

    def _run(self) -> None:
        due, turn = time.monotonic(), 0
        while not self._end.is_set():
            if time.monotonic() >= due and not self._quiet.is_set():
                with self._lock:
                    self._send_round(turn)
                turn += 1
                due = max(due + _INTERVAL, time.monotonic())
            self._listen(min(_INTERVAL, max(0.0, due - time.monotonic())) or _INTERVAL)

    def _send_round(self, turn: int) -> None:
        """Send a frame from each port, by turns to all and to one of the others."""
        for port in self._sockets:
            others = [other for other in self._sockets if other is not port]
            target = others[turn // 2 % len(others)] if turn % 2 and others else None
            self._send_numbered(port, target, 0)

    def _send_numbered(
        self, port: SwitchTestPort, target: SwitchTestPort | None, round_: int
    ) -> None:
        self._number += 1
        kind = TO_ALL if target is None else TO_ONE
        payload = frames.make_payload(self._token, port.number, self._number, kind, round_)
        to = frames.BROADCAST if target is None else frames.raw(target.mac)
        listeners = self._sockets if target is None else (target,)
        for listener in listeners:
            if listener is not port:
                self._sent[port, listener].add(self._number)
        self._send(port, frames.frame(to, frames.raw(port.mac), payload))

    def _send(self, port: SwitchTestPort, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # what cannot be sent is lost
            self._sockets[port].send(packet)

    def _listen(self, wait: float) -> None:
        ready, _, _ = select.select(list(self._sockets.values()), [], [], wait)
        for port, wire in self._sockets.items():
            if wire in ready:
                packets = list(islice(drain(wire), _BURST))
                with self._lock:
                    for packet in packets:
                        self._take(port, packet)
                    self._lock.notify_all()

    def _take(self, listener: SwitchTestPort, packet: bytes) -> None:
        payload = frames.parse_payload(self._token, packet)
        if payload is None:
            return
        sender, number, kind, round_ = payload
        pair = self._ports[sender], listener
        self._received[pair].add(number)
        if round_ and kind != FORGED:
            addressed = kind == TO_ALL or packet[:6] == frames.raw(listener.mac)
            self._rounds[round_, kind if addressed else TO_ALL].add(pair)


def _count_copies(
    ears: Mapping[SwitchTestPort, socket.socket],
    token: bytes,
    number: int,
    expected: Collection[SwitchTestPort],
) -> Counter[SwitchTestPort]:
    """Count the copies of a frame at each port, for a while after all *expected* ports have one."""
    copies: Counter[SwitchTestPort] = Counter()
    until, quiet = time.monotonic() + _RESEND, False
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select(list(ears.values()), [], [], left)
        for port, wire in ears.items():
            for packet in islice(drain(wire), _BURST) if wire in ready else ():
                payload = frames.parse_payload(token, packet)
                copies[port] += payload is not None and payload[1] == number
        if not quiet and set(+copies) >= set(expected):
            until, quiet = time.monotonic() + _SILENCE, True
    return +copies


def _answer(
    wire: socket.socket, frame: bytes, ear: socket.socket, address: IpAddress, expected: bool
) -> Mac | None:
    """Send *frame* repeatedly, as hosts do; return the MAC of *address* that *ear* receives.

    One request is not enough: a kernel is silent until it has the address for good, and a busy
    switch may drop the first packet of a flow.  If no answer is *expected*, the wait is short.
    """
    until = time.monotonic() + (_TIMEOUT if expected else _SILENCE)
    while (left := until - time.monotonic()) > 0:
        wire.send(frame)
        mac = _first_answer(ear, address, min(left, _RESEND))
        if mac is not None:
            return mac
    return None


def _first_answer(wire: socket.socket, address: IpAddress, seconds: float) -> Mac | None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([wire], [], [], left)[0]:
            for packet in islice(drain(wire), _BURST):
                mac = frames.answer(packet, address)
                if mac is not None:
                    return mac
    return None
