"""The flows of ``br-tun``.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address

from netfw import flows as of
from netfw.flows.field import ADVERTISEMENT, SOLICITATION
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress, Mac
from netfw_drivers.ovs.pipeline.tables import COOKIE, LEARNT
from netfw_drivers.ovs.pipeline.tunnel_tables import (
    ACTIVE,
    BY_ACTIVE,
    BY_LEARNING,
    CONFIRM_ACTIVE,
    CONFIRMED,
    FLOOD,
    FROM_TUNNEL,
    KIND,
    KINDS,
    KNOWN,
    KNOWN_ACTIVE,
    KNOWN_SENDER,
    LEARN,
    LEARN_ACTIVE,
    LEARN_SENDER,
    LEARNS,
    NEIGHBOUR,
    PATCH_TO_TUNNEL,
    RESPONDER,
    SENT,
    SHARED_SOURCE,
    TUNNEL_INPUT,
    TUNNELS,
    UNICAST,
    VIA,
)

LEARNT_FOR = 300
"""Seconds that a sender's tunnel is remembered."""
ACTIVE_FOR = 60
"""Seconds that a host is known as the active one, unless another announces itself."""
CONFIRMED_FOR = 3
"""Seconds after a frame of the active host in which frames are sent to that host only.

It limits the outage when no announcement of the next active host arrives.  A switch counts frames
and expires flows about once a second: a flow is gone before the dead interval ends (three
advertisements, of 2 s unless configured otherwise), and a crash costs no more than with copies.
"""
LEARNT_AT_MOST = 1024
"""Senders of one network whose tunnels are remembered.

The switch counts them for each new one, in time that grows with their number.
"""
_GROUP = "01:00:00:00:00:00/01:00:00:00:00:00"
_ALL = "ff:ff:ff:ff:ff:ff"
_REQUEST, _REPLY = 1, 2
_NO_CONTROLLER = 0xFFFF
"""The id of a controller that no connection has."""
_SOLICITED_OVERRIDE = 0x60000000
_TARGET_ADDRESS = 2
"""The option of an advertisement that carries the MAC of the address."""


def base_flows(to_host: int, *, responder: bool) -> Iterator[of.Flow]:
    """Yield the flows that exist before any network; *to_host* is the patch to ``br-int``."""
    yield from TUNNELS.miss_flows(COOKIE)
    yield TUNNEL_INPUT.flow(
        of.in_port(to_host), of.goto(PATCH_TO_TUNNEL), priority=1, cookie=COOKIE
    )
    yield PATCH_TO_TUNNEL.flow(of.eth_dst(_GROUP), of.goto(FLOOD), priority=2, cookie=COOKIE)
    if responder:
        question = of.arp() & of.arp_op(_REQUEST) & of.eth_dst(_ALL)
        yield PATCH_TO_TUNNEL.flow(question, of.goto(RESPONDER), priority=3, cookie=COOKIE)
        yield from _neighbour_base()
    learn = of.goto(KNOWN_SENDER), of.goto(LEARN_SENDER)
    yield LEARN.flow(LEARNS.is_(1), *learn, of.output(to_host), priority=2, cookie=COOKIE)
    yield LEARN.flow(of.ANYTHING, of.output(to_host), priority=1, cookie=COOKIE)
    yield BY_LEARNING.flow(VIA.is_(SENT), of.drop(), priority=2, cookie=COOKIE)
    yield from _active_base()


def _active_base() -> Iterator[of.Flow]:
    """Yield the flows that learn the active host from a frame of a shared MAC address.

    Frames that announce nothing change nothing while a host is known: the switch learns from cached
    flows when it counts their packets, and counts those of the former active host up to a second
    after they came, which may be after the announcement of the new one.
    """
    neighbour = of.icmpv6() & of.icmpv6_type(ADVERTISEMENT) & of.icmpv6_code(0)
    for announcement, changed, value in (
        # keepalived fills the target's MAC; a request for a neighbour's address has none.
        (of.arp() & of.arp_op(_REQUEST) & of.arp_tha(_ALL), "arp_op", _REQUEST),
        (of.arp() & of.arp_op(_REPLY), "arp_op", _REPLY),
        (neighbour, "icmpv6_code", 0),
    ):
        yield LEARN_ACTIVE.flow(
            announcement & of.eth_dst(_GROUP),
            *_learn_active(),
            *_not_cached(changed, value),
            priority=3,
            cookie=COOKIE,
        )
    yield LEARN_ACTIVE.flow(ACTIVE.is_(0), *_learn_active(), priority=2, cookie=COOKIE)
    yield LEARN_ACTIVE.flow(of.ANYTHING, _learn_confirmed(), priority=1, cookie=COOKIE)


def _not_cached(changed: str, value: int) -> Iterator[of.Load | of.SendToController]:
    """Yield actions that make the switch translate every packet, and so learn from it at once.

    Datapaths cannot change these fields, so that ``ovs-vswitchd`` executes the actions itself.  The
    packet is sent to no one in between: without that, the two changes would cancel each other.
    """
    yield of.load(of.FIELD[changed], value + 1)
    yield of.controller(0, controller_id=_NO_CONTROLLER)
    yield of.load(of.FIELD[changed], value)


