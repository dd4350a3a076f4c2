"""The flows of distributed routers on ``br-int``.  Pure.

The MAC address of a router interface is the same on every host.  Between hosts its frames have the
MAC of the host that sends them, so that no switch sees one address at two places.  The frames of
the routers of other hosts get the address of the interface back before they are delivered.

Kernels of routers resolve neighbours themselves.  A request that leaves is turned into a probe (of
an address without a sender), which instances answer and learn nothing from.  The answer is made one
to the router interface again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address

from attrs import frozen

from netfw import flows as of
from netfw.drivers.values.switch_values import RouterInterface
from netfw.flows.field import ADVERTISEMENT, SOLICITATION
from netfw.model.values.address import IpAddress, IpNetwork, Mac, link_local
from netfw_drivers.ovs.pipeline.tables import (
    ARP_DVR_PHYSICAL,
    ARP_DVR_TUNNEL,
    COOKIE,
    DVR_PHYSICAL,
    DVR_TUNNEL,
    EGRESS,
    LOCAL_OUTPUT,
    LOCAL_SWITCHING,
    NETWORK,
    PORT,
    RATE_PACKETS,
    ROUTED,
    TO_ROUTER,
)

_REQUEST, _REPLY = 1, 2
_ROUTER_ADVERTISEMENT = 134
_ALL_NODES = "ff02::1"
_NOBODY = "0.0.0.0"
_SOLICITED_OVERRIDE = 0x60000000
_UNKNOWN_OPTION = 253
"""A type of option for experiments, which receivers ignore.

A solicitation without a sender must not have the option with the sender's MAC address.
"""
_ARP_REQUEST, _ARP_REPLY = (of.arp() & of.arp_op(kind) for kind in (_REQUEST, _REPLY))
_SOLICITED, _ADVERTISED, _ROUTER_ADVERTISED = (
    of.icmpv6() & of.icmpv6_type(kind)
    for kind in (SOLICITATION, ADVERTISEMENT, _ROUTER_ADVERTISEMENT)
)


@frozen
class RoutedSegment:
    """A segment of a network with distributed routers, and the port that leads to other hosts."""

    vlan: int
    uplink: int
    tunnelled: bool

    @property
    def restoring(self) -> of.Table:
        """The table that restores the MAC addresses of routers."""
        return DVR_TUNNEL if self.tunnelled else DVR_PHYSICAL

    @property
    def answering(self) -> of.Table:
        """The table that passes answers to routers."""
        return ARP_DVR_TUNNEL if self.tunnelled else ARP_DVR_PHYSICAL


@frozen
class Served:
    """A prefix, and the router interfaces with an address of it; the first one stands for all."""

    prefix: IpNetwork
    interfaces: tuple[RouterInterface, ...]


@frozen(kw_only=True)
class PlannedInterface:
    """A router interface: all that its flows are made of."""

    interface: RouterInterface
    served: tuple[Served, ...] = ()
    """The prefixes that it is the first of."""
    default: bool = False
    """It stands for the routers of its network where an address does not tell which one it is."""


@lru_cache(64)
def plan_interfaces(interfaces: frozenset[RouterInterface]) -> tuple[PlannedInterface, ...]:
    """Return the router interfaces of one network, with what each of them stands for.

    Of several in one prefix it is that with the lowest address, which is most often the gateway.
    """
    ordered = sorted(interfaces, key=lambda one: str(one.port))
    served: dict[RouterInterface, list[Served]] = {}
    for prefix in sorted({each.network for one in ordered for each in one.addresses}, key=str):
        found = {one: _address_in(one, prefix) for one in ordered}
        present = {one: int(address) for one, address in found.items() if address is not None}
        first, *rest = sorted(present, key=present.__getitem__)
        served.setdefault(first, []).append(Served(prefix, (first, *rest)))
    return tuple(
        PlannedInterface(
            interface=one, served=tuple(served.get(one, ())), default=one is ordered[0]
        )
        for one in ordered
    )


def gateway_mac(interfaces: frozenset[RouterInterface], addresses: Iterable[IpAddress]) -> Mac:
    """Return the MAC address of the router interface that serves a port with *addresses*."""
    planned = plan_interfaces(interfaces)
    for address in sorted(addresses, key=str):
        for one in planned:
            if any(address in served.prefix for served in one.served):
                return one.interface.mac
    return planned[0].interface.mac


def base_flows() -> Iterator[of.Flow]:
    """Yield the flows that deliver probes of other hosts' routers as they are."""
    for table in (DVR_TUNNEL, DVR_PHYSICAL):
        for probe in (of.arp(), _SOLICITED):
            yield table.flow(probe, of.goto(RATE_PACKETS), priority=30, cookie=COOKIE)


