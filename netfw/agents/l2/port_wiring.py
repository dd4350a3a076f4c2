"""Decides how a port is wired.  Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from attrs import evolve, frozen

from netfw.agents.l2.host_context import L2HostContext
from netfw.drivers.support.port_filtering import host_prefix, is_unfiltered
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Admission, Subport, Wiring
from netfw.model.binding import VifType
from netfw.model.local_ip import LocalIpMode
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.values.address import link_local
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import NetworkId, PortId, SegmentId, SubnetId


@frozen
class WiringDecision:
    """The desired wiring of a port, with the reason if it is dead."""

    wiring: Wiring
    reason: str = ""
    """Why it is dead."""
    is_error: bool = False
    """It is dead because of an error, not on request."""


def decide_wiring(
    port: Port,
    network: Network | None,
    segments: Iterable[Segment],
    subnets: Mapping[SubnetId, Subnet],
    view: L2HostContext,
    *,
    excluded: str = "",
    problem: str = "",
) -> WiringDecision:
    """Decide the wiring of *port*, which is plugged on this host.

    *segments* are those of its network that this host reaches, or all if it reaches none.
    *excluded* is a reason of this host why the port is dead, and *problem* one that is an error.
    """
    every = tuple(segments)
    reachable = tuple(filter(view.reaches, every))
    reason = excluded or _dead_reason(port, network)
    problem = problem or _sub_port_problem(port, view)
    is_error = not reason and bool(problem or not reachable)
    if is_error:
        reason = problem or _unreachable_reason(port, every, view)
    wiring = Wiring(
        network=port.network_id,
        mac=port.mac,
        addresses=frozenset(fixed.address for fixed in port.fixed_ips),
        admission=Admission.DEAD if reason else Admission.LIVE,
        segment=_segment(port, reachable, subnets),
        guard=sources(port) if view.guard and not is_unfiltered(port) else None,
        filtered=view.filtered and not is_unfiltered(port),
        open=has_other_macs(port),
        shared_mac=len(port.binding.all_hosts) > 1,
    )
    return WiringDecision(wiring, reason, is_error)


def make_subport(port: Port) -> Subport | None:
    """Return the parent and the tag of a sub-port; ``None``: the port is none."""
    trunk = port.trunk
    if trunk is None or trunk.parent_id is None or trunk.segmentation_id is None:
        return None
    return Subport(trunk.parent_id, trunk.segmentation_id)


def _sub_port_problem(port: Port, view: L2HostContext) -> str:
    """Return why this host cannot wire a sub-port; empty: it can, or the port is none."""
    if make_subport(port) is None:
        return ""
    if not view.sub_ports:
        return "it is a sub-port of a trunk, and the switch driver of this host has none"
    if view.filters_devices:
        return (
            "it is a sub-port of a trunk, and the firewall driver of this host filters at devices, "
            "where sub-ports cannot be told from their parent: set firewall_driver = openflow"
        )
    return ""


def filtered_outside(decision: WiringDecision) -> WiringDecision:
    """Return the decision for a port that is filtered outside the switch."""
    return evolve(decision, wiring=evolve(decision.wiring, filtered=False))


def is_plugged(port: Port, devices: Container[PortId]) -> bool:
    """Return whether a port has a device; that of a sub-port is made once its parent has one."""
    subport = make_subport(port)
    return port.id in devices or (subport is not None and subport.parent in devices)


def as_sub_port(
    decision: WiringDecision, subport: Subport, is_expected: bool, is_prepared: bool
) -> WiringDecision:
    """Return the decision for a sub-port.

    It is on hold while the switch has not made its device yet (*is_expected*), also where the host
    only prepares for it: so it is made ahead.
    """
    wiring = evolve(decision.wiring, subport=subport)
    is_wanted = wiring.admission is Admission.LIVE or (is_prepared and not decision.is_error)
    if is_expected and is_wanted:
        wiring = evolve(wiring, admission=Admission.HOLD)
    return evolve(decision, wiring=wiring)


def needed_network(decision: WiringDecision | None) -> NetworkId | None:
    """Return the network that a port needs on this host; ``None`` while it is dead."""
    if decision is None or decision.wiring.admission is Admission.DEAD:
        return None
    return decision.wiring.network


def _unreachable_reason(port: Port, segments: Iterable[Segment], view: L2HostContext) -> str:
    ways = " or ".join(map(view.unreachable_reason, segments)) or "it has none"
    return f"no segment of network {port.network_id} reaches this host: {ways}"


def _dead_reason(port: Port, network: Network | None) -> str:
    """Return why the port is dead; empty: it is live."""
    if network is None:
        return f"its network {port.network_id} is not known"
    if not port.admin_up:
        return "it is administratively down"
    if not network.admin_up:
        return "its network is administratively down"
    if port.binding.vif_type == VifType.BINDING_FAILED and not port.binding.hosts:
        return "its binding failed"
    return ""  # the binding of a port on several hosts is that of the active one alone


def _segment(
    port: Port, reachable: tuple[Segment, ...], subnets: Mapping[SubnetId, Subnet]
) -> SegmentId | None:
    """Return which of several segments the port is on: its subnet's, else the first."""
    if len(reachable) < 2:
        return None
    by_id = {segment.id for segment in reachable}
    for fixed in port.fixed_ips:
        subnet = subnets.get(fixed.subnet_id)
        if subnet is not None and subnet.segment_id in by_id:
            return subnet.segment_id
    return reachable[0].id


def has_other_macs(port: Port) -> bool:
    """Return whether the port may use other MAC addresses than its own."""
    if is_trusted(port.device_owner):
        return False
    pairs = port.allowed_address_pairs
    return not port.port_security or any(pair.mac not in (None, port.mac) for pair in pairs)


def sources(port: Port) -> frozenset[AllowedSource]:
    """Return the allowed sources: addresses, allowed pairs, link-local of each MAC, and the local
    IPs whose packets it receives unchanged."""
    own = {AllowedSource(port.mac, host_prefix(fixed.address)) for fixed in port.fixed_ips}
    pairs = {
        AllowedSource(pair.mac or port.mac, pair.prefix) for pair in port.allowed_address_pairs
    }
    passed = {
        AllowedSource(port.mac, host_prefix(each.address))
        for each in port.local_ips
        if each.mode is LocalIpMode.PASSTHROUGH
    }
    macs = {port.mac, *(source.mac for source in pairs)}
    return frozenset(
        own | pairs | passed | {AllowedSource(mac, host_prefix(link_local(mac))) for mac in macs}
    )
