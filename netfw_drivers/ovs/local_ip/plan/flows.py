"""Flows that lead local IPs to a port of this host.  Pure.

Packets to a local IP are addressed to the port before its sender's firewall, so that both firewalls
see the port's own address; replies get the local IP as their source after the receiver's firewall.
A connection is tracked in a zone of the port and its address, where the tracker translates it: so
no entry of a former association is taken for one of this.  It is committed only once the sender's
firewall has allowed it: until then its packets are addressed without state.

ARP requests for a local IP are answered with the MAC of its owner, which its neighbours have with
or without an association: so one that begins or ends concerns the next packet.  Probes for it and
announcements of it go on to the owner, and the port itself reaches the owner, unless it receives
the local IP's packets unchanged: then it has that address too, and must not claim it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from typing import Final, cast
from zlib import crc32

from attrs import frozen

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import (
    Grant,
    PipelineHook,
    RegisterRequest,
    TableRequest,
)
from netfw.model.local_ip import LocalIpAssociation, LocalIpMode
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId

REQUESTS, NEW, ALLOWED, REPLIES, UNTRACKED = "requests", "new", "allowed", "replies", "untracked"
TABLES: Final = (
    TableRequest(name=REQUESTS, hook=PipelineHook.FROM_PORT),
    TableRequest(name=NEW),
    TableRequest(name=ALLOWED, hook=PipelineHook.SENT),
    TableRequest(name=REPLIES, hook=PipelineHook.TO_PORT),
    TableRequest(name=UNTRACKED),
)
LOCAL_IP: Final = "local-ip"
REGISTERS: Final = (RegisterRequest(LOCAL_IP, 32),)
"""The local IP of a packet whose connection is to be committed; 0: none."""
ZONES: Final = range(0x2000, 0xFFFF)
"""Networks have zones up to 4094; the last one is that of copies for limits."""
_OWN, _EXEMPT, _COMMON = 120, 115, 110
"""Priorities: what the port itself sends, claims of others, and all else."""
_ARP_REQUEST, _ARP_REPLY = 1, 2
_UNICAST: Final = of.eth_dst("00:00:00:00:00:00/01:00:00:00:00:00")
_NOBODY: Final = IPv4Address(0)


@frozen(kw_only=True)
class LocalIpReceiver:
    """The port that local IPs lead to."""

    id: PortId
    ofport: int
    mac: Mac


def zone(port: PortId, fixed_ip: IPv4Address) -> int:
    """Return the zone of connections to local IPs that lead to *fixed_ip* of *port*."""
    return ZONES[crc32(port.bytes + fixed_ip.packed) % len(ZONES)]


def base_flows(grant: Grant) -> Iterator[of.Flow]:
    """Yield the flows that do not depend on ports."""
    yield _flow(grant, NEW, of.ANYTHING, _onward(grant, REQUESTS), priority=1)
    back = _onward(grant, REPLIES)
    yield _flow(grant, UNTRACKED, of.ANYTHING, back, priority=1)
    # It is no reply to a local IP: later tables find it untracked, as before.
    for state in ("+new+trk", "+inv+trk"):
        yield _flow(grant, UNTRACKED, of.ct_state(state), of.CtClear(), back, priority=2)


def port_flows(
    port: LocalIpReceiver, local_ips: Iterable[LocalIpAssociation], grant: Grant
) -> Iterator[of.Flow]:
    """Yield the flows of what the port itself sends to local IPs that lead to it."""
    here, onward = of.in_port(port.ofport), _onward(grant, REQUESTS)
    for each in local_ips:
        local = cast(IPv4Address, each.address)
        asks, claims = here & of.arp() & of.arp_tpa(local), here & of.arp() & of.arp_spa(local)
        yield _flow(grant, REQUESTS, here & _to(local), onward, priority=_OWN)
        if each.mode is LocalIpMode.TRANSLATE:
            yield _flow(grant, REQUESTS, asks, onward, priority=_OWN)
            continue
        yield _flow(grant, REQUESTS, asks, priority=_OWN + 2)
        for operation, actions in (
            (_ARP_REQUEST, (of.load(of.FIELD["arp_spa"], int(each.fixed_ip)), onward)),
            (_ARP_REPLY, ()),
        ):
            claim = claims & of.arp_op(operation)
            yield _flow(grant, REQUESTS, claim, *actions, priority=_OWN + 1)


def network_flows(
    port: LocalIpReceiver, local_ips: Iterable[LocalIpAssociation], grant: Grant
) -> Iterator[of.Flow]:
    """Yield the flows of what ports of the network send to local IPs, and of replies to them."""
    onward = _onward(grant, REQUESTS)
    translated: dict[IPv4Address, None] = {}
    for each in local_ips:
        local, fixed = cast(IPv4Address, each.address), cast(IPv4Address, each.fixed_ip)
        yield from _neighbour_flows(each.mac, local, grant)
        addressed = of.set_field("eth_dst", port.mac)
        if each.mode is LocalIpMode.PASSTHROUGH:
            yield _flow(grant, REQUESTS, _to(local), addressed, onward)
        else:
            translated[fixed] = None
            track = of.ct(zone=zone(port.id, fixed), nat=of.nat(), table=grant.tables[NEW].number)
            yield _flow(grant, REQUESTS, _to(local), addressed, track)
            yield from _new_flows(port, local, fixed, grant)
    for fixed in translated:
        yield from _reply_flows(port, fixed, grant)


def _new_flows(
    port: LocalIpReceiver, local: IPv4Address, fixed: IPv4Address, grant: Grant
) -> Iterator[of.Flow]:
    """Yield the flows of packets whose connection has no entry yet."""
    register = _register(grant)
    yield _flow(
        grant,
        NEW,
        _to(local),
        of.set_field("ipv4_dst", fixed),
        of.load(register, int(local)),
        _onward(grant, REQUESTS),
    )
    then = grant.tables[ALLOWED].then
    assert then is not None  # every hook but DROPPED has a next table
    commit = of.ct(
        commit=True, zone=zone(port.id, fixed), nat=of.nat(of.Side.DST, fixed), table=then
    )
    yield _flow(
        grant,
        ALLOWED,
        of.ipv4() & register.is_(int(local)),
        of.set_field("ipv4_dst", local),
        of.load(register, 0),
        commit,
    )


def _reply_flows(port: LocalIpReceiver, fixed: IPv4Address, grant: Grant) -> Iterator[of.Flow]:
    """Yield the flows of what may be a reply: a firewall has tracked it as one, or not at all."""
    replies = of.eth_src(port.mac) & _UNICAST & of.ipv4() & of.ipv4_src(fixed)
    then = grant.tables[REPLIES].then
    for state, table in (("+rpl+trk", then), ("-trk", grant.tables[UNTRACKED].number)):
        track = of.ct(zone=zone(port.id, fixed), nat=of.nat(), table=table)
        yield _flow(grant, REPLIES, replies & of.ct_state(state), track)


def _neighbour_flows(mac: Mac, local: IPv4Address, grant: Grant) -> Iterator[of.Flow]:
    request = of.arp() & of.arp_op(_ARP_REQUEST) & of.arp_tpa(local)
    for claimed in (_NOBODY, local):
        claim = request & of.arp_spa(claimed)
        yield _flow(grant, REQUESTS, claim, _onward(grant, REQUESTS), priority=_EXEMPT)
    yield _flow(grant, REQUESTS, request, *of.arp_reply(mac, local))


def _to(address: IPv4Address) -> of.Match:
    return of.ipv4() & of.ipv4_dst(address)


def _register(grant: Grant) -> of.RegisterField:
    bits = grant.registers[LOCAL_IP]
    assert bits.register is not None  # a switch grants registers
    return of.RegisterField(bits.register, bits.first, bits.first + bits.bits - 1, LOCAL_IP)


def _onward(grant: Grant, hooked: str) -> of.Resubmit:
    then = grant.tables[hooked].then
    assert then is not None  # every hook but DROPPED has a next table
    return of.goto(then)


def _flow(
    grant: Grant, table: str, match: of.Match, *actions: of.Action, priority: int = _COMMON
) -> of.Flow:
    return of.Flow(
        table=grant.tables[table].number,
        priority=priority,
        match=match,
        actions=actions,
        cookie=grant.cookie,
    )
