"""A host in memory: routers, machines, and how packets pass between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterRule
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    HighAvailability,
    RouterPort,
    RouterState,
)
from netfw.errors import BackendUnavailable
from netfw.model.router import HaRole
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId
from netfw.testing.conformance.router.environment import ReceivedAdvertisement, ReceivedEcho
from tests.conformance.router.fake_fabric import FakeFabric

if TYPE_CHECKING:
    from tests.conformance.router.fake_environment import FakeMachine

HOPS = 8


@frozen(kw_only=True)
class Packet:
    source: IpAddress
    target: IpAddress
    protocol: str = "icmp"
    port: int = 0
    source_port: int = 0
    hops: int = 0


@define(slots=False, eq=False, repr=False)
class FakeRouterBackend:
    """What the kernel of the host has."""

    routers: dict[RouterId, RouterState] = field(factory=dict)
    nat: dict[FloatingIpId, FloatingIpNat] = field(factory=dict)
    machines: list = field(factory=list)
    streams: list = field(factory=list)
    traffics: list = field(factory=list)
    wired: set[PortId] = field(factory=set)
    foreign: set[PortId] = field(factory=set)
    junk: set[str] = field(factory=set)
    refused: set[object] = field(factory=set)
    listening: set[RouterId] = field(factory=set)
    dead: set[RouterId] = field(factory=set)
    """Routers whose process was killed."""
    withdrawn: dict[PortId, set] = field(factory=dict)
    """Prefixes that were advertised on ports before."""
    sources: dict[PortId, IPv6Address] = field(factory=dict)
    """Sources of the advertisements on ports."""
    advertised: dict[NetworkId, IpAddress] = field(factory=dict)
    """Default routers by network, of machines that advertise themselves."""
    sinks: list = field(factory=list)
    rules: dict[str, RouterState] = field(factory=dict)
    online: bool = True
    fabric: FakeFabric = field(factory=FakeFabric)
    """The networks that other hosts have too."""
    roles: dict[RouterId, HaRole] = field(factory=dict)
    preempts: bool = False
    sent: Counter[PortId] = field(factory=Counter)
    """Frames that ports of routers sent by themselves."""
    prefix_requests: dict = field(factory=dict)
    """What the clients for delegated prefixes request, by router."""
    leases: dict = field(factory=dict)
    """Prefixes by router and subnet; ``None``: one that expired."""
    lease_watchers: list = field(factory=list)
    advertise: Callable[[RouterPort, list[Subnet]], ReceivedAdvertisement] = field(init=False)
    """Makes the advertisement of subnets on a port."""

    def __attrs_post_init__(self) -> None:
        self.fabric.hosts.append(self)

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the switch does not answer")

    def ports(self, router: RouterId) -> tuple[RouterPort, ...]:
        full = self.routers[router].full
        return (*full.interfaces, *(() if full.gateway is None else (full.gateway.port,)))

    def all_ports(self, router: RouterId) -> tuple[RouterPort, ...]:
        """Return the ports of a router, that on the HA network included."""
        ha = self.ha(router)
        return (*self.ports(router), *(() if ha is None else (ha.port,)))

    def ha(self, router: RouterId) -> HighAvailability | None:
        state = self.routers.get(router)
        return None if state is None else state.full.ha

    def joins_election(self, router: RouterId) -> bool:
        ha = self.ha(router)
        return ha is not None and ha.port.id in self.wired and router not in self.dead

    def is_active(self, router: RouterId) -> bool:
        return self.ha(router) is None or self.roles.get(router) is HaRole.ACTIVE

    def answers(self, router: RouterId) -> bool:
        return self.is_active(router)

    def forwards(self, router: RouterId) -> bool:
        return self.is_active(router)

    def advertises(self, router: RouterId) -> bool:
        return self.is_active(router)

    def requests_prefixes(self, router: RouterId) -> bool:
        return self.is_active(router)

    def gateway_port(self, router: RouterId) -> RouterPort | None:
        state = self.routers.get(router)
        return None if state is None or state.full.gateway is None else state.full.gateway.port

    def outside_addresses(self, router: RouterId) -> Iterator[IpAddress]:
        """Yield the addresses of the gateway's device."""
        port = self.gateway_port(router)
        yield from (each.ip for each in port.addresses)
        yield from (each.floating_address for each in self.nat.values() if each.router == router)
        for each in self.routers[router].contributions:
            yield from (address.ip for address in each.addresses)

    def proxied(self, router: RouterId) -> Iterator[IpAddress]:
        """Yield the addresses for which the gateway answers."""
        for each in self.routers[router].contributions:
            yield from each.proxied

    def probe(self) -> None:
        """Send one packet of all running traffic, as each moment of a change may meet one."""
        for host in self.fabric.hosts:
            for traffic in host.traffics:
                traffic.send()

    def announce(self, port: RouterPort, address: IpAddress) -> None:
        self.sent[port.id] += 1
        for machine in self.near_machines():
            if machine.network == port.network:
                machine.take_announcement(address, port.mac)

    def near_machines(self) -> Iterator[FakeMachine]:
        for host in self.fabric.near(self):
            yield from host.machines

    def end_streams(self, router: RouterId, address: IpAddress) -> None:
        for stream in self.streams:
            if stream.router == router and address in stream.addresses:
                stream.ended = True

    # Packets

    def send(self, machine: FakeMachine, packet: Packet) -> ReceivedEcho | None:
        """Deliver *packet* of *machine*; return how it arrived if an answer finds its way back."""
        return next(self.arrivals(machine, packet), None)

    def arrivals(self, machine: FakeMachine, packet: Packet) -> Iterator[ReceivedEcho]:
        """Yield how each copy of *packet* arrived of which an answer finds its way back."""
        for receiver, seen, _, _ in self.deliveries(machine, packet):
            if receiver is None or receiver.knows_way(seen.source):
                name = "router" if receiver is None else receiver.name
                yield ReceivedEcho(
                    at=name, source=seen.source, source_port=seen.source_port, hops=seen.hops
                )

    def deliver(self, machine: FakeMachine, packet: Packet):
        """Return the receiver (``None``: a router), the packet there, the router and addresses."""
        return next(self.deliveries(machine, packet), None)

    def deliveries(self, machine: FakeMachine, packet: Packet) -> Iterator[tuple]:
        """Yield what each host delivers that the packet reaches."""
        target = packet.target
        if any(target in face.network for face in machine.addresses):
            found = self.on_link(machine.network, target)
            if found is not None:
                yield found, packet, None, ()
                return
        else:
            ways = (each for each in machine.gateways if each.version == target.version)
            target = next(ways, None)
        for host in self.fabric.near(self):
            entry = host.router_at(machine.network, target)
            delivered = None if entry is None else host.forward(*entry, packet)
            if delivered is not None:
                yield delivered

    def on_link(self, network: NetworkId, address: IpAddress):
        for machine in self.near_machines():
            if machine.network == network and any(f.ip == address for f in machine.addresses):
                return machine
        return None

    def router_at(self, network: NetworkId, address: IpAddress):
        for router in self.routers:
            for port in self.ports(router):
                outside = port is self.gateway_port(router)
                own = [each.ip for each in port.addresses]
                own += [*self.outside_addresses(router), *self.proxied(router)] if outside else []
                if port.network == network and address in own:
                    return router, port
        return None

    def forward(self, router: RouterId, inward: RouterPort, packet: Packet):
        target, port, translated = self.destination(router, packet)
        own = target in [each.ip for each in inward.addresses] and not translated
        if not (self.answers(router) if own else self.forwards(router)):
            return None
        if own:
            return None, packet, router, ()
        out, hop = self.route(router, target)
        if out is None or self.in_contribution(router, target):
            return None
        if self.is_dropped(router, inward.id, out.id):
            return None
        source, kind = self.source(router, out, inward, packet, translated)
        if not (translated or kind) and not self.same_scope(inward, out, target.version):
            return None
        seen = Packet(
            source=source,
            target=target,
            protocol=packet.protocol,
            port=port,
            source_port=packet.source_port,
            hops=packet.hops + 1,
        )
        addresses = packet.source, packet.target, source, target
        return self.leave(out.network, hop, seen, router, addresses)

    def leave(self, network: NetworkId, hop: IpAddress, seen: Packet, router, addresses):
        """Deliver a packet that leaves *router* for the next hop on *network*."""
        receiver = self.on_link(network, hop)
        if receiver is None or seen.target not in [each.ip for each in receiver.addresses]:
            return None
        return receiver, seen, router, addresses

    def destination(self, router: RouterId, packet: Packet):
        for nat in self.nat.values():
            if nat.router == router and nat.floating_address == packet.target:
                return nat.fixed_address, packet.port, True
        for contribution in self.routers[router].contributions:
            for rule in (each for each in contribution.rules if "DNAT" in each.words):
                words = dict(zip(rule.words[::2], rule.words[1::2], strict=True))
                first, _, last = words["--dport"].partition(":")
                hit = words["-d"] == f"{packet.target}/32" and words["-p"] == packet.protocol
                if hit and int(first) <= packet.port <= int(last or first):
                    address, _, to = words["--to-destination"].partition(":")
                    return ip_address(address), int(to.split("-")[0]), True
        return packet.target, packet.port, False

    def is_dropped(self, router: RouterId, inward: PortId, out: PortId) -> bool:
        """Return whether a rule drops packets between these ports."""
        owned = (each.rules for each in self.routers[router].contributions)
        return any(self.chain_drops(rules, "", inward, out) for rules in owned)

    def chain_drops(self, rules: tuple[RouterRule, ...], chain: str, *ports: PortId) -> bool:
        """Return whether the rules of *chain* drop packets, with those that it enters."""
        for rule in (each for each in rules if each.subchain == chain):
            if self.matches(rule, *ports):
                if "RETURN" in rule.words:
                    return False
                if rule.enter and self.chain_drops(rules, rule.enter, *ports):
                    return True
                if "DROP" in rule.words:
                    return True
        return False

    def matches(self, rule: RouterRule, inward: PortId, out: PortId) -> bool:
        return rule.in_port in (None, inward) and rule.out_port in (None, out)

    def in_contribution(self, router: RouterId, target: IpAddress) -> bool:
        found = self.routers[router].contributions
        return any(each.ip == target for one in found for each in one.addresses)

    def route(self, router: RouterId, target: IpAddress):
        state = self.routers[router]
        for port in self.ports(router):
            if any(target in face.network for face in port.addresses):
                return port, target
        hops = [each.nexthop for each in state.routes if target in each.destination]
        gateway = state.full.gateway
        if not hops and gateway is not None:
            if any(target in ip_network(each) for each in gateway.onlink_subnets):
                return gateway.port, target
            hops = [each for each in gateway.next_hops if each.version == target.version]
            if not hops and gateway.ipv6_from_ra and target.version == 6:
                hops = [a for net, a in self.advertised.items() if net == gateway.port.network]
        if not hops:
            return None, None
        hop = hops[int(target) % len(hops)]
        for port in self.ports(router):
            if any(hop in face.network for face in port.addresses):
                return port, hop
        return (None, None) if gateway is None else (gateway.port, hop)

    def source(self, router, out, inward, packet, translated):
        """Return the source address after translation, and whether it was translated."""
        for nat in self.nat.values():
            outgoing = out is self.gateway_port(router) or translated
            if nat.router == router and nat.fixed_address == packet.source and outgoing:
                return nat.floating_address, True
        gateway = self.routers[router].full.gateway
        if out is not self.gateway_port(router) or inward is out or not gateway.snat:
            return packet.source, False
        if packet.source.version == 6 or self.untranslated_scope(inward, out):
            return packet.source, False
        return next(each.ip for each in out.addresses if each.version == 4), True

    def untranslated_scope(self, inward: RouterPort, out: RouterPort) -> bool:
        return bool(out.scopes.get(4)) and inward.scopes.get(4) == out.scopes.get(4)

    def same_scope(self, inward: RouterPort, out: RouterPort, version: int) -> bool:
        return self.scope(inward, version) == self.scope(out, version)

    def scope(self, port: RouterPort, version: int) -> object:
        return port.scopes.get(version)


Key = RouterKey | FloatingIpKey
Sink = Callable[[object], None]
