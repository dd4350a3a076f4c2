"""The environment of the router suite on a host in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Network

from attrs import evolve

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.values.events import KeysChanged, ProcessDied
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import RouterState
from netfw.testing.conformance.router.environment import (
    Machine,
    ReceivedAdvertisement,
    RouterEnvironment,
    RouterOnHost,
    Stream,
    Traffic,
)
from netfw.testing.conformance.router.factories import next_mac
from tests.conformance.router.fake_distributed_backend import FakeDistributedBackend
from tests.conformance.router.fake_distributed_router import FakeDistributedRouterDriver
from tests.conformance.router.fake_fabric import FakeFabric
from tests.conformance.router.fake_parts import public_key
from tests.conformance.router.fake_prefixes import FakeProvider
from tests.conformance.router.fake_router import FakeRouterDriver
from tests.conformance.router.fake_router_backend import Packet

METADATA = [face.ip for face in METADATA_ADDRESSES.values()]


class FakeStream(Stream):
    def __init__(self, machine, packet, found) -> None:
        receiver, _, self.router, self.addresses = found
        self.machine, self.packet, self.receiver = machine, packet, receiver
        self.ended = False

    def is_alive(self) -> bool:
        arrival = self.machine.backend.send(self.machine, self.packet)
        name = None if self.receiver is None else self.receiver.name
        return not self.ended and arrival is not None and arrival.at == name

    def close(self) -> None:
        self.machine.backend.streams.remove(self)


class FakeTraffic(Traffic):
    def __init__(self, machine, address) -> None:
        self.machine, self.address, self.lost = machine, address, 0
        machine.backend.traffics.append(self)

    def send(self) -> None:
        self.lost += self.machine.reach(self.address) is None

    def stop(self) -> int:
        self.send()
        self.machine.backend.traffics.remove(self)
        return self.lost


class FakeMachine(Machine):
    def __init__(self, backend, name, network, *, addresses, gateways, mtu) -> None:
        self.backend, self.name, self.network = backend, name, network
        self.addresses, self.gateways, self.mtu = tuple(addresses), tuple(gateways), mtu
        self.mac = next_mac()
        self.watched = None
        self.announcement = None, None

    def own(self, version):
        return next(face.ip for face in self.addresses if face.version == version)

    def packet(self, address, protocol="icmp", port=0, source_port=0) -> Packet:
        source = self.own(address.version)
        return Packet(
            source=source, target=address, protocol=protocol, port=port, source_port=source_port
        )

    def knows_way(self, address) -> bool:
        near = any(address in face.network for face in self.addresses)
        return near or any(each.version == address.version for each in self.gateways)

    def reach(self, address, protocol="icmp", port=0, source_port=0):
        if not any(face.version == address.version for face in self.addresses):
            return None
        return self.backend.send(self, self.packet(address, protocol, port, source_port))

    def count_answers(self, address):
        return len(list(self.backend.arrivals(self, self.packet(address))))

    def connect(self, address, port):
        packet = self.packet(address, "tcp", port)
        found = self.backend.deliver(self, packet)
        if found is None or (found[0] is None and self.refuses(found[2], port)):
            return None
        stream = FakeStream(self, packet, found)
        self.backend.streams.append(stream)
        return stream

    def refuses(self, router, port) -> bool:
        return port == self.backend.routers[router].metadata_port

    def traffic(self, address):
        return FakeTraffic(self, address)

    def path_mtu(self, address, size):
        found = self.backend.deliver(self, self.packet(address))
        router = found[2]
        for port in self.backend.ports(router):
            if any(address in face.network for face in port.addresses) and size > port.mtu:
                return port.mtu
        return None

    def announced(self, address, stale, action: Callable[[], None]):
        self.watched, self.announcement = address, (None, None)
        action()
        self.watched = None
        return self.announcement

    def take_announcement(self, address, mac) -> None:
        if address == self.watched:
            self.watched = None
            self.announcement = mac, self.reach(address)

    def advertisement(self):
        found = [
            each for host in self.backend.fabric.near(self.backend) for each in self.sent(host)
        ]
        return found[0] if found else None

    def sent(self, host) -> Iterator[ReceivedAdvertisement]:
        """Yield the advertisements of a host."""
        for router in host.routers:
            for port in host.ports(router):
                subnets = [each for each in port.subnets if each.ipv6_ra_mode]
                sends = subnets or host.withdrawn.get(port.id)
                sends = sends and router not in host.dead and host.advertises(router)
                if port.network == self.network and sends:
                    host.sent[port.id] += 1
                    yield host.advertise(port, subnets)

    def advertise_router(self) -> None:
        self.backend.advertised[self.network] = self.own(6)

    def metadata(self, address):
        for host in self.backend.fabric.near(self.backend):
            for router in filter(host.is_active, host.routers):
                if any(port.network == self.network for port in host.ports(router)):
                    state = host.routers[router]
                    if router in host.listening and state.metadata_port:
                        return self.own(address.version)
        return None


class FakeRouterEnvironment(RouterEnvironment):
    """A host in memory; drivers of ``driver`` work on it."""

    timeout = 0.2

    _numbers = itertools.count(1)

    def __init__(
        self,
        driver: type[FakeRouterDriver] = FakeDistributedRouterDriver,
        fabric: FakeFabric | None = None,
    ) -> None:
        self.driver = driver
        self.backend = FakeDistributedBackend(fabric=fabric or FakeFabric())
        self.backend.advertise = self.advertise
        self.other: FakeRouterEnvironment | None = None

    def advertise(self, port, subnets) -> ReceivedAdvertisement:
        return ReceivedAdvertisement(
            prefixes=frozenset(str(s.cidr) for s in subnets if isinstance(s.cidr, IPv6Network)),
            withdrawn=frozenset(map(str, self.backend.withdrawn.get(port.id, ()))),
            mode=subnets[0].ipv6_ra_mode if subnets else None,
            mtu=port.mtu,
            source=self.backend.sources.get(port.id),
            name_servers=frozenset(a for s in subnets for a in s.dns_nameservers),
        )

    def make_driver(self):
        return self.driver(self.backend)

    def killed(self, driver) -> None:
        driver.close()

    def admit(self, ports, *, wired=True) -> None:
        ids = {port.id for port in ports}
        changed = ids - self.backend.wired if wired else ids & self.backend.wired
        self.backend.wired ^= changed
        keys = {key for router in self.backend.routers for key in self.wired_keys(router, changed)}
        for sink in self.backend.sinks if keys else ():
            sink(KeysChanged("wired", keys))
        self.backend.fabric.elect()

    def wired_keys(self, router, ports) -> Iterator[RouterKey | FloatingIpKey]:
        if any(port.id in ports for port in self.backend.all_ports(router)):
            yield public_key(RouterKey(router))
        gateway = self.backend.outside_port(router)
        if gateway is not None and gateway.id in ports:
            nat = self.backend.nat.items()
            yield from (FloatingIpKey(id) for id, value in nat if value.router == router)

    def machine(self, network, addresses, gateways=(), *, mtu=1500):
        name = f"machine{next(self._numbers)}"
        machine = FakeMachine(
            self.backend, name, network, addresses=addresses, gateways=gateways, mtu=mtu
        )
        self.backend.machines.append(machine)
        return machine

    def listen_metadata(self, router, state) -> None:
        self.backend.listening.add(router)

    def dismiss(self) -> None:
        for things in (self.backend.machines, self.backend.streams, self.backend.traffics):
            things.clear()
        self.backend.listening.clear()
        self.backend.foreign.clear()
        self.backend.fabric.providers.clear()
        self.backend.advertised.clear()

    def found(self, router, ports):
        if router not in self.backend.routers:
            return RouterOnHost() if self.backend.junk else None
        have = {port.id: port for port in self.backend.ports(router)}
        return RouterOnHost(
            addresses={id: frozenset(port.addresses) for id, port in have.items()},
            macs={id: port.mac for id, port in have.items()},
            mtus={id: port.mtu for id, port in have.items()},
        )

    def connections(self, *addresses) -> int:
        alive = [each for each in self.backend.streams if not each.ended]
        return sum(set(addresses) <= set(each.addresses) for each in alive)

    def await_wired(self, ports) -> None:
        """Do nothing: known ports are admitted at once."""

    def dump_state(self):
        backend = self.backend
        routers = {f"router {id}" for id in backend.routers}
        routers |= {f"agent gateway {id}" for id in backend.agent_gateways}
        return frozenset(routers | {f"nat {id}" for id in backend.nat} | backend.junk)

    def contains(self, text) -> bool:
        return any(text in str(state) for state in self.backend.routers.values())

    def kill_processes(self, router) -> bool:
        self.backend.dead.add(router)
        self.backend.fabric.elect()
        for sink in tuple(self.backend.sinks):
            self.backend.dead.discard(router)
            sink(ProcessDied("radvd ended", {RouterKey(router)}))
        self.backend.fabric.elect()
        return True

    def vanish(self, key, value) -> None:
        del self.backend.routers[key.router]
        self.backend.fabric.elect()

    def make_foreign(self, value: RouterState) -> None:
        self.backend.foreign.add(value.full.interfaces[0].id)

    def foreign_is_intact(self, value: RouterState) -> bool:
        return value.full.interfaces[0].id in self.backend.foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.backend.online = False
        try:
            yield
        finally:
            self.backend.online = True

    @contextmanager
    def refuse_rules(self, address) -> Iterator[None]:
        self.backend.refused.add(address)
        try:
            yield
        finally:
            self.backend.refused.clear()

    def peer(self):
        if self.other is None:
            self.other = FakeRouterEnvironment(self.driver, self.backend.fabric)
        return self.other

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        fabric = self.backend.fabric
        fabric.cut_off.append(self.backend)
        fabric.elect()
        try:
            yield
        finally:
            fabric.cut_off.remove(self.backend)
            fabric.elect()

    def sent_frames(self, ports) -> int:
        return sum(self.backend.sent[port.id] for port in ports)

    def prefix_provider(self, network, addresses):
        provider = FakeProvider(self.backend.fabric, network)
        self.backend.fabric.providers.append(provider)
        return provider

    def drifts(self):
        def spoil(key, value) -> None:
            (port,) = value.full.interfaces
            full = evolve(value.full, interfaces=(evolve(port, mtu=1300),))
            self.backend.routers[key.router] = evolve(value, full=full)

        return {"another MTU": spoil, "gone": self.vanish}
