"""The flows of ``br-int``.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Address
from typing import NamedTuple

from attrs import evolve, frozen

from netfw import flows as of
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.pipeline_grant import Grant, PipelineHook
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.flows.field import ADVERTISEMENT, SOLICITATION
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.address import Mac
from netfw.ovs.openflow.encode import Encoded, Key
from netfw_drivers.ovs.common.local_vlans import DEAD_VLAN, BroadcastDomain
from netfw_drivers.ovs.pipeline import distributed_routing, mac_limit
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import (
    ACCEPT_OR_INGRESS,
    ACCEPTED,
    ACCEPTED_EGRESS,
    ACCEPTED_INGRESS,
    ARP_DVR_PHYSICAL,
    ARP_DVR_TUNNEL,
    BASE_EGRESS,
    BASE_INGRESS,
    CHUNK_BITS,
    COOKIE,
    DIRECTION,
    DROPPED,
    DVR_PHYSICAL,
    DVR_TUNNEL,
    EGRESS,
    FILTERED,
    FILTERED_PORT,
    GUARDED_PORT,
    INTEGRATION,
    LOCAL_OUTPUT,
    LOCAL_SWITCHING,
    MEMBER_CHUNK,
    MEMBERS,
    NETWORK,
    PORT,
    RATE_PACKETS,
    ROUTED,
    SHARED_MAC,
    SPOOF_ARP,
    SPOOF_MAC,
    TARGET,
    TO_ROUTER,
    TRANSIENT,
)

ADMISSION = 9
"""Priority of the flow that lets a port take part."""
_GROUP = "01:00:00:00:00:00/01:00:00:00:00:00"
_BEFORE_FIREWALL = (PipelineHook.FROM_PORT, PipelineHook.SENT)
"""Hooks that a firewall follows: that of the sender, or those of the receivers."""
_TAG_TYPES = (0x8100, 0x88A8)
"""Ethertypes of VLAN tags."""
_NOBODY = "0.0.0.0"
"""The sender of an ARP probe."""
_NEIGHBOUR_PROBE = of.icmpv6() & of.icmpv6_type(SOLICITATION) & of.ipv6_src(IPv6Address(0))
"""A solicitation of duplicate address detection."""
_GROUP_REPORTS = (131, 132, 143)
"""ICMPv6 types of MLD by which a listener reports its multicast groups, and leaves them."""
Chunk = tuple[BroadcastDomain, int]
"""Ports of a domain whose numbers differ in the last `CHUNK_BITS` bits only."""


class Receiver(NamedTuple):
    """A port that receives packets; those for a ``filtered`` one pass the firewall first."""

    number: int
    filtered: bool = False


@frozen(kw_only=True)
class PlannedSubport:
    """The numbers by which a sub-port reaches the device of its parent."""

    parent: int
    end: int
    """The end of its pair of patch ports that leads to the parent."""
    tag: int


@frozen(kw_only=True)
class PlannedPort:
    """A port that takes part in its network, or is ready to: all that its flows are made of."""

    domain: BroadcastDomain
    number: int
    vlan: int
    mac: Mac
    guard: frozenset[AllowedSource] | None = None
    filtered: bool = False
    open: bool = False
    """Other MAC addresses than its own are behind it."""
    mac_limit: int = 0
    """Maximum of those that it sends from; 0: no limit."""
    shared_mac: bool = False
    """Other hosts have its MAC address too."""
    router: bool = False
    """It is an interface of a distributed router."""
    gateway: Mac | None = None
    """The MAC address of its distributed router, if its network has several."""
    tunnelled: bool = False
    """Its network is carried by tunnels."""
    live: bool = True
    sub_port: PlannedSubport | None = None

    @property
    def receiver(self) -> Receiver:
        return Receiver(self.number, self.filtered)

    @property
    def chunk(self) -> Chunk:
        """The part of its domain's broadcast flows that delivers to it."""
        return self.domain, self.number >> CHUNK_BITS


