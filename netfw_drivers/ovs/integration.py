"""The flows of ``br-int``.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from attrs import frozen

from netfw import flows as of
from netfw.drivers.addition import SwitchAddition
from netfw.drivers.claim import Grant, Place
from netfw.drivers.source import Source
from netfw.flows.field import ADVERTISEMENT
from netfw.model.address import Mac
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.ovs.grants import Layout
from netfw_drivers.ovs.pipeline import (
    ACCEPTED_NORMAL,
    COOKIE,
    DROPPED,
    INTEGRATION,
    LOCAL_OUTPUT,
    LOCAL_SWITCHING,
    NETWORK,
    PORT,
    RATE_PACKETS,
    SPOOF_ARP,
    SPOOF_MAC,
    TARGET,
    TRANSIENT,
)
from netfw_drivers.ovs.vlans import DEAD_VLAN

_NOBODY = "0.0.0.0"
"""The sender of an ARP probe."""


@frozen(kw_only=True)
class WiredPort:
    """All that the flows of a port are made of."""

    number: int
    vlan: int
    mac: Mac
    guard: frozenset[Source] | None
    additions: tuple[SwitchAddition, ...]
    layout: Layout


def base_flows(from_tunnels: int | None, layout: Layout) -> Iterator[of.Flow]:
    """What is there before any port: *from_tunnels* is the patch to ``br-tun``, if there is one."""
    watchers = layout.watchers()
    for table in INTEGRATION.tables:
        if table is TRANSIENT:
            yield table.flow(
                of.ANYTHING, of.goto(layout.entry(Place.SENT)), priority=0, cookie=COOKIE
            )
        elif table is DROPPED:
            yield table.flow(of.ANYTHING, *map(of.goto, watchers), priority=0, cookie=COOKIE)
        else:
            yield table.miss_flow(COOKIE)
    yield LOCAL_SWITCHING.flow(of.vlan(DEAD_VLAN), of.drop(), priority=65535, cookie=COOKIE)
    yield TRANSIENT.flow(PORT.is_(0), of.goto(ACCEPTED_NORMAL), priority=1, cookie=COOKIE)
    yield LOCAL_OUTPUT.flow(of.ANYTHING, of.output(TARGET), priority=1, cookie=COOKIE)
    if from_tunnels is not None:
        yield LOCAL_SWITCHING.flow(
            of.in_port(from_tunnels) & of.tagged(),
            of.move(of.Bits(of.VLAN_TCI, 0, 11), of.Bits(NETWORK.bits.field, 0, 11)),
            of.goto(RATE_PACKETS),
            priority=2,
            cookie=COOKIE,
        )
    for hop, after in layout.hops():
        yield of.Flow(
            table=hop, priority=0, match=of.ANYTHING, actions=(of.goto(after),), cookie=COOKIE
        )


def extension_flows(grant: Grant, addition: SwitchAddition | None) -> Iterator[of.Flow]:
    """What an extension wants whatever ports there are; packets it says nothing of pass by."""
    flows = addition.flows if addition is not None else ()
    yield from flows
    own = {flow.identity for flow in flows}
    for table in grant.tables.values():
        onward = () if table.then is None else (of.goto(table.then),)
        miss = of.Flow(
            table=table.number, priority=0, match=of.ANYTHING, actions=onward, cookie=COOKIE
        )
        if miss.identity not in own:
            yield miss


def port_flows(port: WiredPort) -> Iterator[of.Flow]:
    """What lets a port take part in its network."""
    here = of.in_port(port.number)
    known = of.load(PORT, port.number), of.load(NETWORK, port.vlan)
    onward = of.goto(port.layout.entry(Place.FROM_PORT))
    if port.guard is None:
        yield LOCAL_SWITCHING.flow(here, *known, onward, priority=9, cookie=COOKIE)
    else:
        yield LOCAL_SWITCHING.flow(here, *known, of.goto(SPOOF_MAC), priority=9, cookie=COOKIE)
        for claims in (of.arp(), of.icmpv6() & of.icmpv6_type(ADVERTISEMENT)):
            yield LOCAL_SWITCHING.flow(
                here & claims, *known, of.goto(SPOOF_ARP), priority=10, cookie=COOKIE
            )
        yield from _guards(here, port.guard, onward)
    if port.layout.delivers:
        yield from _delivery(port)
    for addition in port.additions:
        yield from addition.flows


def network_flows(vlan: int, provider: Provider, cable: int) -> Iterator[of.Flow]:
    """What takes a physical network's packets in by *cable*, under the local *vlan*."""
    here = of.in_port(cable)
    known = of.load(NETWORK, vlan)
    if provider.network_type is NetworkType.VLAN:
        assert provider.segmentation_id is not None
        yield LOCAL_SWITCHING.flow(
            here & of.vlan(provider.segmentation_id),
            of.set_vlan(vlan),
            known,
            of.goto(RATE_PACKETS),
            priority=3,
            cookie=COOKIE,
        )
    else:
        yield LOCAL_SWITCHING.flow(
            here & of.untagged(),
            of.PushVlan(),
            of.set_vlan(vlan),
            known,
            of.goto(RATE_PACKETS),
            priority=3,
            cookie=COOKIE,
        )


def _guards(here: of.Match, guard: frozenset[Source], onward: of.Resubmit) -> Iterator[of.Flow]:
    """ARP and advertisements only for addresses it has; probes, which claim nothing, pass."""
    checked = of.goto(SPOOF_MAC)
    for source in guard:
        if isinstance(source.prefix, IPv4Network):
            claim = of.arp() & of.arp_sha(source.mac)
            if source.prefix.prefixlen:
                claim &= of.arp_spa(source.prefix)
        else:
            claim = of.icmpv6() & of.icmpv6_type(ADVERTISEMENT) & of.eth_src(source.mac)
            if source.prefix.prefixlen:
                claim &= of.nd_target(source.prefix)
        yield SPOOF_ARP.flow(here & claim, checked, priority=2, cookie=COOKIE)
    for mac in {source.mac for source in guard}:
        probe = of.arp() & of.arp_sha(mac) & of.arp_spa(_NOBODY)
        yield SPOOF_ARP.flow(here & probe, checked, priority=3, cookie=COOKIE)
        yield SPOOF_MAC.flow(here & of.eth_src(mac), onward, priority=2, cookie=COOKIE)


def _delivery(port: WiredPort) -> Iterator[of.Flow]:
    """What is for this port, shown to the extensions that want to see it; multicast is not."""
    theirs = NETWORK.is_(port.vlan) & of.eth_dst(port.mac)
    onward = of.load(TARGET, port.number), of.goto(port.layout.entry(Place.TO_PORT))
    yield TRANSIENT.flow(theirs & of.untagged(), *onward, priority=20, cookie=COOKIE)
    yield TRANSIENT.flow(
        theirs & of.vlan(port.vlan), of.PopVlan(), *onward, priority=20, cookie=COOKIE
    )
