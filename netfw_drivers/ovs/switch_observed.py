"""What the machine has, as far as the switch driver is concerned.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import frozen

from netfw.drivers.switch_values import Endpoint
from netfw.model.address import as_address
from netfw.model.ids import PortId
from netfw.model.segment import NetworkType
from netfw.ovs.operations import Value
from netfw.ovs.ovsdb_state import IFACE_ID, Port, Snapshot
from netfw_drivers.ovs.grants import Layout
from netfw_drivers.ovs.switch_book import Book
from netfw_drivers.ovs.vlans import DEAD_VLAN, NET_UUID, Vlans

TUNNEL_MARK = "netfw-tunnel"
"""Key of a port's ``external_ids``: the host that the tunnel leads to."""
EXTENSION_MARK = "netfw-extension-"
"""Keys of ``br-int``'s ``external_ids``: extensions with flows that belong to no port."""
PARKED: Mapping[str, Value] = {"tag": DEAD_VLAN, "vlan_mode": "trunk", "trunks": (DEAD_VLAN,)}
"""A port that can neither send nor receive, whatever flows there are: it takes no packet without
the tag of a VLAN that nobody sends on."""


@frozen(kw_only=True)
class Observed:
    """The database, what was granted, and what the driver was told before."""

    snapshot: Snapshot
    plugged: Mapping[PortId, tuple[Port, ...]]
    """Ports of ``br-int`` by the id that their interface claims."""
    strays: tuple[Port, ...]
    """Those of them that are open to all networks, and that nobody cared for."""
    vlans: Vlans
    layout: Layout
    book: Book


def port_id_of(port: Port) -> PortId | None:
    """The port that a device was plugged for; an id that is none is somebody's joke."""
    try:
        return PortId(UUID(port.interface.external_ids.get(IFACE_ID, "")))
    except ValueError:
        return None


def ofport_of(port: Port) -> int | None:
    """The switch's number for a port, once it has one."""
    number = port.interface.ofport
    return number if number is not None and number > 0 else None


def is_parked(port: Port) -> bool:
    return {"tag": port.tag, "vlan_mode": port.vlan_mode, "trunks": port.trunks} == PARKED


def is_live(port: Port, vlan: int) -> bool:
    return port.tag == vlan and port.vlan_mode is None and not port.trunks


def is_recorded(port: Port) -> bool:
    """Whether somebody wired it, or declared it dead."""
    return NET_UUID in port.other_config


def is_stray(port: Port) -> bool:
    """Whether it is open to all networks: plugged without a tag, and nobody cared yet."""
    return port.tag is None and not is_recorded(port) and not is_parked(port)


def endpoint_of(port: Port) -> Endpoint | None:
    """The far end of a tunnel that this driver made."""
    if TUNNEL_MARK not in port.external_ids:
        return None
    try:
        address = as_address(port.interface.options.get("remote_ip", ""))
        return Endpoint(NetworkType(port.interface.type), address)
    except ValueError:
        return None