def base_flows(from_tunnels: int | None, layout: ExtensionLayout) -> Iterator[of.Flow]:
    """Yield the flows that exist before any port; *from_tunnels* is the patch to ``br-tun``."""
    for table in INTEGRATION.tables:
        yield _miss(table, layout)
    yield LOCAL_SWITCHING.flow(of.vlan(DEAD_VLAN), of.drop(), priority=65535, cookie=COOKIE)
    # Another tag behind a priority tag would be that of a VLAN of the physical network.
    for tag_type in _TAG_TYPES:
        nested = of.untagged() & of.eth_type(tag_type)
        yield LOCAL_SWITCHING.flow(nested, of.drop(), priority=65535, cookie=COOKIE)
    # A priority tag (VLAN 0) has no network.
    yield LOCAL_SWITCHING.flow(
        of.vlan(0), of.PopVlan(), of.goto(LOCAL_SWITCHING), priority=65534, cookie=COOKIE
    )
    yield TRANSIENT.flow(FILTERED.is_(1), of.goto(BASE_EGRESS), priority=2, cookie=COOKIE)
    yield TRANSIENT.flow(PORT.is_(0), of.goto(ACCEPTED), priority=1, cookie=COOKIE)
    yield EGRESS.flow(PORT.is_(0), of.drop(), priority=20, cookie=COOKIE)
    yield from distributed_routing.base_flows()
    yield from mac_limit.base_flows(layout)
    if from_tunnels is not None:
        yield from _tunnel_input(from_tunnels)
    for hook, hop, after in layout.hops():
        onward = of.goto(after)
        # The firewall would take a connection that an extension tracked for one of its own.
        actions = (of.CtClear(), onward) if hook in _BEFORE_FIREWALL else (onward,)
        yield of.Flow(table=hop, priority=0, match=of.ANYTHING, actions=actions, cookie=COOKIE)


def _tunnel_input(from_tunnels: int) -> Iterator[of.Flow]:
    """Yield the flows that accept packets of every network from ``br-tun``."""
    for match, table, priority in (
        (of.ANYTHING, RATE_PACKETS, 2),
        (ROUTED.is_(1), DVR_TUNNEL, 5),
        (TO_ROUTER.is_(1), ARP_DVR_TUNNEL, 6),
    ):
        yield LOCAL_SWITCHING.flow(
            of.in_port(from_tunnels) & of.tagged() & match,
            of.move(of.Bits(of.VLAN_TCI, 0, 11), of.Bits(NETWORK.bits.field, 0, 11)),
            of.PopVlan(),
            of.goto(table),
            priority=priority,
            cookie=COOKIE,
        )


def _miss(table: of.Table, layout: ExtensionLayout) -> of.Flow:
    """Return the flow of packets that no other flow matches; extensions may be next."""
    if table is ACCEPTED_EGRESS:
        onward: tuple[of.Action, ...] = (of.goto(layout.entry(PipelineHook.SENT)),)
    elif table is ACCEPTED_INGRESS and layout.delivers:
        onward = (of.goto(layout.entry(PipelineHook.TO_PORT)),)
    elif table is DROPPED:
        onward = tuple(map(of.goto, layout.watchers()))
    else:
        onward = table.miss
    return table.flow(of.ANYTHING, *onward, priority=0, cookie=COOKIE)


def extension_flows(grant: Grant, contribution: SwitchContribution | None) -> Iterator[of.Flow]:
    """Yield the flows of an extension, and those by which other packets pass its tables."""
    flows = contribution.flows if contribution is not None else ()
    yield from flows
    own = {flow.identity for flow in flows}
    for table in grant.tables.values():
        onward = () if table.then is None else (of.goto(table.then),)
        miss = of.Flow(
            table=table.number, priority=0, match=of.ANYTHING, actions=onward, cookie=COOKIE
        )
        if miss.identity not in own:
            yield miss


def admission(number: int) -> of.Match:
    """Return the match of the flow that every live port has, whatever its actions are."""
    return of.in_port(number) & of.untagged()


def admission_key(number: int) -> Key:
    """Return the key of the flow by which a port is live."""
    flow = LOCAL_SWITCHING.flow(admission(number), priority=ADMISSION)
    return Encoded(flow).key