def host_flows(mac: Mac, links: Iterable[int], *, own: bool) -> Iterator[of.Flow]:
    """Yield the flows of frames with the *mac* of a host; *links* lead to other bridges.

    Frames from another host's MAC are of its routers; frames for the *own* one may answer requests
    of this host's routers.  Advertisements for all may be such answers, too.  No instance can send
    from the MAC of a host.
    """
    yield LOCAL_SWITCHING.flow(
        ROUTED.is_(0) & of.eth_src(mac), of.drop(), priority=25, cookie=COOKIE
    )
    again = of.goto(LOCAL_SWITCHING)
    for link in links:
        if not own:
            theirs = of.in_port(link) & ROUTED.is_(0) & of.eth_src(mac)
            yield LOCAL_SWITCHING.flow(
                theirs, of.load(ROUTED, 1), again, priority=30, cookie=COOKIE
            )
            continue
        for answer in (_ARP_REPLY & of.eth_dst(mac), _ADVERTISED & of.ipv6_dst(_ALL_NODES)):
            unmarked = of.in_port(link) & TO_ROUTER.is_(0)
            yield LOCAL_SWITCHING.flow(
                unmarked & answer, of.load(TO_ROUTER, 1), again, priority=31, cookie=COOKIE
            )


def port_flow(towards: of.Match, gateway: Mac, *, tunnelled: bool) -> of.Flow:
    """Return the flow that restores the MAC address of the *gateway* of a port.

    It is for packets whose address does not tell the router: the port is their next hop.
    """
    table = DVR_TUNNEL if tunnelled else DVR_PHYSICAL
    return table.flow(towards, *_restore(gateway), priority=15, cookie=COOKIE)


def interface_flows(
    segments: Iterable[RoutedSegment], planned: PlannedInterface, host: Mac | None
) -> Iterator[of.Flow]:
    """Yield the flows of a router interface; *host* is the MAC of this host, if it has one."""
    for segment in segments:
        yield from _restoring(segment, planned)
        yield from _answering(segment, planned)
        yield LOCAL_OUTPUT.flow(
            NETWORK.is_(segment.vlan)
            & of.eth_dst(planned.interface.mac)
            & PORT.is_(0)
            & TO_ROUTER.is_(0),
            of.drop(),
            priority=13,
            cookie=COOKIE,
        )
        for kept in _confined(planned.interface):
            yield EGRESS.flow(
                NETWORK.is_(segment.vlan) & kept, of.drop(), priority=10, cookie=COOKIE
            )
        yield from _leaving(segment, planned.interface.mac, host)


def _restoring(segment: RoutedSegment, planned: PlannedInterface) -> Iterator[of.Flow]:
    """Yield the flows that give frames of other hosts' routers the MAC of the interface."""
    ours, restore = NETWORK.is_(segment.vlan), _restore(planned.interface.mac)
    for served in planned.served:
        yield segment.restoring.flow(
            ours & of.ip_dst(served.prefix), *restore, priority=20, cookie=COOKIE
        )
    if planned.default:
        yield segment.restoring.flow(ours, *restore, priority=10, cookie=COOKIE)


def _restore(mac: Mac) -> tuple[of.Action, ...]:
    return of.set_field("eth_src", mac), of.goto(RATE_PACKETS)


