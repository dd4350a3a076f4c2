"""Sub-ports of trunks, as pairs of patch ports whose ends are both on ``br-int``.  Pure.

A sub-port gets a port number of its own by the end that bears its ``iface-id``: tables, registers,
firewall and extensions handle it like every other port.  The other end leads to the device of the
parent: what the instance sends under the tag goes into it without the tag, and what comes out of it
goes to the instance under the tag.  A pair costs nothing in the datapath.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Subport, Wiring
from netfw.errors import Conflict, NetfwError
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.operations import AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import IFACE_ID, OvsdbPort, Snapshot
from netfw_drivers.ovs.switch.plan.observed import ATTACHED_MAC, port_id_of
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, row

SUB_PORT_MARK: Final = "netfw-subport"
"""Key of a port's ``external_ids``: the parent of the sub-port, and the tag."""
TRUNK_END_MARK: Final = "netfw-trunk-end"
"""Key of the ``external_ids`` of the other end: the sub-port."""
_LENGTH = 11
"""Characters of an id in the name of a device."""


def sub_port_name(port: PortId) -> str:
    """Return the name of the end that is the sub-port."""
    return f"sub{str(port)[:_LENGTH]}"


def trunk_end_name(port: PortId) -> str:
    """Return the name of the end that leads to the parent."""
    return f"tru{str(port)[:_LENGTH]}"


def subport_of(port: OvsdbPort) -> Subport | None:
    """Return the parent and the tag of a sub-port that this driver made."""
    parent, _, vlan = port.external_ids.get(SUB_PORT_MARK, "").partition("/")
    try:
        return Subport(PortId(UUID(parent)), int(vlan))
    except ValueError:
        return None


def sub_port_of_end(port: OvsdbPort) -> PortId | None:
    """Return the sub-port of an end that leads to a parent."""
    try:
        return PortId(UUID(port.external_ids.get(TRUNK_END_MARK, "")))
    except ValueError:
        return None


def pair_conflict(snapshot: Snapshot, key: PortKey, bridge: str) -> NetfwError | None:
    """Return why a port that is no end of the pair of a sub-port is in its way."""
    for name in _names(key):
        port = snapshot.ports.get(name)
        if port is not None and not (_is_end(port, key) and port.bridge == bridge):
            text = f"{name} on {port.bridge} is no end of sub-port {key.port}: remove or rename it"
            return Conflict(text)
    return None


def plan_pair(draft: OvsdbChanges, key: PortKey, wiring: Wiring, bridge: str) -> bool:
    """Plan the pair of a sub-port; return whether it is there already."""
    assert wiring.subport is not None
    inner, outer = sub_port_name(key.port), trunk_end_name(key.port)
    record = {SUB_PORT_MARK: f"{wiring.subport.parent}/{wiring.subport.vlan}"}
    ports = draft.snapshot.ports
    if inner not in ports:
        add = AddPort(
            bridge=bridge,
            name=inner,
            type="patch",
            options={"peer": outer},
            external_ids={IFACE_ID: str(key.port), ATTACHED_MAC: str(wiring.mac)},
            port_external_ids=record,
        )
        draft.prepare.append(row(add, [key]))
    elif subport_of(ports[inner]) != wiring.subport:
        before = ports[inner].external_ids.get(SUB_PORT_MARK)
        change = SetColumns(
            table=OvsdbTable.PORT,
            record=inner,
            keys={"external_ids": dict(record)},
            expect={SUB_PORT_MARK: before},
        )
        draft.prepare.append(row(change, [key]))
    if outer not in ports:
        end = AddPort(
            bridge=bridge,
            name=outer,
            type="patch",
            options={"peer": inner},
            port_external_ids={TRUNK_END_MARK: str(key.port)},
        )
        draft.prepare.append(row(end, [key]))
    return inner in ports and outer in ports


def drop_pair(draft: OvsdbChanges, key: PortKey) -> None:
    """Plan the removal of those ends of a sub-port that this driver made, after their flows."""
    for name in _names(key):
        port = draft.snapshot.ports.get(name)
        if port is not None and _is_end(port, key):
            marks = {SUB_PORT_MARK, TRUNK_END_MARK} & port.external_ids.keys()
            expect = {mark: port.external_ids[mark] for mark in marks}
            draft.removals.append(row(RemovePort(name=name, expect=expect), [key]))


def _names(key: PortKey) -> tuple[str, str]:
    return sub_port_name(key.port), trunk_end_name(key.port)


def _is_end(port: OvsdbPort, key: PortKey) -> bool:
    """Return whether *port* is an end of the pair of *key*."""
    is_inner = SUB_PORT_MARK in port.external_ids and port_id_of(port) == key.port
    return is_inner or sub_port_of_end(port) == key.port
