"""Networks that a highly available router needs for its election.  Pure.

Addresses and routes of users there would take the advertisements of VRRP from the HA network.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from attrs import evolve, frozen

from netfw.drivers.values.router_values import RouterPort, RouterState
from netfw.model.router import HA_MARKERS, find_ha_overlap, find_ha_override
from netfw.model.values.address import IpInterface, IpNetwork
from netfw.model.values.route import Route


@frozen
class ReservedNetworks:
    """The HA network of a router, and that of the markers."""

    ha_prefixes: tuple[IpNetwork, ...] | None = None
    """Prefixes of the HA network; None: it is a plain router, and nothing is reserved."""

    @classmethod
    def of(cls, state: RouterState) -> ReservedNetworks:
        """Return those of a router."""
        ha = None if state.full is None else state.full.ha
        if ha is None:
            return cls()
        return cls(tuple(each.network for each in ha.port.addresses))

    def restrict(self, state: RouterState) -> RouterState:
        """Return a router without the addresses and routes that are left out."""
        full = state.full
        if full is None or self.ha_prefixes is None:
            return state
        gateway = full.gateway
        if gateway is not None:
            subnets = (each for each in gateway.onlink_subnets if not self._is_overridden_by(each))
            port = self._without_addresses(gateway.port)
            gateway = evolve(gateway, port=port, onlink_subnets=tuple(subnets))
        interfaces = tuple(map(self._without_addresses, full.interfaces))
        routes = tuple(each for each in state.routes if not self._is_taken_by(each))
        full = evolve(full, interfaces=interfaces, gateway=gateway)
        return evolve(state, full=full, routes=routes)

    def left_out(self, state: RouterState) -> dict[str, str]:
        """Return the parts of a router that are left out, each with the reason."""
        return {} if self.ha_prefixes is None else dict.fromkeys(self._left_out(state), self._why())

    def _left_out(self, state: RouterState) -> Iterator[str]:
        assert state.full is not None, "only full routers are highly available"
        gateway = state.full.gateway
        ports = (*state.full.interfaces, *([gateway.port] if gateway else []))
        for port in ports:
            for each in filter(self._overlaps, port.addresses):
                yield f"address {each} of port {port.id}"
        for subnet in filter(self._is_overridden_by, gateway.onlink_subnets if gateway else ()):
            yield f"route to {subnet} of the external network"
        for route in filter(self._is_taken_by, state.routes):
            yield f"route to {route.destination} via {route.nexthop}"

    def _why(self) -> str:
        names = ", ".join(map(str, (HA_MARKERS, *(self.ha_prefixes or ()))))
        return f"a highly available router needs {names} for its election"

    def _without_addresses(self, port: RouterPort) -> RouterPort:
        kept = tuple(each for each in port.addresses if not self._overlaps(each))
        return port if kept == port.addresses else evolve(port, addresses=kept)

    def _overlaps(self, interface: IpInterface) -> bool:
        return find_ha_overlap(interface.network, self.ha_prefixes or ()) is not None

    def _is_overridden_by(self, destination: IpNetwork) -> bool:
        return find_ha_override(destination, self.ha_prefixes or ()) is not None

    def _is_taken_by(self, route: Route) -> bool:
        is_near = find_ha_overlap(ip_network(route.nexthop), self.ha_prefixes or ()) is not None
        return is_near or self._is_overridden_by(route.destination)
