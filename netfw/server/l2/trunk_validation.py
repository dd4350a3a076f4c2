"""Validation of trunks: which ports can be a parent or a sub-port, tags, and MTU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, cast
from uuid import UUID

from netfw.drivers.server.query import Query
from netfw.errors import Forbidden, InvalidInput
from netfw.errors.ports import PortNotFound
from netfw.errors.trunk import (
    DuplicateSubPort,
    ParentPortInUse,
    PortInUse,
    SubPortMtuGreaterThanTrunkPortMtu,
    TrunkDisabled,
    TrunkPortInUse,
)
from netfw.model.binding import VifType
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.segment import VLAN_IDS, NetworkType
from netfw.model.trunk import SegmentationType, SubPort, Trunk
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import PortId
from netfw.server.core.unit_of_work import UnitOfWork

INHERIT: Final = "inherit"
"""Segmentation type of a sub-port whose tag is the VLAN of its network."""
_WIRED_BY_AGENTS: Final = frozenset(
    {VifType.OVS.value, VifType.UNBOUND.value, VifType.BINDING_FAILED.value}
)

Requested = Sequence[Mapping[str, Any]]


def validate_requested(requested: Requested, *, with_tags: bool = True) -> None:
    """Validate the sub-ports of a request by themselves; *with_tags*: they are to be added.

    :raises InvalidInput: a tag is missing or invalid, or a port or a tag is there twice.
    """
    problems: dict[str, str] = {}
    ports: set[object] = set()
    tags: set[object] = set()
    for at, body in enumerate(requested):
        if body["port_id"] in ports:
            problems[f"sub_ports[{at}].port_id"] = "is there twice"
        ports.add(body["port_id"])
        if with_tags and (problem := _tag_problem(body, tags)) is not None:
            problems[f"sub_ports[{at}].{problem[0]}"] = problem[1]
        tags.add(body.get("segmentation_id"))
    if problems:
        raise InvalidInput(problems)


def _tag_problem(body: Mapping[str, Any], others: Set[object]) -> tuple[str, str] | None:
    kind, tag = body.get("segmentation_type"), body.get("segmentation_id")
    if kind == INHERIT:
        return None
    if kind is None:
        return "segmentation_type", "is required: vlan or inherit"
    if kind != SegmentationType.VLAN.value:
        return "segmentation_type", f"{str(kind)[:40]!r} is not supported; use vlan or inherit"
    if tag is None:
        return "segmentation_id", "is required"
    if tag not in VLAN_IDS:
        return "segmentation_id", f"{tag} is not in {VLAN_IDS[0]}..{VLAN_IDS[-1]}"
    return ("segmentation_id", f"{tag} is there twice") if tag in others else None


def lock_ports(unit: UnitOfWork, ids: Iterable[str]) -> dict[PortId, Port]:
    """Return the ports of *ids*, locked in the order of their ids.

    :raises NotFound: one does not exist, or is invisible to the requester.
    :raises Forbidden: one belongs to another project.
    """
    wanted = [PortId(UUID(id)) for id in ids]
    rows = unit.tx.statuses.get_for_update(Kind.PORT, wanted)
    visible = set(rows)
    if unit.requester.sees is not None and rows:
        query = Query(filters={"id": tuple(map(str, rows))})
        seen = unit.tx.resources.find(Kind.PORT, query, project=unit.requester.sees)
        visible = {row.ref.id for row in seen}
    for id in wanted:
        if id not in visible:
            raise PortNotFound(f"there is no port {id}")
    ports = {PortId(id): cast(Port, row.resource()) for id, row in rows.items()}
    for port in ports.values():
        if not unit.requester.admin and port.project_id != unit.requester.project_id:
            raise Forbidden(f"port {port.id} belongs to another project")
    return ports


def check_parent(port: Port) -> None:
    """Validate that a port can become the parent of a trunk; it may be bound and running.

    :raises TrunkPortInUse: it is a sub-port.
    :raises ParentPortInUse: it has a trunk, or is a port of the network itself.
    """
    _check_no_sub_port(port)
    if port.trunk is not None:
        raise ParentPortInUse(f"port {port.id} is the parent of trunk {port.trunk.trunk_id}")
    if is_trusted(port.device_owner):
        raise ParentPortInUse(f"port {port.id} is of {port.device_owner}, not of an instance")
    if port.binding.vif_type not in _WIRED_BY_AGENTS:
        raise ParentPortInUse(
            f"port {port.id} is plugged as {port.binding.vif_type}: no L2 agent can add sub-ports"
        )


def check_manageable(trunk: Trunk) -> None:
    """Validate that a trunk is switched on.

    :raises TrunkDisabled: it is not.
    """
    if not trunk.admin_up:
        raise TrunkDisabled(
            f"trunk {trunk.id} is switched off: set admin_state_up to true to change it"
        )


def make_sub_ports(
    unit: UnitOfWork,
    parent: Port,
    present: Sequence[SubPort],
    requested: Requested,
    ports: Mapping[PortId, Port],
) -> tuple[SubPort, ...]:
    """Return the requested sub-ports; *ports* are locked.

    :raises RequestError: a port cannot be a sub-port, or a tag is taken.
    """
    unit.read_networks(port.network_id for port in (parent, *ports.values()))
    new = tuple(
        _make_sub_port(unit, ports[PortId(UUID(str(body["port_id"])))], body, at)
        for at, body in enumerate(requested)
    )
    for sub in new:
        _check_sub_port(unit, parent, ports[sub.port_id])
    taken = {sub.segmentation_id: sub.port_id for sub in present}
    for sub in new:
        other = taken.setdefault(sub.segmentation_id, sub.port_id)
        if other != sub.port_id:
            raise DuplicateSubPort(f"tag {sub.segmentation_id} is that of sub-port {other}")
    return new


def _make_sub_port(unit: UnitOfWork, port: Port, body: Mapping[str, Any], at: int) -> SubPort:
    tag = body.get("segmentation_id")
    if body["segmentation_type"] == INHERIT:
        tag = _network_vlan(unit, port, f"sub_ports[{at}].segmentation_type")
    assert isinstance(tag, int)
    return SubPort(port_id=port.id, segmentation_id=tag)


def _network_vlan(unit: UnitOfWork, port: Port, where: str) -> int:
    """Return the VLAN of the network of *port*, from which a sub-port inherits its tag."""
    for provider in unit.network(port.network_id).segments[:1]:
        if provider.network_type is NetworkType.VLAN and provider.segmentation_id is not None:
            return provider.segmentation_id
    raise InvalidInput({where: f"network {port.network_id} has no VLAN to inherit"})


def _check_sub_port(unit: UnitOfWork, parent: Port, port: Port) -> None:
    """Validate that *port* can be a sub-port behind *parent*."""
    if port.id == parent.id:
        raise ParentPortInUse(f"port {port.id} is the parent of the trunk")
    if unit.network(port.network_id).mtu > unit.network(parent.network_id).mtu > 0:
        raise SubPortMtuGreaterThanTrunkPortMtu(
            f"network {port.network_id} of port {port.id} has MTU "
            f"{unit.network(port.network_id).mtu}, more than the "
            f"{unit.network(parent.network_id).mtu} of the parent port"
        )
    _check_no_sub_port(port)
    if port.trunk is not None:
        raise ParentPortInUse(f"port {port.id} is the parent of trunk {port.trunk.trunk_id}")
    if port.device_id:
        raise PortInUse(
            f"port {port.id} belongs to device {port.device_id}; a sub-port has no device"
        )


def _check_no_sub_port(port: Port) -> None:
    if port.trunk is not None and port.trunk.parent_id is not None:
        raise TrunkPortInUse(f"port {port.id} is a sub-port of trunk {port.trunk.trunk_id}")