def _learn_active() -> Iterator[of.Learn]:
    """Yield the actions that learn the tunnel of the active host: for its frames, and to send."""
    for table, mac in ((KNOWN_ACTIVE, "eth_src"), (BY_ACTIVE, "eth_dst")):
        yield of.learn(
            table.number,
            of.learn_match(KIND),
            of.learn_match(of.FIELD["tun_id"]),
            of.learn_match(of.FIELD[mac], of.FIELD["eth_src"]),
            of.learn_load(ACTIVE, of.Bits(of.FIELD["in_port"], 0, 15)),
            priority=1,
            cookie=LEARNT,
            hard_timeout=ACTIVE_FOR,
        )
    yield _learn_confirmed()


def _learn_confirmed() -> of.Learn:
    """Return the action that learns that the host of a tunnel sends; of other tunnels, nothing."""
    tunnel = of.Bits(of.FIELD["in_port"], 0, 15)
    return of.learn(
        CONFIRM_ACTIVE.number,
        of.learn_match(KIND),
        of.learn_match(of.FIELD["tun_id"]),
        of.learn_match(of.FIELD["eth_dst"], of.FIELD["eth_src"]),
        of.learn_match(ACTIVE, tunnel),
        of.learn_load(CONFIRMED, tunnel),
        priority=1,
        cookie=LEARNT,
        hard_timeout=CONFIRMED_FOR,
    )


def tunnel_flows(number: int, kind: NetworkType, *, learns: bool) -> Iterator[of.Flow]:
    """Yield the flows that accept packets from the tunnel at port *number*."""
    yield TUNNEL_INPUT.flow(
        of.in_port(number),
        of.load(LEARNS, int(learns)),
        of.load(KIND, KINDS[kind]),
        of.goto(FROM_TUNNEL[kind]),
        priority=1,
        cookie=COOKIE,
    )
    if learns:
        yield BY_LEARNING.flow(
            VIA.is_(number) & of.tagged(),
            of.PopVlan(),
            of.output(number),
            priority=1,
            cookie=COOKIE,
        )


def network_flows(
    vlan: int, kind: NetworkType, number: int, outputs: Iterable[int]
) -> Iterator[of.Flow]:
    """Yield the flows that map a local *vlan* to the tunnel id *number* of *kind*."""
    yield FROM_TUNNEL[kind].flow(
        of.tun_id(number),
        of.PushVlan(),
        of.set_vlan(vlan),
        of.goto(SHARED_SOURCE),
        of.goto(LEARN),
        priority=1,
        cookie=COOKIE,
    )
    yield PATCH_TO_TUNNEL.flow(
        of.vlan(vlan),
        of.set_tunnel(number),
        of.load(KIND, KINDS[kind]),
        of.goto(BY_ACTIVE),
        of.goto(CONFIRM_ACTIVE),
        of.goto(UNICAST),
        of.goto(BY_LEARNING),
        priority=1,
        cookie=COOKIE,
    )
    yield from _learning(vlan, LEARNT | KINDS[kind] << 32 | number)
    ports = sorted(outputs)
    if ports:
        yield FLOOD.flow(
            of.vlan(vlan),
            of.PopVlan(),
            of.set_tunnel(number),
            *map(of.output, ports),
            priority=1,
            cookie=COOKIE,
        )


def _learning(vlan: int, cookie: int) -> Iterator[of.Flow]:
    """Yield the flows that learn the senders of a network; *cookie* is that of learned flows.

    Unknown ones are learned up to a limit, which the switch counts by table and cookie: otherwise
    instances could fill the table with invented senders.  A frame does not tell the port of its
    sender; the share of one port is limited on that port's host (`mac_limit`).  Frames for a
    receiver that is not learned are flooded.  Known ones are learned without a limit, which would
    refuse the change of a flow, too: a sender that moves to another host would be sought on the
    former one.
    """
    for match, priority, limit in ((KNOWN.is_(1), 2, 0), (of.ANYTHING, 1, LEARNT_AT_MOST)):
        actions = _learn_sender(cookie, limit)
        yield LEARN_SENDER.flow(of.vlan(vlan) & match, *actions, priority=priority, cookie=COOKIE)


def _learn_sender(cookie: int, limit: int) -> Iterator[of.Learn]:
    """Yield the actions that learn that the sender is known, and its tunnel.

    A learned flow outlives what it was learned from, so it names neither local VLAN nor action,
    only the tunnel: other flows decide whether the network is on this host and the tunnel still
    in the mesh.
    """
    sender, tunnel = of.FIELD["eth_src"], of.Bits(of.FIELD["in_port"], 0, 15)
    for table, mac, result in (
        (KNOWN_SENDER, of.learn_match(sender), of.learn_load(KNOWN, 1)),
        (UNICAST, of.learn_match(of.FIELD["eth_dst"], sender), of.learn_load(VIA, tunnel)),
    ):
        yield of.learn(
            table.number,
            of.learn_match(KIND),
            of.learn_match(of.FIELD["tun_id"]),
            mac,
            result,
            priority=1,
            cookie=cookie,
            hard_timeout=LEARNT_FOR,
            limit=limit,
        )


