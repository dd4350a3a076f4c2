"""Bridges of the switch, and the links between ``br-int`` and the others.  Pure.

A link is a pair of patch ports, or of veths.  It carries nothing before the flows of both its
bridges are in place, so that no loop can form at any moment: until then the patch ports do not name
each other as peers, and the veths are down.

A link is known as the driver's by the names of its ends.  Ports of those names on the right
bridges, and veths of those names that are each other's ends, are repaired, or made anew of the
right kind; anything else of those names belongs to others, and is reported.  Devices are removed
before their ports: a crash leaves ports behind by which the rest is found again.
"""

from __future__ import annotations

from collections.abc import Mapping

from netfw.linux.ip.operations import AddVeth, DelLink, SetMtu, SetSysctl, SetUp
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import Link
from netfw.ovs.ovsdb.operations import AddBridge, AddPort, OvsdbTable, RemovePort, SetColumns, Value
from netfw.ovs.ovsdb.values import Bridge, OvsdbPort
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, link, row
from netfw_drivers.ovs.switch.plan.settings import BridgeLink, LinkEnd, Settings

PROTOCOLS = ("OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13", "OpenFlow14")
SECURE = "secure"
PATCH = "patch"
VETH = "veth"
DEVICE_TYPES = frozenset({"", "system"})
NOT_JOINED = "not-joined-yet"
Links = Mapping[str, Link]


def plan_bridges(
    draft: OvsdbChanges, settings: Settings, records: Mapping[str, str], links: Links
) -> None:
    """Plan bridges and links; a new ``br-int`` gets *records* as its ``external_ids``."""
    for name in settings.created_bridges:
        bridge = draft.snapshot.bridges.get(name)
        if bridge is None:
            _add_bridge(draft, settings, name, records if name == settings.integration else {})
        else:
            _repair_bridge(draft, settings, bridge)
    for name in settings.mappings.values():
        bridge = draft.snapshot.bridges.get(name)
        if bridge is not None:
            _repair_bridge(draft, settings, bridge)
    for bridge_link in settings.bridge_links():
        if (
            bridge_link.far.bridge in draft.snapshot.bridges
            or bridge_link.far.bridge in settings.created_bridges
        ):
            plan_bridge_link(draft, bridge_link, links)


def speaks_openflow14(bridge: Bridge | None, settings: Settings) -> bool:
    """Return whether flows of *bridge* can be read and stay: it exists and speaks OpenFlow 1.4.

    A bridge of another datapath type loses its flows when it gets the right one, and may not work.
    """
    return (
        bridge is not None
        and (not bridge.protocols or PROTOCOLS[-1] in bridge.protocols)
        and _datapath_type(bridge) == settings.datapath_type
    )


def unreachable_hint(bridge: Bridge) -> str:
    """Return why a bridge of the database may not answer, and what to do; else an empty text."""
    if _datapath_type(bridge) != "system":
        return ""
    return (
        f"; if ovs-vswitchd runs, it did not make {bridge.name} with datapath_type=system: load "
        "the kernel module of Open vSwitch, or set datapath_type = netdev where there is none"
    )


def _datapath_type(bridge: Bridge) -> str:
    return bridge.datapath_type or "system"


def _add_bridge(
    draft: OvsdbChanges, settings: Settings, name: str, records: Mapping[str, str]
) -> None:
    bridge = AddBridge(
        name=name,
        datapath_type=settings.datapath_type,
        fail_mode=SECURE,
        protocols=PROTOCOLS,
        external_ids=records,
    )
    draft.prepare.append(row(bridge))


def _repair_bridge(draft: OvsdbChanges, settings: Settings, bridge: Bridge) -> None:
    values: dict[str, Value] = {}
    if bridge.fail_mode != SECURE:
        values["fail_mode"] = SECURE
    if not set(PROTOCOLS) <= set(bridge.protocols):
        values["protocols"] = tuple(sorted({*bridge.protocols, *PROTOCOLS}))
    if _datapath_type(bridge) != settings.datapath_type:
        values["datapath_type"] = settings.datapath_type
    if values:
        change = SetColumns(table=OvsdbTable.BRIDGE, record=bridge.name, values=values)
        draft.prepare.append(row(change))


