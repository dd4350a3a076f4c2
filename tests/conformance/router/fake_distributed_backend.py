"""A host in memory with distributed routers: local parts, and agent gateways that they share."""

from __future__ import annotations

from attrs import define, evolve, field

from netfw.drivers.values.router_values import AgentGateway, RouterPort
from netfw.model.values.ids import NetworkId
from tests.conformance.router.fake_parts import LocalState
from tests.conformance.router.fake_router_backend import HOPS, FakeRouterBackend, Packet


@define(slots=False, eq=False, repr=False)
class FakeDistributedBackend(FakeRouterBackend):
    """What the kernel of the host has.  Packets pass from one router to the next."""

    agent_gateways: dict[NetworkId, AgentGateway] = field(factory=dict)

    def local_part(self, router):
        state = self.routers.get(router)
        return state.part if isinstance(state, LocalState) else None

    def agent_gateway(self, router) -> AgentGateway | None:
        local = self.local_part(router)
        return None if local is None else self.agent_gateways.get(local.external_network)

    def outside_port(self, router) -> RouterPort | None:
        """Return the port from which floating IPs of a router are announced."""
        gateway = self.agent_gateway(router)
        return self.gateway_port(router) if gateway is None else gateway.port

    def router_at(self, network, address):
        found = super().router_at(network, address)
        gateway = self.agent_gateways.get(network)
        if found is not None or gateway is None:
            return found
        for nat in self.nat.values():
            own = self.agent_gateway(nat.router)
            if own is gateway and nat.floating_address == address and self.is_active_nat(nat):
                return nat.router, gateway.port
        return None

    def is_active_nat(self, nat) -> bool:
        """Return whether a floating IP has a way in."""
        return not nat.prepared

    def forward(self, router, inward, packet):
        if self.local_part(router) is None:
            return super().forward(router, inward, packet)
        gateway = self.agent_gateway(router)
        if gateway is not None and inward is gateway.port:
            return self.enter(router, packet)
        out, _ = self.route(router, packet.target)
        if out is not None:
            return self.forward_inside(router, inward, packet)
        return self.forward_outside(router, inward, packet)

    def enter(self, router, packet):
        """Deliver a packet that comes by the agent gateway to the instance of its floating IP."""
        target, port, _ = self.destination(router, packet)
        out, hop = self.route(router, target)
        if out is None or self.is_dropped(router, self.local_part(router).gateway_port, out.id):
            return None
        seen = evolve(packet, target=target, port=port, hops=packet.hops + 2)
        return self.leave(out.network, hop, seen, router, (packet.source, packet.target, target))

    def forward_inside(self, router, inward, packet):
        """Route between the interfaces of a local part."""
        return super().forward(router, inward, packet)

    def forward_outside(self, router, inward, packet):
        """Route what is for none of the networks of a local part."""
        gateway = self.agent_gateway(router)
        nat = self.nat_of(router, packet.source)
        if gateway is not None and nat is not None:
            if self.is_dropped(router, inward.id, self.local_part(router).gateway_port):
                return None
            seen = evolve(packet, source=nat.floating_address, hops=packet.hops + 2)
            hop = self.agent_hop(gateway, packet.target)
            addresses = packet.source, seen.source, packet.target
            return self.leave(gateway.port.network, hop, seen, router, addresses)
        hop = self.snat_address(router, inward, packet.target.version)
        if hop is None:
            return None
        seen = evolve(packet, hops=packet.hops + 1)
        return self.leave(inward.network, hop, seen, router, (packet.source, packet.target))

    def nat_of(self, router, fixed):
        found = (nat for nat in self.nat.values() if nat.router == router)
        return next((nat for nat in found if nat.fixed_address == fixed), None)

    def agent_hop(self, gateway: AgentGateway, target):
        if any(target in face.network for face in gateway.port.addresses):
            return target
        return next((hop for hop in gateway.next_hops if hop.version == target.version), None)

    def snat_address(self, router, inward: RouterPort, version: int):
        """Return the central part's address on the subnet of an interface."""
        addresses = self.local_part(router).snat_addresses
        subnets = (each for each in inward.subnets if each.cidr.version == version)
        return next((addresses[each.id] for each in subnets if each.id in addresses), None)

    def leave(self, network, hop, seen: Packet, router, addresses):
        found = super().leave(network, hop, seen, router, addresses)
        if found is not None or seen.hops > HOPS:
            return found
        for host in self.fabric.near(self):
            entry = host.router_at(network, hop)
            delivered = None if entry is None else host.forward(*entry, seen)
            if delivered is not None:
                receiver, last, _, more = delivered
                return receiver, last, router, (*addresses, *more)
        return None