def forwarding_flows(
    vlan: int, number: int, mac: Mac, tunnels: Iterable[int], addresses: Iterable[IpAddress]
) -> Iterator[of.Flow]:
    """Yield the flows that send to *mac* by *tunnels*, and answer for its *addresses* here."""
    ports = sorted(tunnels)
    towards = of.vlan(vlan) & of.eth_dst(mac)
    yield _send(towards, number, ports, priority=2)
    if len(ports) > 1:
        for port in ports:
            yield _send(towards & CONFIRMED.is_(port), number, [port], priority=3)
            # By the tunnel id, which the switch compares before MACs: on networks without shared
            # ones, cached flows stay the same for all senders.
            yield SHARED_SOURCE.flow(
                of.in_port(port) & of.tun_id(number) & of.eth_src(mac),
                of.goto(KNOWN_ACTIVE),
                of.goto(LEARN_ACTIVE),
                priority=1,
                cookie=COOKIE,
            )
    for address in addresses:
        if isinstance(address, IPv4Address):
            yield _arp_answer(vlan, mac, address)
        else:
            yield _neighbour_answer(vlan, mac, address)


def _send(towards: of.Match, number: int, ports: Iterable[int], *, priority: int) -> of.Flow:
    """Return the flow that sends into the tunnels at *ports*, with the tunnel id *number*."""
    return UNICAST.flow(
        towards,
        of.load(VIA, SENT),
        of.PopVlan(),
        of.set_tunnel(number),
        *map(of.output, ports),
        priority=priority,
        cookie=COOKIE,
    )


def host_flows(mac: Mac, tunnels: Iterable[tuple[NetworkType, int]]) -> Iterator[of.Flow]:
    """Yield the flows that send to the *mac* of a host with distributed routers, by its tunnels.

    That is the same on all networks: their tunnel ids are set before.
    """
    for kind, port in tunnels:
        yield UNICAST.flow(
            of.tagged() & KIND.is_(KINDS[kind]) & of.eth_dst(mac),
            of.load(VIA, SENT),
            of.PopVlan(),
            of.output(port),
            priority=2,
            cookie=COOKIE,
        )


def _pass_on(vlan: int, mac: Mac) -> Iterator[of.Action]:
    """Yield the actions that send a request to *mac* too, and restore it for the answer.

    The receiver of a request updates its own entry of the sender.  Without that it would send to
    the former MAC of an address that moved, until the entry has aged.
    """
    yield from (of.set_field("eth_dst", mac), of.goto(UNICAST), of.PushVlan(), of.set_vlan(vlan))


def _arp_answer(vlan: int, mac: Mac, address: IPv4Address) -> of.Flow:
    question = of.vlan(vlan) & of.arp() & of.arp_op(_REQUEST) & of.arp_tpa(address)
    return RESPONDER.flow(
        question,
        *_pass_on(vlan, mac),
        *of.arp_reply(mac, address),
        priority=1,
        cookie=COOKIE,
    )


def _neighbour_base() -> Iterator[of.Flow]:
    """Yield the flows that lead a neighbour solicitation to its answer."""
    solicitation = of.icmpv6() & of.icmpv6_type(SOLICITATION)
    yield PATCH_TO_TUNNEL.flow(
        solicitation & of.eth_dst(_GROUP), of.goto(RESPONDER), priority=3, cookie=COOKIE
    )
    # Duplicate address detection: the owner of the address answers to all.
    probe = solicitation & of.ipv6_src(IPv6Address(0))
    yield RESPONDER.flow(probe, of.goto(FLOOD), priority=2, cookie=COOKIE)
    # The option with the address can be named only when the packet is an advertisement.
    yield NEIGHBOUR.flow(
        of.icmpv6() & of.icmpv6_type(ADVERTISEMENT),
        of.move(of.FIELD["eth_src"], of.FIELD["nd_tll"]),
        of.back(),
        priority=1,
        cookie=COOKIE,
    )


def _neighbour_answer(vlan: int, mac: Mac, address: IPv6Address) -> of.Flow:
    question = of.vlan(vlan) & of.icmpv6() & of.icmpv6_type(SOLICITATION) & of.nd_target(address)
    return RESPONDER.flow(
        question,
        *_pass_on(vlan, mac),
        of.move(of.FIELD["eth_src"], of.FIELD["eth_dst"]),
        of.set_field("eth_src", mac),
        of.move(of.FIELD["ipv6_src"], of.FIELD["ipv6_dst"]),
        of.set_field("ipv6_src", address),
        of.set_field("icmpv6_type", ADVERTISEMENT),
        of.load(of.ND_RESERVED, _SOLICITED_OVERRIDE),
        of.load(of.ND_OPTIONS_TYPE, _TARGET_ADDRESS),
        of.goto(NEIGHBOUR),
        priority=1,
        cookie=COOKIE,
    )
