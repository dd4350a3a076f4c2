"""What must be there before any port: bridges, and the cables between them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.ovs.ovsdb.operations import AddBridge, SetColumns, Table, Value
from netfw.ovs.ovsdb.values import Bridge
from netfw_drivers.ovs.switch.plan.bridge_links import Links, plan_bridge_link
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, row
from netfw_drivers.ovs.switch.plan.settings import Settings

PROTOCOLS = ("OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13", "OpenFlow14")
SECURE = "secure"


def plan_bridges(
    draft: OvsdbChanges, settings: Settings, records: Mapping[str, str], links: Links
) -> None:
    """Make the ground; *records* are what a new ``br-int`` is to say of itself."""
    for name in settings.made:
        bridge = draft.snapshot.bridges.get(name)
        if bridge is None:
            _add_bridge(draft, settings, name, records if name == settings.integration else {})
        else:
            _mend_bridge(draft, settings, bridge)
    for name in settings.mappings.values():
        bridge = draft.snapshot.bridges.get(name)
        if bridge is not None:
            _mend_bridge(draft, settings, bridge)
    for cable in settings.cables():
        if cable.far.bridge in draft.snapshot.bridges or cable.far.bridge in settings.made:
            plan_bridge_link(draft, cable, links)


def speaks_openflow14(bridge: Bridge | None, settings: Settings) -> bool:
    """Whether flows of *bridge* can be read and stay: it is there, and speaks our OpenFlow.

    One of another datapath type loses its flows when it gets the right one; it may not even work.
    """
    return (
        bridge is not None
        and (not bridge.protocols or PROTOCOLS[-1] in bridge.protocols)
        and _datapath_type(bridge) == settings.datapath_type
    )


def unreachable_hint(bridge: Bridge) -> str:
    """Why a bridge that is in the database may not answer, and what to do; else nothing."""
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


def _mend_bridge(draft: OvsdbChanges, settings: Settings, bridge: Bridge) -> None:
    values: dict[str, Value] = {}
    if bridge.fail_mode != SECURE:
        values["fail_mode"] = SECURE
    if not set(PROTOCOLS) <= set(bridge.protocols):
        values["protocols"] = tuple(sorted({*bridge.protocols, *PROTOCOLS}))
    if _datapath_type(bridge) != settings.datapath_type:
        values["datapath_type"] = settings.datapath_type
    if values:
        change = SetColumns(table=Table.BRIDGE, record=bridge.name, values=values)
        draft.prepare.append(row(change))