def port_flows(port: PlannedPort, layout: ExtensionLayout) -> Iterator[of.Flow]:
    """Yield the flows that let a port take part in its network."""
    here = admission(port.number)
    marks = [mark for mark, on in ((FILTERED, port.filtered), (ROUTED, port.router)) if on]
    known = (
        of.load(PORT, port.number),
        of.load(NETWORK, port.vlan),
        *(of.load(mark, 1) for mark in marks),
    )
    onward = of.goto(layout.entry(PipelineHook.FROM_PORT))
    first: tuple[of.Action, ...] = (onward if port.guard is None else of.goto(SPOOF_MAC),)
    if port.mac_limit:
        first = mac_limit.CHECK
        yield from mac_limit.port_flows(port.number, port.mac, port.mac_limit)
    yield LOCAL_SWITCHING.flow(here, *known, *first, priority=ADMISSION, cookie=_cookie(port))
    if port.guard is not None:
        for claims in (of.arp(), of.icmpv6() & of.icmpv6_type(ADVERTISEMENT), _NEIGHBOUR_PROBE):
            yield LOCAL_SWITCHING.flow(
                here & claims, *known, of.goto(SPOOF_ARP), priority=10, cookie=COOKIE
            )
        yield from _guards(of.in_port(port.number), port.guard, onward)
    towards = NETWORK.is_(port.vlan) & of.eth_dst(port.mac)
    delivery = _deliver(port.receiver, layout)
    if port.shared_mac:
        delivery += (of.goto(EGRESS),)
        yield from _standby_guards(here)
    yield LOCAL_OUTPUT.flow(towards, *delivery, priority=12, cookie=COOKIE)
    if port.gateway is not None:
        yield distributed_routing.port_flow(towards, port.gateway, tunnelled=port.tunnelled)
    if port.sub_port is not None:
        yield from _sub_port_flows(port.sub_port)
    if port.filtered and not port.shared_mac:
        # The receiver commits connections to it, so that those it refuses are not tracked.
        yield ACCEPT_OR_INGRESS.flow(
            towards & DIRECTION.is_(0), of.goto(ACCEPTED_EGRESS), priority=20, cookie=COOKIE
        )


def _sub_port_flows(sub: PlannedSubport) -> Iterator[of.Flow]:
    """Yield the flows between the device of the parent, with the tag, and the sub-port, without.

    A tag behind the tag stays, and then no flow of the sub-port matches.
    """
    yield LOCAL_SWITCHING.flow(
        of.in_port(sub.parent) & of.vlan(sub.tag),
        of.PopVlan(),
        of.output(sub.end),
        priority=ADMISSION,
        cookie=COOKIE,
    )
    yield LOCAL_SWITCHING.flow(
        of.in_port(sub.end) & of.untagged(),
        of.PushVlan(),
        of.set_vlan(sub.tag),
        of.output(sub.parent),
        priority=ADMISSION,
        cookie=COOKIE,
    )


def _standby_guards(here: of.Match) -> Iterator[of.Flow]:
    """Yield the flows that drop what a router without addresses sends from the shared MAC.

    The kernel of the former active router leaves its multicast groups, up to seconds later and from
    the unspecified address.  Switches would learn the MAC from that, and send to the wrong host.
    """
    for kind in _GROUP_REPORTS:
        report = of.icmpv6() & of.icmpv6_type(kind) & of.ipv6_src(IPv6Address(0))
        yield LOCAL_SWITCHING.flow(here & report, of.drop(), priority=11, cookie=COOKIE)


def _cookie(port: PlannedPort) -> int:
    """Return the cookie by which a later run knows what a live port is."""
    guarded = port.guard is not None
    marks = FILTERED_PORT * port.filtered | GUARDED_PORT * guarded | SHARED_MAC * port.shared_mac
    return COOKIE | marks


def contribution_flows(
    contributions: tuple[SwitchContribution, ...], vlan: int
) -> Iterator[of.Flow]:
    """Yield the flows of extensions for a port; they exist before the port is live."""
    ours = NETWORK.is_(vlan)
    for contribution in contributions:
        yield from contribution.flows
        yield from (evolve(flow, match=flow.match & ours) for flow in contribution.network_flows)


