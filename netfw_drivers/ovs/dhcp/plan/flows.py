"""Flows by which the requests of a port reach the agent, with the answers.  Pure.

Each flow names the port that a packet comes in by and its MAC address.  Requests that are not for
this server go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from typing import Final

from netfw import flows as of
from netfw.drivers.values.pipeline_grant import Grant, TableGrant
from netfw.errors import InvalidInput
from netfw.model.values.address import Mac
from netfw_drivers.ovs.dhcp.plan.frames import BROADCAST
from netfw_drivers.ovs.dhcp.plan.leases import (
    Answers,
    Leases4,
    Leases6,
    PortAdvertisement,
    encode_answers,
)

TABLE: Final = "requests"
CONTROLLER_ID: Final = 0x6468
"""The number under which the agent receives requests, and no other controller does."""
MAX_OCTETS: Final = 32768
"""Limit of what a flow carries: a message of OpenFlow has at most 65,535 octets, and one with a
request has the request, too."""
RATE, BURST = 5, 20
"""Requests of a port that reach the agent: each second, and at once.  A client that boots sends
about five, of both families."""
_PRIORITY: Final = 100
_SERVERS6: Final = "ff02::1:2"
_ARP_REQUEST: Final = 1
_SOLICITATION: Final = 133


def port_flows(ofport: int, answers: Iterable[Answers], grant: Grant) -> Iterator[of.Flow]:
    """Yield the flows of the port *ofport* for *answers*.

    :raises InvalidInput: the options of the port are too long for a flow.
    """
    table = grant.tables[TABLE]
    limit = of.PacketLimit(grant.meters[0] + ofport, RATE, BURST)
    for each in answers:
        from_port = of.in_port(ofport) & of.eth_src(each.client)
        to_agent = of.controller(controller_id=CONTROLLER_ID, userdata=_userdata(each), limit=limit)
        match each:
            case Leases4():
                request = from_port & of.udp() & of.udp_dst(67)
                servers = sorted({lease.server for lease in each.leases})
                for address in (BROADCAST, *servers):
                    yield _flow(grant, request & of.ipv4_dst(address), to_agent)
                for address in servers:
                    yield _arp_reply(grant, ofport, each.server, address)
            case Leases6():
                request = from_port & of.udp6() & of.udp_dst(547) & of.ipv6_dst(_SERVERS6)
                yield _flow(grant, request, to_agent)
            case PortAdvertisement():
                solicitation = from_port & of.icmpv6() & of.icmpv6_type(_SOLICITATION)
                yield _flow(grant, solicitation, to_agent, _onward(table))


def _userdata(answers: Answers) -> bytes:
    data = encode_answers(answers)
    if len(data) > MAX_OCTETS:
        text = f"{len(data)} octets with those of all addresses; a flow carries {MAX_OCTETS}"
        raise InvalidInput({"options": text})
    return data


def _onward(table: TableGrant) -> of.Action:
    assert table.then is not None  # every hook but DROPPED has a next table
    return of.goto(table.then)


def _arp_reply(grant: Grant, ofport: int, mac: Mac, address: IPv4Address) -> of.Flow:
    """Return the flow that answers requests for the server, to which clients send renewals."""
    request = of.in_port(ofport) & of.arp() & of.arp_op(_ARP_REQUEST) & of.arp_tpa(address)
    return _flow(grant, request, *of.arp_reply(mac, address))


def _flow(grant: Grant, match: of.Match, *actions: of.Action) -> of.Flow:
    return of.Flow(
        table=grant.tables[TABLE].number,
        priority=_PRIORITY,
        match=match,
        actions=actions,
        cookie=grant.cookie,
    )
