"""PortReferences: the ports of this host by the resources that they refer to.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Set

from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.ids import PortId, SecurityGroupId


class PortReferences:
    """The ports that refer to each resource, such as a security group or a QoS policy."""

    def __init__(self) -> None:
        self._ports: dict[Ref, set[PortId]] = {}
        self._refs: dict[PortId, frozenset[Ref]] = {}

    def update(self, id: PortId, refs: frozenset[Ref]) -> None:
        """Set the resources that a port refers to; none: it is gone."""
        former = self._refs.pop(id, frozenset())
        for key in former - refs:
            self._ports[key].discard(id)
            if not self._ports[key]:
                del self._ports[key]
        for key in refs - former:
            self._ports.setdefault(key, set()).add(id)
        if refs:
            self._refs[id] = refs

    def ports_of(self, key: Ref) -> Set[PortId]:
        """Return the ports that refer to a resource."""
        return self._ports.get(key, frozenset())

    def ports_of_group(self, id: SecurityGroupId) -> Set[PortId]:
        """Return the ports in a security group."""
        return self.ports_of(Ref(Kind.SECURITY_GROUP, id))

    def logged_ports(
        self, log: PacketLog, here: Set[PortId], find_port: Callable[[PortId], Port | None]
    ) -> Set[PortId]:
        """Return those of the ports *here* that *log* may be for, enabled or not."""
        if log.target_id is not None:
            return here & {log.target_id}
        if log.resource_id is not None:
            return self.ports_of_group(log.resource_id)
        ports = ((id, find_port(id)) for id in here)
        return {id for id, port in ports if port and port.project_id == log.project_id}
