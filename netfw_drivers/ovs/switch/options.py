"""Options of the switch driver, and the settings they make.  Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from oslo_config import cfg

from netfw.drivers.values.switch_values import Bandwidth
from netfw.errors import ConfigError
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType
from netfw.model.values.address import IpAddress, as_address
from netfw.model.values.device_names import check_device_name
from netfw_drivers.ovs.common.options import CONNECTION_OPTIONS, INTEGRATION_BRIDGE
from netfw_drivers.ovs.switch.plan.settings import (
    MAX_MACS_PER_PORT,
    VETH_MTU,
    VXLAN_PORT,
    Settings,
)

_TUNNELS = sorted(str(kind) for kind in WELL_KNOWN_TYPES if kind.is_tunnel)

OPTIONS: tuple[cfg.Opt, ...] = (
    INTEGRATION_BRIDGE,
    cfg.StrOpt(
        "tunnel_bridge",
        default="br-tun",
        help="Bridge that holds the tunnels to other hosts; it is made when it does not exist.",
    ),
    cfg.DictOpt(
        "bridge_mappings",
        default={},
        help="Physical networks and the bridges that lead to them, as physnet1:br-ex.  "
        "The bridges must exist.",
    ),
    cfg.ListOpt(
        "tunnel_types",
        default=[],
        help=f"Types of tunnels that this host can do, out of {', '.join(_TUNNELS)}.",
    ),
    cfg.StrOpt("local_ip", help="Address of this host that tunnels begin at."),
    cfg.IntOpt(
        "overlay_ip_version",
        default=0,
        choices=[(0, "that of local_ip"), (4, "IPv4"), (6, "IPv6")],
        help="IP version that tunnels go over; 0: that of local_ip.",
    ),
    cfg.StrOpt(
        "datapath_type",
        default="system",
        choices=[("system", "in the kernel"), ("netdev", "in userspace")],
        help="Where bridges forward packets: in the kernel (system) or in userspace (netdev).",
    ),
    cfg.BoolOpt(
        "arp_responder",
        default=False,
        help="Answer ARP and neighbour solicitation for ports of other hosts on this host.  "
        "Needs L2 population.",
    ),
    cfg.BoolOpt(
        "drop_flows_on_start",
        default=False,
        help="Once after the start, remove every flow that is not wanted, whatever made it.",
    ),
    cfg.BoolOpt(
        "dont_fragment",
        default=True,
        help="Mark tunnelled packets as not to be fragmented on their way.",
    ),
    cfg.BoolOpt("tunnel_csum", default=False, help="Fill in the outer checksum of tunnels."),
    cfg.PortOpt("vxlan_udp_port", default=VXLAN_PORT, help="UDP port of VXLAN tunnels."),
    cfg.BoolOpt(
        "use_veth_interconnection",
        default=False,
        help="Join the integration bridge and the bridges of bridge_mappings by veth pairs "
        "instead of patch ports.  The ends are called int-BRIDGE and phy-BRIDGE, cut to nine "
        "characters and six digits of a hash where that is too long for a device.",
    ),
    cfg.IntOpt(
        "veth_mtu",
        default=VETH_MTU,
        min=68,
        max=65535,
        help="MTU of those veth pairs: at least that of any network that they carry.",
    ),
    cfg.IntOpt(
        "max_macs_per_port",
        default=MAX_MACS_PER_PORT,
        min=0,
        max=4096,
        help="MAC addresses besides its own that a port without port security may send from "
        "within five minutes; frames from others are dropped.  0: no limit.",
    ),
    cfg.ListOpt(
        "resource_provider_bandwidths",
        default=[],
        help="Bandwidth of the devices of bridges in bridge_mappings that QoS rules may guarantee "
        "to ports, as BRIDGE:EGRESS:INGRESS in kilobits a second.  A direction that is left out "
        "is not guaranteed.",
    ),
    cfg.StrOpt(
        "vhostuser_socket_dir",
        help="Where a hypervisor finds vhost-user sockets; reported to the server.",
    ),
    *CONNECTION_OPTIONS,
)


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Return the settings that *options* make.

    :raises ConfigError: they contradict each other; the text says what to change.
    """
    mappings: dict[str, str] = dict(options["bridge_mappings"])
    bridges = [options["integration_bridge"], options["tunnel_bridge"], *mappings.values()]
    for bridge in bridges:
        if bridges.count(bridge) > 1:
            raise ConfigError(
                f"bridge {bridge} is configured twice: integration_bridge, tunnel_bridge and each "
                "of bridge_mappings must be bridges of their own"
            )
    kinds = frozenset(map(_kind, options["tunnel_types"]))
    settings = Settings(
        integration=options["integration_bridge"],
        tunnel=options["tunnel_bridge"],
        mappings=mappings,
        tunnel_types=kinds,
        local_ip=_local_ip(options, needed=bool(kinds)),
        datapath_type=options["datapath_type"],
        responder=options["arp_responder"],
        dont_fragment=options["dont_fragment"],
        csum=options["tunnel_csum"],
        vxlan_port=options["vxlan_udp_port"],
        use_veth=options["use_veth_interconnection"],
        veth_mtu=options["veth_mtu"],
        max_macs_per_port=options["max_macs_per_port"],
        bandwidths=_bandwidths(options["resource_provider_bandwidths"], mappings.values()),
    )
    for name in settings.physical_ends if settings.use_veth else ():
        _check_end(name)
    return settings


def _bandwidths(texts: Iterable[str], bridges: Collection[str]) -> dict[str, Bandwidth]:
    found: dict[str, Bandwidth] = {}
    for text in texts:
        bridge, *rates = text.split(":")
        if bridge not in bridges or bridge in found:
            known = ", ".join(sorted(bridges)) or "none"
            raise ConfigError(
                f"resource_provider_bandwidths: {text!r}: name each bridge of bridge_mappings "
                f"({known}) once at most"
            )
        if len(rates) != 2 or not all(rate == "" or rate.isdecimal() for rate in rates):
            raise ConfigError(
                f"resource_provider_bandwidths: {text!r} is not BRIDGE:EGRESS:INGRESS with "
                "kilobits a second"
            )
        egress, ingress = (int(rate) or None if rate else None for rate in rates)
        found[bridge] = Bandwidth(egress=egress, ingress=ingress)
    return found


def _check_end(name: str) -> None:
    try:
        check_device_name(name)
    except ValueError as exc:
        raise ConfigError(
            f"bridge_mappings: {exc}: give the bridge another name, or set "
            "use_veth_interconnection = false"
        ) from exc


def _kind(text: str) -> NetworkType:
    if text not in _TUNNELS:
        raise ConfigError(f"tunnel_types: {text!r} is not one of {', '.join(_TUNNELS)}")
    return NetworkType(text)


def _local_ip(options: Mapping[str, Any], *, needed: bool) -> IpAddress | None:
    text, version = options["local_ip"], options["overlay_ip_version"]
    if not text:
        if needed:
            raise ConfigError("tunnel_types need local_ip: set it to an address of this host")
        return None
    try:
        address = as_address(text)
    except ValueError as exc:
        raise ConfigError(f"local_ip: {exc}") from exc
    if version and address.version != version:
        raise ConfigError(
            f"local_ip {address} is not IPv{version}: change it, or set overlay_ip_version to "
            f"{address.version}"
        )
    return address
