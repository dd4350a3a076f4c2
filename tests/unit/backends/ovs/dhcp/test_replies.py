"""Replies of distributed DHCP, from a frame and the bytes of a flow."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address, ip_interface

import pytest
from attrs import evolve

from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import link_local
from netfw.model.values.dhcp_option import DhcpOption
from netfw_drivers.ovs.dhcp.plan.dhcp4 import DISCOVER, INFORM, REQUEST
from netfw_drivers.ovs.dhcp.plan.dhcp6 import Message6
from netfw_drivers.ovs.dhcp.plan.frames import internet_checksum, parse_icmpv6
from netfw_drivers.ovs.dhcp.plan.leases import (
    Leases4,
    Leases6,
    PortAdvertisement,
    decode_answers,
    decode_options4,
    decode_options6,
    encode_answers,
    octets,
)
from netfw_drivers.ovs.dhcp.plan.offers import LeaseTimes, make_answers
from netfw_drivers.ovs.dhcp.plan.replies import make_reply
from tests.unit.backends.ovs.dhcp.samples import (
    CLIENT,
    DUID,
    PORT,
    SERVED,
    SERVER,
    SERVER_DUID,
    SUBNET,
    SUBNET6,
    request4,
    request6,
    solicitation,
)

pytestmark = pytest.mark.spec("DHCP-81")
OFFER, ACK, NAK = b"\2", b"\5", b"\6"
TYPE, SERVER_ID, REQUESTED, MAX_SIZE, IPXE = 53, 54, 50, 57, 175
IA = b"\0\0\0\7" + bytes(8)


def userdata(kind: type, port=PORT, network=SERVED) -> bytes:
    answers = make_answers(port, network, LeaseTimes())
    return encode_answers(next(each for each in answers if isinstance(each, kind)))


def replied4(frame: bytes, data: bytes | None = None) -> tuple[bytes, str, dict[int, bytes]] | None:
    """Return the address that a client gets, the destination of the reply, and its options."""
    reply = make_reply(frame, userdata(Leases4) if data is None else data)
    if reply is None:
        return None
    assert internet_checksum(reply[14:34]) == 0
    pseudo = reply[26:34] + b"\0\x11" + reply[38:40]
    assert internet_checksum(pseudo + reply[34:]) == 0
    assert reply[6:12] == octets(SERVER)
    destination = str(IPv4Address(reply[30:34]))
    assert reply[:6] == (b"\xff" * 6 if destination == "255.255.255.255" else octets(CLIENT))
    message = reply[42:]
    return message[16:20], destination, dict(decode_options4(message[240:]))


def replied6(frame: bytes, data: bytes | None = None) -> tuple[int, dict[int, bytes]] | None:
    """Return the type of the reply and its options."""
    reply = make_reply(frame, userdata(Leases6) if data is None else data)
    if reply is None:
        return None
    pseudo = reply[22:54] + bytes(2) + reply[58:60] + b"\0\0\0\x11"
    assert internet_checksum(pseudo + reply[54:]) == 0
    assert IPv6Address(reply[38:54]) == IPv6Address("fe80::9")
    assert IPv6Address(reply[22:38]) == link_local(SERVER)
    message = reply[62:]
    assert message[1:4] == b"abc"
    return message[0], dict(decode_options6(message[4:]))


def test_a_new_client_is_offered_its_address_with_all_options() -> None:
    address, destination, options = replied4(request4(DISCOVER))
    assert (str(IPv4Address(address)), destination) == ("10.0.0.11", "10.0.0.11")
    assert options == {
        TYPE: OFFER,
        SERVER_ID: IPv4Address("10.0.0.2").packed,
        1: b"\xff\xff\xff\0",
        3: IPv4Address("10.0.0.1").packed,
        6: IPv4Address("192.0.2.53").packed,
        12: b"web",
        15: b"example.org",
        26: (1400).to_bytes(2, "big"),
        28: IPv4Address("10.0.0.255").packed,
        51: (86400).to_bytes(4, "big"),
        58: (43200).to_bytes(4, "big"),
        59: (75600).to_bytes(4, "big"),
        121: bytes.fromhex("18c63364" "0a000009" "00" "0a000001"),
        249: bytes.fromhex("18c63364" "0a000009" "00" "0a000001"),
    }  # fmt: skip


def test_a_client_without_address_is_answered_by_broadcast_on_request() -> None:
    _, destination, _ = replied4(request4(DISCOVER, flags=0x8000))
    assert destination == "255.255.255.255"


@pytest.mark.parametrize(
    ("frame", "kind", "destination"),
    [
        (request4(REQUEST, {REQUESTED: b"\n\0\0\x0b", SERVER_ID: b"\n\0\0\2"}), ACK, "10.0.0.11"),
        (request4(REQUEST, {REQUESTED: b"\n\0\0\x0b"}), ACK, "10.0.0.11"),
        (request4(REQUEST, address="10.0.0.11"), ACK, "10.0.0.11"),
        (request4(REQUEST, {REQUESTED: b"\n\0\0\x0c"}), NAK, "255.255.255.255"),
        (request4(REQUEST, address="10.0.0.12"), NAK, "255.255.255.255"),
    ],
)
def test_requests_are_granted_or_refused(frame: bytes, kind: bytes, destination: str) -> None:
    address, sent_to, options = replied4(frame)
    assert (options[TYPE], sent_to) == (kind, destination)
    assert address == (b"\n\0\0\x0b" if kind == ACK else bytes(4))
    if kind == NAK:
        assert options.keys() == {TYPE, SERVER_ID}


def test_a_client_that_has_its_address_gets_options_alone() -> None:
    address, destination, options = replied4(request4(INFORM, address="10.0.0.77"))
    assert (address, destination) == (bytes(4), "10.0.0.77")
    assert options[TYPE] == ACK
    assert not options.keys() & {51, 58, 59}


@pytest.mark.parametrize(
    "frame",
    [
        request4(DISCOVER, mac="fa:16:3e:00:00:99"),
        request4(DISCOVER, relay="10.0.0.5"),
        request4(REQUEST, {REQUESTED: b"\n\0\0\x0b", SERVER_ID: b"\n\0\0\3"}),
        request4(4, {REQUESTED: b"\n\0\0\x0b", SERVER_ID: b"\n\0\0\2"}),
        request4(7, address="10.0.0.11"),
        request4(INFORM),
    ],
    ids=["another MAC", "relayed", "another server", "decline", "release", "inform from nowhere"],
)
def test_others_get_no_reply(frame: bytes) -> None:
    assert replied4(frame) is None


def test_options_that_do_not_fit_are_left_out_and_requested_ones_come_first() -> None:
    long = tuple(DhcpOption(name=str(number), value="x" * 200) for number in (224, 225, 226))
    data = userdata(Leases4, evolve(PORT, options=long))
    assert replied4(request4(DISCOVER), data)[2].keys() & {224, 225, 226} == {224}
    wanted = {55: bytes((226,))}
    assert replied4(request4(DISCOVER, wanted), data)[2].keys() & {224, 225, 226} == {226}
    wide = {MAX_SIZE: (1500).to_bytes(2, "big")}
    assert replied4(request4(DISCOVER, wide), data)[2].keys() >= {224, 225, 226}


def test_a_reply_is_no_larger_than_the_mtu_of_the_network_whatever_the_client_states() -> None:
    long = tuple(DhcpOption(name=str(number), value="x" * 50) for number in range(224, 254))
    data = userdata(Leases4, evolve(PORT, options=long))
    reply = make_reply(request4(DISCOVER, {MAX_SIZE: (1500).to_bytes(2, "big")}), data)
    assert reply is not None
    assert 1300 < len(reply) - 14 <= SERVED.mtu


def test_ipxe_has_options_of_its_own_and_a_boot_server_is_in_the_header() -> None:
    options = (
        DhcpOption(name="tag:ipxe,bootfile-name", value="script"),
        DhcpOption(name="tag:!ipxe,bootfile-name", value="loader"),
        DhcpOption(name="server-ip-address", value="192.0.2.7"),
    )
    data = userdata(Leases4, evolve(PORT, options=options))
    assert replied4(request4(DISCOVER), data)[2][67] == b"loader"
    assert replied4(request4(DISCOVER, {IPXE: b"\1"}), data)[2][67] == b"script"
    reply = make_reply(request4(DISCOVER), data)
    assert reply is not None
    assert reply[42 + 20 : 42 + 24] == IPv4Address("192.0.2.7").packed


def test_a_port_without_an_address_with_dhcp_has_no_answers() -> None:
    assert (
        list(make_answers(evolve(PORT, fixed_ips=()), evolve(SERVED, subnets=()), LeaseTimes()))
        == []
    )
    off = evolve(SERVED, subnets=(evolve(SUBNET, enable_dhcp=False),))
    assert list(make_answers(PORT, off, LeaseTimes())) == []


def test_a_server_without_an_address_on_the_subnet_offers_none_of_it() -> None:
    elsewhere = evolve(SERVED, server=evolve(SERVED.server, addresses=()))
    kinds = {type(each) for each in make_answers(PORT, elsewhere, LeaseTimes())}
    assert Leases4 not in kinds


@pytest.mark.parametrize("kind", [Leases4, Leases6, PortAdvertisement])
def test_answers_are_the_same_after_the_switch_has_carried_them(kind: type) -> None:
    (answers,) = (each for each in make_answers(PORT, SERVED, LeaseTimes()) if type(each) is kind)
    assert decode_answers(encode_answers(answers)) == answers


def test_a_solicit_is_answered_by_an_advertise_and_a_request_by_a_reply() -> None:
    kind, options = replied6(request6(Message6.SOLICIT, (1, DUID), (3, IA)))
    assert kind == Message6.ADVERTISE
    assert (options[1], options[2], options[7]) == (DUID, SERVER_DUID, b"\xff")
    assert options[23] == IPv6Address("2001:db8::53").packed
    assert options[24] == b"\x07example\x03org\0"
    address = dict(decode_options6(options[3][12:]))[5]
    assert (IPv6Address(address[:16]), options[3][:4]) == (IPv6Address("fd00::11"), b"\0\0\0\7")
    kind, options = replied6(request6(Message6.REQUEST, (1, DUID), (2, SERVER_DUID), (3, IA)))
    assert kind == Message6.REPLY
    assert dict(decode_options6(options[3][12:]))[5] == address


def test_options_of_dhcpv6_that_do_not_fit_are_left_out_and_requested_ones_come_first() -> None:
    numbers = range(200, 208)
    long = tuple(DhcpOption(name=str(each), value="x" * 200, ip_version=6) for each in numbers)
    data = userdata(Leases6, evolve(PORT, options=long))
    request = (1, DUID), (3, IA)
    reply = make_reply(request6(Message6.SOLICIT, *request), data)
    assert reply is not None
    assert len(reply) - 14 <= 1280, "every link carries it"
    assert replied6(request6(Message6.SOLICIT, *request), data)[1].keys() >= {3, 23, 24, 200, 203}
    wanted = request6(Message6.SOLICIT, *request, (6, b"\0\xcf\0\xce\0"))
    assert replied6(wanted, data)[1].keys() >= {3, 206, 207}


def test_rapid_commit_is_one_exchange() -> None:
    kind, options = replied6(request6(Message6.SOLICIT, (1, DUID), (3, IA), (14, b"")))
    assert kind == Message6.REPLY
    assert 14 in options


def test_addresses_that_are_not_the_ports_end_at_once() -> None:
    former = IPv6Address("fd00::99").packed + bytes(8)
    ia = IA + b"\0\5\0\x18" + former
    _, options = replied6(request6(Message6.RENEW, (1, DUID), (2, SERVER_DUID), (3, ia)))
    given = [value for code, value in decode_options6(options[3][12:]) if code == 5]
    seconds = {IPv6Address(each[:16]): int.from_bytes(each[20:24], "big") for each in given}
    assert seconds == {IPv6Address("fd00::11"): 86400, IPv6Address("fd00::99"): 0}


@pytest.mark.parametrize(("address", "status"), [("fd00::11", 0), ("fd00::99", 4)])
def test_a_client_that_moved_learns_whether_its_address_is_right(address: str, status: int) -> None:
    ia = IA + b"\0\5\0\x18" + IPv6Address(address).packed + bytes(8)
    _, options = replied6(request6(Message6.CONFIRM, (1, DUID), (3, ia)))
    assert int.from_bytes(options[13], "big") == status


@pytest.mark.parametrize(
    "frame",
    [
        request6(Message6.SOLICIT, (3, IA)),
        request6(Message6.SOLICIT, (1, DUID), (2, SERVER_DUID), (3, IA)),
        request6(Message6.REQUEST, (1, DUID), (3, IA)),
        request6(Message6.REQUEST, (1, DUID), (2, DUID), (3, IA)),
        request6(Message6.SOLICIT, (1, DUID), (3, IA), mac="fa:16:3e:00:00:99"),
        request6(12, (1, DUID)),
    ],
    ids=["nameless", "to a server", "to none", "to another", "another MAC", "relayed"],
)
def test_other_messages_of_dhcpv6_get_no_reply(frame: bytes) -> None:
    assert replied6(frame) is None


def test_without_addresses_only_options_are_given() -> None:
    modes = {"ipv6_address_mode": Ipv6Mode.STATELESS, "ipv6_ra_mode": Ipv6Mode.STATELESS}
    network = evolve(SERVED, subnets=(SUBNET, evolve(SUBNET6, **modes)))
    data = userdata(Leases6, network=network)
    assert replied6(request6(Message6.SOLICIT, (1, DUID), (3, IA)), data) is None
    kind, options = replied6(request6(Message6.INFORMATION_REQUEST), data)
    assert (kind, options[23]) == (Message6.REPLY, IPv6Address("2001:db8::53").packed)


@pytest.mark.parametrize(
    ("mode", "flags", "prefix_flags"),
    [
        (Ipv6Mode.STATEFUL, 0xC0, 0x80),
        (Ipv6Mode.STATELESS, 0x40, 0xC0),
        (Ipv6Mode.SLAAC, 0, 0xC0),
    ],
)
def test_solicitations_are_answered_by_the_mode(
    mode: Ipv6Mode, flags: int, prefix_flags: int
) -> None:
    subnet = evolve(SUBNET6, ipv6_address_mode=mode, ipv6_ra_mode=mode)
    data = userdata(PortAdvertisement, network=evolve(SERVED, subnets=(SUBNET, subnet)))
    reply = make_reply(solicitation(), data)
    message = parse_icmpv6(reply).payload
    pseudo = reply[22:54] + len(message).to_bytes(4, "big") + b"\0\0\0\x3a"
    assert internet_checksum(pseudo + message) == 0
    assert (message[0], message[5], message[6:8]) == (134, flags, b"\0\0"), "it is no router"
    prefix = message[message.index(b"\x03\x04\x40") :]
    assert (prefix[3], prefix[16:32]) == (prefix_flags, IPv6Address("fd00::").packed)
    assert IPv6Address(reply[38:54]) == IPv6Address("fe80::9")
    anonymous = make_reply(solicitation("::"), data)
    assert IPv6Address(anonymous[38:54]) == IPv6Address("ff02::1")


def test_nothing_is_advertised_where_a_router_from_outside_does() -> None:
    network = evolve(SERVED, subnets=(evolve(SUBNET6, ipv6_ra_mode=None),))
    kinds = {type(each) for each in make_answers(PORT, network, LeaseTimes())}
    assert kinds == {Leases6}


def test_a_port_with_two_subnets_has_a_lease_of_each() -> None:
    other = evolve(SUBNET, id=SUBNET6.id, cidr="10.1.0.0/24", gateway=None, host_routes=())
    addresses = (*SERVED.server.addresses[:1], ip_interface("10.1.0.2/24"))
    network = evolve(
        SERVED, subnets=(SUBNET, other), server=evolve(SERVED.server, addresses=addresses)
    )
    fixed = (*PORT.fixed_ips[:1], FixedIp(subnet_id=other.id, address="10.1.0.11"))
    data = userdata(Leases4, evolve(PORT, fixed_ips=fixed), network)
    address, _, options = replied4(request4(REQUEST, {REQUESTED: b"\n\1\0\x0b"}), data)
    assert (address, options[SERVER_ID]) == (b"\n\1\0\x0b", b"\n\1\0\2")


def test_no_bytes_of_a_client_raise() -> None:
    """Cut and change requests in all ways."""
    chance = random.Random(7)
    frames = {
        Leases4: request4(DISCOVER, {REQUESTED: b"\n\0\0\x0b", 55: b"\1\3\6"}),
        Leases6: request6(Message6.SOLICIT, (1, DUID), (3, IA)),
        PortAdvertisement: solicitation(),
    }
    for kind, frame in frames.items():
        data = userdata(kind)
        for length in range(len(frame)):
            make_reply(frame[:length], data)
        for _ in range(2000):
            changed = bytearray(frame)
            for _ in range(chance.randint(1, 8)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            make_reply(bytes(changed), data)
    for data in (b"", b"\4", bytes(40), b"\6" + bytes(13)):
        assert make_reply(frames[Leases4], data) is None