def plan_bridge_link(draft: OvsdbChanges, bridge_link: BridgeLink, links: Links) -> None:
    """Plan both ends; where another port or device has the name of one, nothing is joined."""
    for end, other in bridge_link.ends:
        port = draft.snapshot.ports.get(end.name)
        why = _foreign_port(bridge_link, end, port) or _foreign_link(
            bridge_link, end, other, port, links
        )
        if why:
            draft.foreign.update((bridge_link.near.name, bridge_link.far.name))
            draft.blocked[bridge_link.far.bridge] = why
            return
    if bridge_link.veth_mtu is None:
        _plan_patch(draft, bridge_link, links)
    else:
        _plan_veth(draft, bridge_link, bridge_link.veth_mtu, links)


def is_device(port: OvsdbPort) -> bool:
    """Return whether the port uses a device of the system, and the switch makes none."""
    return port.interface.type in DEVICE_TYPES


def _foreign_port(bridge_link: BridgeLink, end: LinkEnd, port: OvsdbPort | None) -> str:
    if port is None:
        return ""
    fits = port.interface.type == PATCH or (bridge_link.is_physical and is_device(port))
    if fits and port.bridge == end.bridge:
        return ""
    return (
        f"{end.name} on {port.bridge} is not an end of the link of {end.bridge}: remove it "
        f"(ovs-vsctl del-port {port.bridge} {end.name}), or give it another name"
    )


def _foreign_link(
    bridge_link: BridgeLink, end: LinkEnd, other: LinkEnd, port: OvsdbPort | None, links: Links
) -> str:
    """Return why a device is in the way; patch ports need none, unless the port uses it."""
    matters = bridge_link.is_veth or (port is not None and is_device(port))
    if not matters or end.name not in links or _is_pair(bridge_link, links):
        return ""
    return (
        f"device {end.name} is not one end of a veth pair with {other.name}: remove it "
        f"(ip link delete {end.name}), or give it another name"
    )


def _is_pair(bridge_link: BridgeLink, links: Links) -> bool:
    near, far = links.get(bridge_link.near.name), links.get(bridge_link.far.name)
    return (
        near is not None
        and far is not None
        and near.kind == far.kind == VETH
        and (near.peer, far.peer) == (far.index, near.index)
    )


def _plan_patch(draft: OvsdbChanges, bridge_link: BridgeLink, links: Links) -> None:
    if _is_pair(bridge_link, links):
        draft.links.append(link(DelLink(bridge_link.near.name)))
    for end, other in bridge_link.ends:
        port = draft.snapshot.ports.get(end.name)
        kept = port if port is not None and not is_device(port) else None
        if kept is None:
            _plug(draft, end, PATCH)
        if kept is None or kept.interface.options.get("peer") != other.name:
            join = SetColumns(
                table=OvsdbTable.INTERFACE, record=end.name, keys={"options": {"peer": other.name}}
            )
            draft.admit.append(row(join))


def _plan_veth(draft: OvsdbChanges, bridge_link: BridgeLink, mtu: int, links: Links) -> None:
    whole = _is_pair(bridge_link, links)
    if not whole:
        draft.links.append(link(AddVeth(name=bridge_link.near.name, peer=bridge_link.far.name)))
    stale = [end for end, _ in bridge_link.ends if not (whole and _is_plugged(draft, end))]
    for end, _ in bridge_link.ends:
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
    """Set up a veth end without IPv6: the host must not accept the packets that pass."""
    draft.raising += [
        link(SetSysctl(device_parameter("ipv6", end.name, "disable_ipv6"), "1")),
        link(SetUp(end.name)),
    ]


def _plug(draft: OvsdbChanges, end: LinkEnd, kind: str) -> None:
    """Plan the port of an end; one that is removed and added in one step would keep its type."""
    if end.name in draft.snapshot.ports:
        draft.unplugging.append(row(RemovePort(name=end.name)))
    port = AddPort(
        bridge=end.bridge,
        name=end.name,
        type=kind,
        ofport_request=draft.request_link_end(end.bridge, end.name),
        options={"peer": NOT_JOINED} if kind == PATCH else {},
    )
    draft.prepare.append(row(port))
