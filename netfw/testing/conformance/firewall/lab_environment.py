"""Real packets for the firewall suite: raw sockets in the namespaces of instances.

There is no other traffic: instances have no addresses, and one process builds, sends and receives
all packets.  A drop is detected without a timeout: each packet is followed by an ARP answer of the
same sender, which no firewall drops.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from attrs import frozen

from netfw.drivers.firewall import FilteredPort
from netfw.model.values.ids import NetworkId, PortId
from netfw.testing.conformance.common.raw_socket import drain, open_wire
from netfw.testing.conformance.firewall.environment import (
    Delivery,
    FirewallEnvironment,
    FirewallTestPort,
    PlugPoint,
)
from netfw.testing.conformance.firewall.frame_codec import encoded, recognised
from netfw.testing.conformance.firewall.packets import Arp
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance

_BUFFER_SIZE = 16 << 20
_TIMEOUT = 20.0
_SILENCE = 0.25
_BEHIND = (0, 0, 0, 0, 1, 1)


@frozen
class _Flight:
    """A delivery on its way."""

    delivery: Delivery
    frames: tuple[bytes, ...]
    marker: bytes | None


class PacketCapture:
    """The sockets of instances, and the frames received at each."""

    def __init__(self, sockets: Mapping[PlugPoint, socket.socket]) -> None:
        self._sockets = dict(sockets)
        self._plug_points = {wire: plug_point for plug_point, wire in sockets.items()}
        self._received: dict[PlugPoint, set[bytes]] = defaultdict(set)
        self._token = 0

    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        """Send all; which of it arrived."""
        flights = [self._send(delivery) for delivery in deliveries]
        until = time.monotonic() + _TIMEOUT
        soon = time.monotonic() + _SILENCE
        while waiting := [flight for flight in flights if not self._decided(flight, soon)]:
            left = until - time.monotonic()
            if left <= 0:
                break
            marked = any(f.delivery.expected or f.marker is not None for f in waiting)
            self._listen(left if marked else max(0.001, soon - time.monotonic()))
        arrived = tuple(self._arrived(flight) for flight in flights)
        self._received.clear()
        return arrived

    def announce(self, port: FirewallTestPort) -> None:
        """Say where *port* is."""
        self._token += 1
        frame = Arp(source_mac=port.mac, sender=port.address, target=port.address)
        self._put(port.plug_point, encoded(frame, self._token)[0])

    def _send(self, delivery: Delivery) -> _Flight:
        self._token += 1
        frames = encoded(delivery.sent, self._token)
        for frame in frames:
            self._put(delivery.sender.plug_point, frame)
        marker = None
        if not delivery.expected and delivery.marked:
            marker = self._marker(delivery.sender, delivery.receiver)
            self._put(delivery.sender.plug_point, marker)
        return _Flight(delivery, frames, marker)

    def _marker(self, sender: FirewallTestPort, receiver: FirewallTestPort) -> bytes:
        frame = Arp(
            source_mac=sender.mac,
            sender=sender.address,
            target=receiver.address,
            target_mac=receiver.mac,
            answer=True,
        )
        return encoded(frame, self._token | 1 << 40)[0]

    def _put(self, plug_point: PlugPoint, frame: bytes) -> None:
        wire = self._sockets[plug_point]
        select.select([], [wire], [], _TIMEOUT)
        with contextlib.suppress(OSError):  # what cannot be sent is lost
            wire.send(frame)

    def _arrived(self, flight: _Flight) -> bool:
        received = self._received[flight.delivery.receiver.plug_point]
        return received.issuperset(map(recognised, flight.frames))

    def _decided(self, flight: _Flight, soon: float) -> bool:
        if self._arrived(flight):
            return True
        if flight.delivery.expected:
            return False
        if flight.marker is None:
            return time.monotonic() >= soon
        return flight.marker in self._received[flight.delivery.receiver.plug_point]

    def _listen(self, wait: float) -> None:
        ready, _, _ = select.select(list(self._plug_points), [], [], wait)
        for wire in ready:
            self._received[self._plug_points[wire]].update(map(recognised, drain(wire)))


class FirewallLabEnvironment(FirewallEnvironment):
    """Instances on a lab host; subclasses add how they are plugged, and the driver."""

    def __init__(self, host: Host) -> None:
        self.host = host
        networks = NetworkId(uuid4()), NetworkId(uuid4())
        self.instances: dict[PlugPoint, Instance] = {}
        for number in range(6):
            plug_point = self.plug_point(number, networks[number // 4])
            instance = host.instance(f"seat{number}")
            self.plug_in(plug_point, instance)
            instance.call(_be_quiet)
            self.instances[plug_point] = instance
        self.plug_points: Sequence[PlugPoint] = tuple(self.instances)
        self._captures = PacketCapture(
            {plug_point: _wire(instance) for plug_point, instance in self.instances.items()}
        )

    def plug_point(self, number: int, network: NetworkId) -> PlugPoint:
        """Return a new plug point: the names of a test port."""
        port = PortId(uuid4())
        return PlugPoint(number=number, port=port, network=network, device=f"tap{port}"[:14])

    def plug_in(self, plug_point: PlugPoint, instance: Instance) -> None:
        """Make a device for *instance*, ``eth0`` or ``instance.device``, plugged."""
        raise NotImplementedError("override `plug_in`")

    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        return self._captures.carry(deliveries)


class BridgeEnvironment(FirewallLabEnvironment):
    """Instances on Linux bridges, one for each network."""

    def wire(self, ports: Mapping[FirewallTestPort, FilteredPort]) -> None:
        """Fill the MAC tables of the bridges, as the first ARP of each instance would."""
        for port in ports:
            self._captures.announce(port)

    def plug_in(self, plug_point: PlugPoint, instance: Instance) -> None:
        bridge, device = f"br{str(plug_point.network)[:8]}", plug_point.device
        if not Path(f"/sys/class/net/{bridge}").exists():
            known = self.host.attempt(["ip", "link", "show", bridge]).status == 0
            options = "forward_delay 0 mcast_snooping 0"
            setup = [f"link add {bridge} type bridge {options}", f"link set {bridge} up"]
            self.host.namespaces.ip(*([] if known else setup))
        self.host.namespaces.ip(
            f"link add {device} type veth peer name eth0 netns {instance.name}",
            f"link set {device} master {bridge} up",
        )
        instance.device = "eth0"
        instance.namespaces.ip("link set eth0 up")


def _wire(instance: Instance) -> socket.socket:
    assert instance.device is not None
    return instance.call(open_wire, instance.device, _BUFFER_SIZE)


def _be_quiet() -> None:
    """Stop the kernel's own traffic; without IPv6 there is none."""
    for path in Path("/proc/sys/net/ipv6/conf").glob("*/disable_ipv6"):
        path.write_text("1")
