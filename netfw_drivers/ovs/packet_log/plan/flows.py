"""Flows that send packets of logged ports to the agent.  Pure.

Dropped packets are read where they end.  Of accepted packets the first one of a connection is
logged: the switch forgets the state of a packet whose connection it commits, so that it is the one
without a state.  In stateless groups, which have no connections, it is each one.  The meter of the
port limits all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import Grant, PipelineHook, TableRequest
from netfw.model.packet_log import LogEvent, PacketLog
from netfw.model.port import Port
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw_drivers.ovs.packet_log.plan.log_subject import encode_subject, make_subject
from netfw_drivers.ovs.pipeline.tables import PORT, TARGET

TABLES: Final = (
    TableRequest(name="dropped", hook=PipelineHook.DROPPED),
    TableRequest(name="sent", hook=PipelineHook.SENT),
    TableRequest(name="received", hook=PipelineHook.RECEIVED),
)
CONTROLLER_ID: Final = 0x6C67
"""The number under which the agent receives packets to log, and no other controller does."""
MAX_LENGTH: Final = 160
"""Octets of a packet that are sent to the agent: all headers."""
_PRIORITY: Final = 100
_NEW: Final = (of.ct_state("-trk") & of.ipv4(), of.ct_state("-trk") & of.ipv6())


def port_flows(
    port: Port,
    ofport: int,
    logs: Iterable[PacketLog],
    rules: Iterable[SecurityGroupRule],
    *,
    limit: of.PacketLimit,
    grant: Grant,
) -> Iterator[of.Flow]:
    """Yield the flows of a logged port."""
    every, known = tuple(logs), tuple(rules)
    here, there = PORT.is_(ofport) & TARGET.is_(0), TARGET.is_(ofport)
    for action, direction, table, matches in (
        (LogEvent.DROP, Direction.EGRESS, "dropped", (here,)),
        (LogEvent.DROP, Direction.INGRESS, "dropped", (there,)),
        (LogEvent.ACCEPT, Direction.EGRESS, "sent", [here & each for each in _NEW]),
        (LogEvent.ACCEPT, Direction.INGRESS, "received", [there & each for each in _NEW]),
    ):
        if not any(log.event.includes(action) for log in every):
            continue
        subject = make_subject(port, every, known, action, direction)
        to_agent = of.controller(
            MAX_LENGTH,
            controller_id=CONTROLLER_ID,
            userdata=encode_subject(subject),
            limit=limit,
        )
        for match in matches:
            yield _flow(grant, table, match, to_agent, priority=_PRIORITY)
        if direction is Direction.INGRESS:
            own = there & PORT.is_(ofport)  # what it sends to all ports does not come back to it
            yield _flow(grant, table, own, priority=_PRIORITY + 1)


def _flow(grant: Grant, table: str, match: of.Match, *actions: of.Action, priority: int) -> of.Flow:
    then = grant.tables[table].then
    onward = () if then is None else (of.goto(then),)
    return of.Flow(
        table=grant.tables[table].number,
        priority=priority,
        match=match,
        actions=(*actions, *onward),
        cookie=grant.cookie,
    )
