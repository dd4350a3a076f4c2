"""Index of the installed rules, whichever tables of the kernel have them.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from attrs import define, field

from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.bridge_firewall.values import IndexedPort, SetIndex, Zone
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import PortId, SecurityGroupId

C = TypeVar("C", bound=Hashable)


@define(kw_only=True)
class PolicyIndex(Generic[C]):
    """Ports, groups and what they refer to; only the driver updates it.

    *C* is what identifies a chain.
    """

    ports: dict[PortId, IndexedPort] = field(factory=dict)
    devices: dict[str, PortId] = field(factory=dict)
    """Ports by device."""
    on_bridge: SetIndex[str, PortId] = field(factory=SetIndex)
    users: SetIndex[SecurityGroupId, PortId] = field(factory=SetIndex)
    """Ports by group."""
    sources: dict[tuple[PortId, int], frozenset[IpNetwork]] = field(factory=dict)
    groups: dict[SecurityGroupId, bool] = field(factory=dict)
    """Groups with chains, and whether each was put."""
    refers: dict[SecurityGroupId, dict[C, frozenset[Remote]]] = field(factory=dict)
    """Remote groups by group and chain."""
    referrers: SetIndex[Remote, SecurityGroupId] = field(factory=SetIndex)
    zones: dict[str, Zone] = field(factory=dict)
    """Zones by bridge."""

    @property
    def further_zones(self) -> Collection[Zone]:
        """Zones that rules in force assign, and `zones` may lack."""
        return ()

    def port_with(self, device: str) -> PortId | None:
        """Return the port that is filtered on *device*."""
        return self.devices.get(device)

    def set_port(self, id: PortId, port: IndexedPort | None) -> None:
        """Index a port in place of the former one; ``None``: it has no rules."""
        former = self.ports.pop(id, None)
        if former is not None:
            if self.devices.get(former.location.device) == id:
                del self.devices[former.location.device]
            self.on_bridge.discard_value(former.location.bridge, id)
            for group in former.groups:
                self.users.discard_value(group, id)
        if port is not None:
            self.ports[id] = port
            self.devices[port.location.device] = id
            self.on_bridge[port.location.bridge].add(id)
            for group in port.groups:
                self.users[group].add(id)

    def set_references(
        self, id: SecurityGroupId, chain: C, remotes: frozenset[Remote] | None
    ) -> None:
        """Index the remote groups of a group's chain; ``None``: the chain was removed."""
        by_chain = self.refers.setdefault(id, {})
        before = frozenset[Remote]().union(*by_chain.values())
        if remotes is None:
            by_chain.pop(chain, None)
        else:
            by_chain[chain] = remotes
        after = frozenset[Remote]().union(*by_chain.values())
        for remote in before - after:
            self.referrers.discard_value(remote, id)
        for remote in after - before:
            self.referrers[remote].add(id)
        if not by_chain:
            del self.refers[id]
            self.groups.pop(id, None)
