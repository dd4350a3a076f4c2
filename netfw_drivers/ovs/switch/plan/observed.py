"""The observation of the switch driver, and how rows of the database are read.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Endpoint
from netfw.linux.ip.values import Link
from netfw.linux.tc.values import DeviceTraffic
from netfw.model.segment import NetworkType
from netfw.model.values.address import as_address
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.operations import Value
from netfw.ovs.ovsdb.values import IFACE_ID, OvsdbPort, Snapshot
from netfw_drivers.ovs.common.flow_operations import FlowPlanner
from netfw_drivers.ovs.common.local_vlans import DEAD_VLAN, NET_UUID, LocalVlans
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import FILTERED_PORT, GUARDED_PORT, SHARED_MAC
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import Guarantee
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState

TUNNEL_MARK = "netfw-tunnel"
ENDPOINT_MARK = "netfw-endpoint"
MESH_MARK = "netfw-mesh"
"""Keys of a tunnel's ``external_ids``: the host that it leads to, that host's address, and whether
every network floods into it."""
LISTENER_MARK = "netfw-listener"
"""Key of the ``external_ids`` of a tunnel that leads nowhere, and keeps the switch listening."""
ATTACHED_MAC = "attached-mac"
"""Key of an interface's ``external_ids``: the address of the instance behind it."""
EXTENSION_MARK = "netfw-extension-"
"""Keys of ``br-int``'s ``external_ids``: extensions with flows that belong to no port."""
PARKED: Mapping[str, Value] = {"tag": DEAD_VLAN, "vlan_mode": None, "trunks": ()}
"""Columns of a port that takes part in no network."""


@frozen(kw_only=True)
class Observed:
    """The database, the flows, what was granted, and the state that was applied before."""

    snapshot: Snapshot
    plugged: Mapping[PortId, tuple[OvsdbPort, ...]]
    """Ports of ``br-int`` by the id in their ``iface-id``."""
    admission: Callable[[int], int | None]
    """Returns the cookie of the flow by which the port of a number can send, if there is one."""
    vlans: LocalVlans
    layout: ExtensionLayout
    state: SwitchState
    members: DomainMembers
    recovered: bool = False
    """The state includes what an earlier run has left on the machine."""
    links: Mapping[str, Link] = field(factory=dict)
    """Devices of the host that have the names of link ends."""
    traffic: Mapping[str, DeviceTraffic] = field(factory=dict)
    """Queueing disciplines of the devices that lead to physical networks."""
    guarantees: Mapping[PortKey, Guarantee] = field(factory=dict)
    """Guarantees that were applied before."""
    flows: Mapping[str, FlowPlanner] = field(factory=dict)
    """Flows of the bridges that can be read; another bridge has none, or loses those it has."""
    flush: frozenset[str] = frozenset()
    """Bridges that a complete update rids of all flows of others, whatever their cookie."""

    def admitted(self, number: int) -> bool:
        """Return whether the port of this number can send."""
        return self.admission(number) is not None

    def filtered(self, number: int) -> bool:
        """Return whether the port of this number can send, through the firewall."""
        return bool((self.admission(number) or 0) & FILTERED_PORT)

    def guarded(self, number: int) -> bool:
        """Return whether the port of this number can send, from its own addresses only."""
        return bool((self.admission(number) or 0) & GUARDED_PORT)

    def shares_mac(self, number: int) -> bool:
        """Return whether the port of this number can send, and has a MAC of several hosts."""
        return bool((self.admission(number) or 0) & SHARED_MAC)


def port_id_of(port: OvsdbPort) -> PortId | None:
    """Return the port id in ``iface-id``, or ``None`` unless it is a canonical UUID.

    Only the canonical text counts: two texts must not mean one port.
    """
    text = port.interface.external_ids.get(IFACE_ID, "")
    try:
        port_id = UUID(text)
    except ValueError:
        return None
    return PortId(port_id) if str(port_id) == text else None


def has_tag(port: OvsdbPort, vlan: int) -> bool:
    """Return whether the row of *port* is that of an access port of *vlan*."""
    return port.tag == vlan and port.vlan_mode is None and not port.trunks


def is_recorded(port: OvsdbPort) -> bool:
    """Return whether *port* was wired, or declared dead."""
    return NET_UUID in port.other_config


def by_rank(ports: Iterable[OvsdbPort]) -> tuple[OvsdbPort, ...]:
    """Return the devices of one port, first the one that is wired, or can be."""
    return tuple(
        sorted(ports, key=lambda port: (ofport_of(port) is None, not is_recorded(port), port.name))
    )


def endpoint_of(port: OvsdbPort) -> Endpoint | None:
    """Return the far end of a tunnel that this driver made."""
    if TUNNEL_MARK not in port.external_ids:
        return None
    try:
        address = as_address(port.external_ids.get(ENDPOINT_MARK, ""))
        return Endpoint(NetworkType(port.interface.type), address)
    except ValueError:
        return None
