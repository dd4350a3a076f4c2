"""Flows that limit and mark the packets of a port.  Pure.

A packet beyond the limit is dropped with everything that the switch would still do with it.  For a
packet from the port that is right.  A packet to the port may have other receivers: one that is not
for the MAC address of the port gets a copy for this port first, by connection tracking, which is
the only action that makes one; it commits nothing.  That needs IP: other packets to many receivers,
such as ARP requests, are not limited.

The cookie of a flow has a digest of the limit, so that a changed limit is a changed flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import Grant, PipelineHook, TableRequest
from netfw.model.security_group import Direction
from netfw.model.values.address import Mac
from netfw_drivers.ovs.pipeline.tables import TARGET
from netfw_drivers.ovs.qos.plan.limits import PortLimits, Rate

SENT_PACKETS, SENT_BITS, SENT_MARKS = "sent-packets", "sent-bits", "sent-marks"
RECEIVED, RECEIVED_PACKETS, RECEIVED_BITS = "received", "received-packets", "received-bits"
TABLES: Final = (
    TableRequest(name=SENT_PACKETS, hook=PipelineHook.FROM_PORT),
    TableRequest(name=SENT_BITS),
    TableRequest(name=SENT_MARKS),
    TableRequest(name=RECEIVED, hook=PipelineHook.RECEIVED),
    TableRequest(name=RECEIVED_PACKETS),
    TableRequest(name=RECEIVED_BITS),
)
METERS: Final = 4
"""Of each port: packets and bits, sent and received."""
_ZONE: Final = 0xFFFF
"""Networks have zones up to 4094."""
_PRIORITY: Final = 100


def port_flows(ofport: int, mac: Mac, limits: PortLimits, grant: Grant) -> Iterator[of.Flow]:
    """Yield the flows of *limits* for the port *ofport* with the address *mac*."""
    meters = _meters(ofport, limits, grant)
    sent, received = of.in_port(ofport), TARGET.is_(ofport)
    if any(Direction.EGRESS in each for each in (limits.packets, limits.bits)) or (
        limits.dscp is not None
    ):
        steps = ((SENT_PACKETS, meters[0]), (SENT_BITS, meters[1]))
        last = SENT_MARKS if limits.dscp is not None else None
        yield from _meter_flows(sent, steps, last, SENT_PACKETS, grant)
    if limits.dscp is not None:
        yield from _mark_flows(sent, limits.dscp, grant)
    if any(Direction.INGRESS in each for each in (limits.packets, limits.bits)):
        yield from _copy_flows(received, mac, grant)
        steps = ((RECEIVED_PACKETS, meters[2]), (RECEIVED_BITS, meters[3]))
        yield from _meter_flows(received, steps, None, RECEIVED, grant)


def _meters(ofport: int, limits: PortLimits, grant: Grant) -> tuple[of.RateLimit | None, ...]:
    """Return the limits of packets and bits that are sent, and then of those received."""
    found: list[of.RateLimit | None] = []
    for direction in (Direction.EGRESS, Direction.INGRESS):
        for kind, rates in ((of.PacketLimit, limits.packets), (of.BitLimit, limits.bits)):
            meter = grant.meters[len(found)] + ofport
            rate: Rate | None = rates.get(direction)
            found.append(None if rate is None else kind(meter, rate.rate, rate.burst))
    return tuple(found)


def _meter_flows(
    match: of.Match,
    steps: tuple[tuple[str, of.RateLimit | None], ...],
    last: str | None,
    hooked: str,
    grant: Grant,
) -> Iterator[of.Flow]:
    """Yield a flow for each of *steps*, with or without a limit; then comes the table *last*, or
    what follows the table *hooked*."""
    tables = [grant.tables[name].number for name, _ in steps]
    end = _onward(hooked, grant) if last is None else of.goto(grant.tables[last].number)
    following = [*map(of.goto, tables[1:]), end]
    for table, (_, limit), onward in zip(tables, steps, following, strict=True):
        actions = (onward,) if limit is None else (of.limited(limit), onward)
        yield _flow(grant, table, match, *actions)


def _mark_flows(match: of.Match, dscp: int, grant: Grant) -> Iterator[of.Flow]:
    table, onward = grant.tables[SENT_MARKS].number, _onward(SENT_PACKETS, grant)
    yield _flow(grant, table, match, onward, priority=_PRIORITY - 1)
    for family in (of.ipv4(), of.ipv6()):
        yield _flow(grant, table, match & family, of.set_field("ip_dscp", dscp), onward)


def _copy_flows(match: of.Match, mac: Mac, grant: Grant) -> Iterator[of.Flow]:
    table, limited = grant.tables[RECEIVED].number, grant.tables[RECEIVED_PACKETS].number
    yield _flow(grant, table, match & of.eth_dst(mac), of.goto(limited))
    for family in (of.ipv4(), of.ipv6()):
        copy = of.ct(table=limited, zone=_ZONE)
        yield _flow(grant, table, match & family, copy, priority=_PRIORITY - 1)


def _onward(hooked: str, grant: Grant) -> of.Resubmit:
    then = grant.tables[hooked].then
    assert then is not None  # every hook but DROPPED has a next table
    return of.goto(then)


def _flow(
    grant: Grant, table: int, match: of.Match, *actions: of.Action, priority: int = _PRIORITY
) -> of.Flow:
    limits = [each.limit for each in actions if isinstance(each, of.Meter)]
    digest = crc32(repr(limits).encode()) if limits else 0
    return of.Flow(
        table=table,
        priority=priority,
        match=match,
        actions=actions,
        cookie=grant.cookie | digest,
    )