def _answering(segment: RoutedSegment, planned: PlannedInterface) -> Iterator[of.Flow]:
    """Yield the flows that pass answers to the router interfaces that may have asked."""
    ours, table = NETWORK.is_(segment.vlan), segment.answering
    own = (planned.interface,)
    for served in planned.served:
        if isinstance(served.prefix, IPv4Network):
            sender = of.arp() & of.arp_spa(served.prefix)
            actions = _arp_answers(served.interfaces, served.prefix)
        else:
            sender = _ADVERTISED & of.nd_target(served.prefix)
            actions = _neighbour_answers(served.interfaces)
        yield table.flow(ours & sender, *actions, priority=2, cookie=COOKIE)
    if planned.default:
        for served in planned.served:
            if isinstance(served.prefix, IPv4Network):
                actions = _arp_answers(own, served.prefix)
                yield table.flow(ours & of.arp(), *actions, priority=1, cookie=COOKIE)
                break
        yield table.flow(ours & _ADVERTISED, *_neighbour_answers(own), priority=1, cookie=COOKIE)


def _arp_answers(interfaces: Iterable[RouterInterface], prefix: IpNetwork) -> Iterator[of.Action]:
    for interface in interfaces:
        address = _address_in(interface, prefix)
        assert address is not None
        yield of.set_field("eth_dst", interface.mac)
        yield of.set_field("arp_tha", interface.mac)
        yield of.set_field("arp_tpa", address)
        yield of.goto(LOCAL_OUTPUT)


def _neighbour_answers(interfaces: Iterable[RouterInterface]) -> Iterator[of.Action]:
    """Yield the actions that deliver an advertisement to all, and as an answer to *interfaces*.

    A probe is answered to all.  A kernel that sent a request expects an answer for itself.
    """
    yield of.goto(RATE_PACKETS)
    yield of.load(of.ND_RESERVED, _SOLICITED_OVERRIDE)
    for interface in interfaces:
        yield of.set_field("eth_dst", interface.mac)
        yield of.set_field("ipv6_dst", link_local(interface.mac))
        yield of.goto(LOCAL_OUTPUT)


def _confined(interface: RouterInterface) -> Iterator[of.Match]:
    """Yield the matches of frames that never leave the host."""
    yield of.eth_dst(interface.mac)
    for kind in (_ARP_REPLY, _ADVERTISED, _ROUTER_ADVERTISED):
        yield kind & of.eth_src(interface.mac)
    for address in sorted({*_addresses(interface), link_local(interface.mac)}, key=str):
        if isinstance(address, IPv6Address):
            yield _SOLICITED & of.nd_target(address)
        else:
            yield of.arp() & of.arp_tpa(address)
    for address in sorted(_addresses(interface), key=str):
        claimed = _ADVERTISED & of.nd_target(address) if address.version == 6 else _arp_of(address)
        yield ROUTED.is_(0) & claimed  # by an instance


def _arp_of(address: IpAddress) -> of.Match:
    return of.arp() & of.arp_spa(address)


def _leaving(segment: RoutedSegment, mac: Mac, host: Mac | None) -> Iterator[of.Flow]:
    """Yield the flows of frames that leave: from the MAC of this host, or not at all."""
    theirs = NETWORK.is_(segment.vlan) & of.eth_src(mac)
    # An instance with another port's MAC address is no router.
    yield EGRESS.flow(theirs & ROUTED.is_(0), of.drop(), priority=7, cookie=COOKIE)
    if host is None:
        yield EGRESS.flow(theirs, of.drop(), priority=5, cookie=COOKIE)
        return
    out = of.PushVlan(), of.set_vlan(segment.vlan), of.output(segment.uplink)
    rename = of.set_field("eth_src", host)
    probe = of.set_field("arp_sha", host), of.set_field("arp_spa", _NOBODY)
    yield EGRESS.flow(theirs & _ARP_REQUEST, rename, *probe, *out, priority=6, cookie=COOKIE)
    anonymous = of.set_field("ipv6_src", "::"), of.load(of.ND_OPTIONS_TYPE, _UNKNOWN_OPTION)
    yield EGRESS.flow(theirs & _SOLICITED, rename, *anonymous, *out, priority=6, cookie=COOKIE)
    yield EGRESS.flow(theirs, rename, *out, priority=5, cookie=COOKIE)


def _address_in(interface: RouterInterface, prefix: IpNetwork) -> IpAddress | None:
    """Return the lowest address that the interface has with this very *prefix*."""
    found = [address.ip for address in interface.addresses if address.network == prefix]
    return min(found, default=None)


def _addresses(interface: RouterInterface) -> set[IpAddress]:
    return {address.ip for address in interface.addresses}
