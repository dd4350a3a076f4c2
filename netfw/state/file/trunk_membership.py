"""The ports of the trunks of a file.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from netfw.model.port import Port
from netfw.model.trunk import SubPort, Trunk, TrunkMembership
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import PortId
from netfw.state.file.name_resolution import Found


def join_trunk(trunk: Trunk, ports: Mapping[PortId, Port]) -> tuple[list[Port], list[Found]]:
    """Return the ports of *trunk*, which say then that they are in it, and the problems found.

    Sub-ports are on the hosts of their parent.
    """
    parent = ports.get(trunk.port_id)
    if parent is None:
        return [], []  # reported as a reference to nothing
    problems = list(_problems(trunk, parent, ports))
    if problems:
        return [], problems
    joined = [
        _join(trunk, parent, port, sub)
        for sub in trunk.sub_ports
        if (port := ports.get(sub.port_id)) is not None
    ]
    return [evolve(parent, trunk=TrunkMembership(trunk_id=trunk.id)), *joined], []


def _join(trunk: Trunk, parent: Port, port: Port, sub: SubPort) -> Port:
    membership = TrunkMembership(
        trunk_id=trunk.id, parent_id=parent.id, segmentation_id=sub.segmentation_id
    )
    placed = evolve(port.binding, host=parent.binding.host, vif_type=parent.binding.vif_type)
    owner = port.device_owner or DeviceOwner.TRUNK_SUB_PORT.value
    return evolve(port, trunk=membership, binding=placed, device_owner=owner)


def _problems(trunk: Trunk, parent: Port, ports: Mapping[PortId, Port]) -> Iterator[Found]:
    if parent.trunk is not None:
        yield "port_id", "is in another trunk already"
    for at, sub in enumerate(trunk.sub_ports):
        port = ports.get(sub.port_id)
        if port is not None and port.trunk is not None:
            yield f"sub_ports[{at}].port_id", "is in another trunk already"
        elif port is not None and port.binding.host not in ("", parent.binding.host):
            yield f"sub_ports[{at}].port_id", "is on another host than the parent port"
