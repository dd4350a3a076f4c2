"""The cables between ``br-int`` and other bridges: pairs of patch ports, or of veths.  Pure.

Nothing passes a cable before the flows of both its bridges are in place, so that no loop can form
at any moment: until then patch ports do not know each other, and veths are down.

A cable is known as ours by the names of its ends.  Ports of those names on the right bridges, and
veths of those names that are each other's ends, are put right, or made anew of the right kind; all
else of those names is somebody's, who is told.  Devices go before their ports: whatever a crash
leaves behind is found by the ports again.
"""

from __future__ import annotations

from collections.abc import Mapping

from netfw.linux.ip.operations import AddVeth, DelLink, SetMtu, SetSysctl, SetUp
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import Link
from netfw.ovs.ovsdb.operations import AddPort, RemovePort, SetColumns, Table
from netfw.ovs.ovsdb.values import Port
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, link, row
from netfw_drivers.ovs.switch.plan.settings import BridgeLink, LinkEnd

PATCH = "patch"
VETH = "veth"
DEVICE_TYPES = frozenset({"", "system"})
NOT_JOINED = "not-joined-yet"
Links = Mapping[str, Link]


def plan_bridge_link(draft: OvsdbChanges, cable: BridgeLink, links: Links) -> None:
    """Make both ends; where somebody else has the name of one, nothing is joined."""
    for end, other in cable.ends:
        port = draft.snapshot.ports.get(end.name)
        why = _foreign_port(cable, end, port) or _foreign_link(cable, end, other, port, links)
        if why:
            draft.foreign.update((cable.near.name, cable.far.name))
            draft.blocked[cable.far.bridge] = why
            return
    if cable.veth_mtu is None:
        _plan_patch(draft, cable, links)
    else:
        _plan_veth(draft, cable, cable.veth_mtu, links)


def is_device(port: Port) -> bool:
    """Whether the switch looks for a device of the system, and makes none."""
    return port.interface.type in DEVICE_TYPES


def _foreign_port(cable: BridgeLink, end: LinkEnd, port: Port | None) -> str:
    if port is None:
        return ""
    fits = port.interface.type == PATCH or (cable.is_physical and is_device(port))
    if fits and port.bridge == end.bridge:
        return ""
    return (
        f"{end.name} on {port.bridge} is no end of a cable of {end.bridge}: remove it "
        f"(ovs-vsctl del-port {port.bridge} {end.name}), or give it another name"
    )


def _foreign_link(
    cable: BridgeLink, end: LinkEnd, other: LinkEnd, port: Port | None, links: Links
) -> str:
    """Patch ports have no devices, and care for none; those of a cable of veths have to go."""
    matters = cable.is_veth or (port is not None and is_device(port))
    if not matters or end.name not in links or _is_pair(cable, links):
        return ""
    return (
        f"device {end.name} is not one end of a veth pair with {other.name}: remove it "
        f"(ip link delete {end.name}), or give it another name"
    )


def _is_pair(cable: BridgeLink, links: Links) -> bool:
    near, far = links.get(cable.near.name), links.get(cable.far.name)
    return (
        near is not None
        and far is not None
        and near.kind == far.kind == VETH
        and (near.peer, far.peer) == (far.index, near.index)
    )


def _plan_patch(draft: OvsdbChanges, cable: BridgeLink, links: Links) -> None:
    if _is_pair(cable, links):
        draft.links.append(link(DelLink(cable.near.name)))
    for end, other in cable.ends:
        port = draft.snapshot.ports.get(end.name)
        kept = port if port is not None and not is_device(port) else None
        if kept is None:
            _plug(draft, end, PATCH)
        if kept is None or kept.interface.options.get("peer") != other.name:
            join = SetColumns(
                table=Table.INTERFACE, record=end.name, keys={"options": {"peer": other.name}}
            )
            draft.admit.append(row(join))


def _plan_veth(draft: OvsdbChanges, cable: BridgeLink, mtu: int, links: Links) -> None:
    whole = _is_pair(cable, links)
    if not whole:
        draft.links.append(link(AddVeth(name=cable.near.name, peer=cable.far.name)))
    stale = [end for end, _ in cable.ends if not (whole and _is_plugged(draft, end))]
    for end, _ in cable.ends:
        found = links.get(end.name)
        if stale and found is not None and found.up:
            draft.links.append(link(SetUp(end.name, up=False)))
        if found is None or found.mtu != mtu:
            draft.links.append(link(SetMtu(end.name, mtu)))
        if stale or found is None or not found.up:
            _raise(draft, end)
    for end in stale:
        _plug(draft, end, "")


def _is_plugged(draft: OvsdbChanges, end: LinkEnd) -> bool:
    port = draft.snapshot.ports.get(end.name)
    return port is not None and is_device(port) and ofport_of(port) is not None


def _raise(draft: OvsdbChanges, end: LinkEnd) -> None:
    """The host itself has no business on it: it must not take what passes for its own."""
    draft.raising += [
        link(SetSysctl(device_parameter("ipv6", end.name, "disable_ipv6"), "1")),
        link(SetUp(end.name)),
    ]


def _plug(draft: OvsdbChanges, end: LinkEnd, kind: str) -> None:
    """Make the port of an end; a port removed and added in one step would keep what it is."""
    if end.name in draft.snapshot.ports:
        draft.unplugging.append(row(RemovePort(name=end.name)))
    port = AddPort(
        bridge=end.bridge,
        name=end.name,
        type=kind,
        ofport_request=draft.request_cable(end.bridge, end.name),
        options={"peer": NOT_JOINED} if kind == PATCH else {},
    )
    draft.prepare.append(row(port))
