"""Hosts in memory with common networks, and the elections of highly available routers."""

from __future__ import annotations

from attrs import define, field

from netfw.drivers.values.router_values import RoleChanged
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from tests.conformance.router.fake_prefixes import renew


@define(slots=False, eq=False)
class FakeFabric:
    """Delivers frames between hosts; each router has an election among hosts that hear another.

    The elections go on without drivers, as processes on the hosts would.
    """

    hosts: list = field(factory=list)
    cut_off: list = field(factory=list)
    """Hosts that hear no other one."""
    providers: list = field(factory=list)
    """Providers of prefixes."""

    def near(self, host) -> list:
        """Return the hosts that exchange frames with *host*, and itself as the first."""
        if host in self.cut_off:
            return [host]
        others = (each for each in self.hosts if each not in self.cut_off)
        return [host, *(each for each in others if each is not host)]

    def elect(self) -> None:
        """Hold the elections of all routers."""
        for host in self.hosts:
            for router in tuple(host.roles):
                if host.ha(router) is None:
                    del host.roles[router]
            for router in host.routers:
                if host.ha(router) is not None:
                    self.set_role(host, router, self.elected_role(host, router))
        self.renew()

    def renew(self) -> None:
        """Have all clients renew their delegated prefixes."""
        for host in tuple(self.hosts):
            renew(host, self.providers)

    def elected_role(self, host, router: RouterId) -> HaRole:
        group = [each for each in self.near(host) if each.joins_election(router)]
        if host not in group:
            return HaRole.FAULT
        group.sort(key=lambda each: (-each.ha(router).priority, self.hosts.index(each)))
        active = [each for each in group if each.roles.get(router) is HaRole.ACTIVE]
        preempts = any(each.preempts for each in group)
        winner = group[0] if preempts or not active else active[0]
        return HaRole.ACTIVE if host is winner else HaRole.STANDBY

    def set_role(self, host, router: RouterId, role: HaRole) -> None:
        if host.roles.get(router) is role:
            return
        host.roles[router] = role
        gateway = host.gateway_port(router)
        if role is HaRole.ACTIVE and gateway is not None:
            for address in host.outside_addresses(router):
                host.announce(gateway, address)
        for sink in tuple(host.sinks):
            sink(RoleChanged("election", router, role))