def domain_flows(
    vlan: int,
    chunks: tuple[int, ...],
    hosting: tuple[Receiver, ...],
    uplink: int | None,
    layout: ExtensionLayout,
) -> Iterator[of.Flow]:
    """Yield the flows that deliver to all ports of a network, and to other hosts by *uplink*.

    *hosting* are the ports with unknown MAC addresses behind them: packets for an unknown address
    go there too.
    """
    ours = NETWORK.is_(vlan)
    to_all: list[of.Action] = []
    for chunk in chunks:
        to_all += [of.load(MEMBER_CHUNK, chunk), of.goto(MEMBERS)]
    yield LOCAL_OUTPUT.flow(
        ours & of.eth_dst(_GROUP), *to_all, of.goto(EGRESS), priority=10, cookie=COOKIE
    )
    if hosting:
        to_hosting = (action for receiver in hosting for action in _deliver(receiver, layout))
        yield LOCAL_OUTPUT.flow(ours, *to_hosting, of.goto(EGRESS), priority=3, cookie=COOKIE)
    if uplink is not None:
        yield EGRESS.flow(
            ours, of.PushVlan(), of.set_vlan(vlan), of.output(uplink), priority=1, cookie=COOKIE
        )


def chunk_flows(
    vlan: int, chunk: int, receivers: tuple[Receiver, ...], layout: ExtensionLayout
) -> Iterator[of.Flow]:
    """Yield the flow that delivers packets to some of the ports of a network."""
    actions = (action for receiver in receivers for action in _deliver(receiver, layout))
    yield MEMBERS.flow(
        NETWORK.is_(vlan) & MEMBER_CHUNK.is_(chunk), *actions, priority=1, cookie=COOKIE
    )


def network_flows(
    vlan: int, provider: Provider, link_port: int, *, routed: bool = False
) -> Iterator[of.Flow]:
    """Yield the flows that map packets of a physical network from *link_port* to *vlan*.

    *routed*: it has distributed routers on this host.
    """
    if provider.network_type is NetworkType.VLAN:
        assert provider.segmentation_id is not None
        theirs = of.in_port(link_port) & of.vlan(provider.segmentation_id)
        known: tuple[of.Action, ...] = (of.PopVlan(), of.load(NETWORK, vlan))
    else:
        theirs = of.in_port(link_port) & of.untagged()
        known = (of.load(NETWORK, vlan),)
    yield LOCAL_SWITCHING.flow(theirs, *known, of.goto(RATE_PACKETS), priority=3, cookie=COOKIE)
    if routed:
        for mark, table, priority in ((ROUTED, DVR_PHYSICAL, 5), (TO_ROUTER, ARP_DVR_PHYSICAL, 6)):
            yield LOCAL_SWITCHING.flow(
                theirs & mark.is_(1), *known, of.goto(table), priority=priority, cookie=COOKIE
            )


def _deliver(receiver: Receiver, layout: ExtensionLayout) -> tuple[of.Action, ...]:
    """Return the actions that deliver to a port, through firewall and extensions."""
    number = receiver.number
    if receiver.filtered:
        return of.load(TARGET, number), of.goto(BASE_INGRESS)
    if layout.delivers:
        return of.load(TARGET, number), of.goto(layout.entry(PipelineHook.TO_PORT))
    return (of.output(number),)


def _guards(
    here: of.Match, guard: frozenset[AllowedSource], onward: of.Resubmit
) -> Iterator[of.Flow]:
    """Yield the flows that allow ARP, advertisements and probes of own addresses."""
    checked = of.goto(SPOOF_MAC)
    for source in guard:
        if isinstance(source.prefix, IPv4Network):
            claim = of.arp() & of.arp_sha(source.mac)
            probe = claim & of.arp_spa(_NOBODY)
            if source.prefix.prefixlen:
                claim &= of.arp_spa(source.prefix)
                probe &= of.arp_tpa(source.prefix)
        else:
            claim = of.icmpv6() & of.icmpv6_type(ADVERTISEMENT) & of.eth_src(source.mac)
            probe = _NEIGHBOUR_PROBE & of.eth_src(source.mac)
            if source.prefix.prefixlen:
                claim &= of.nd_target(source.prefix)
                probe &= of.nd_target(source.prefix)
        yield SPOOF_ARP.flow(here & claim, checked, priority=2, cookie=COOKIE)
        yield SPOOF_ARP.flow(here & probe, checked, priority=3, cookie=COOKIE)
    for mac in {source.mac for source in guard}:
        yield SPOOF_MAC.flow(here & of.eth_src(mac), onward, priority=2, cookie=COOKIE)
