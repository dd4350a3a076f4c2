"""The server's replies, without a network."""

import json
import socket
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_dhcp.offers import offers
from tiny_dhcp.server import ACK, COOKIE, HEADER, NAK, OFFER, Request, make_reply

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort, ServerPort
from netfw.errors import InvalidInput
from netfw.model import FixedIp, NetworkId, PortId, Subnet, SubnetId
from netfw.model.values.address import as_address, as_interface
from netfw.model.values.dhcp_option import DhcpOption

MAC, NETWORK = "fa:16:3e:00:00:05", NetworkId(UUID(int=1))
SUBNET = Subnet(
    id=SubnetId(UUID(int=2)), network_id=NETWORK, cidr="10.0.0.0/24", gateway="10.0.0.1"
)
SERVED = DhcpNetwork(
    server=ServerPort(
        id=PortId(UUID(int=3)), mac="fa:16:3e:00:00:02", addresses=(as_interface("10.0.0.2/24"),)
    ),
    subnets=(SUBNET,),
    mtu=1450,
)
DISCOVER, REQUEST, RELEASE = b"\x01", b"\x03", b"\x07"
REQUESTED, TYPE, SERVER, IPXE = 50, 53, 54, 175


def a_port(**more: Any) -> DhcpPort:
    fixed = FixedIp(subnet_id=SUBNET.id, address=as_address("10.0.0.5"))
    return DhcpPort(**{"network": NETWORK, "mac": MAC, "fixed_ips": (fixed,), **more})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    boot = (
        DhcpOption(name="tag:ipxe,bootfile-name", value="http://boot/menu"),
        DhcpOption(name="bootfile-name", value="undionly.kpxe"),
        DhcpOption(name="server-ip-address", value="10.0.0.7"),
    )
    content = {"mac": MAC, "offers": offers(a_port(options=boot), SERVED, 600)}
    (tmp_path / MAC).write_text(json.dumps(content))
    return tmp_path


def make_request(options: dict[int, bytes], mac: str = MAC, ciaddr: str = "0.0.0.0") -> bytes:
    chaddr, zero = bytes.fromhex(mac.replace(":", "")), bytes(4)
    address = socket.inet_aton(ciaddr)
    head = HEADER.pack(1, 1, 6, 0, 77, 0, 0, address, zero, zero, zero, chaddr, b"", b"", COOKIE)
    coded = b"".join(bytes([n, len(value)]) + value for n, value in options.items())
    return head + b"\0" + coded + b"\xff"


def request(directory: Path, *args: Any, **kwargs: Any) -> tuple[Any, dict[int, bytes], str] | None:
    """Return the header of the reply, its options and its destination."""
    parsed = Request.parse(make_request(*args, **kwargs))
    assert parsed is not None
    reply = make_reply(parsed, directory)
    if reply is None:
        return None
    as_request = b"\x01" + reply[0][1:]
    parsed_reply = Request.parse(as_request)
    assert parsed_reply is not None
    return HEADER.unpack_from(reply[0]), parsed_reply.options, reply[2]


def test_discover_is_offered_the_address_and_options_of_the_port(directory: Path) -> None:
    reply = request(directory, {TYPE: DISCOVER})
    assert reply is not None
    header, options, to = reply
    assert (header[0], header[4]) == (2, 77)
    assert [socket.inet_ntoa(address) for address in header[8:10]] == ["10.0.0.5", "10.0.0.7"]
    assert (options[TYPE], to) == (OFFER, "255.255.255.255")
    assert options[1] == bytes([255, 255, 255, 0])
    assert options[67] == b"undionly.kpxe"
    assert 6 not in options, "there is no name server"


def test_ipxe_gets_the_options_for_ipxe(directory: Path) -> None:
    reply = request(directory, {TYPE: DISCOVER, IPXE: b"\x01"})
    assert reply is not None
    assert reply[1][67] == b"http://boot/menu"


def test_renewal_is_answered_at_the_address_of_the_client(directory: Path) -> None:
    reply = request(directory, {TYPE: REQUEST}, ciaddr="10.0.0.5")
    assert reply is not None
    assert (reply[1][TYPE], reply[2]) == (ACK, "10.0.0.5")


def test_request_for_another_address_is_refused(directory: Path) -> None:
    for requested in ({REQUESTED: socket.inet_aton("10.0.0.6")}, {REQUESTED: b"x"}, {}):
        reply = request(directory, {TYPE: REQUEST, **requested}, ciaddr="10.0.0.9")
        assert reply is not None
        assert (reply[1][TYPE], reply[2]) == (NAK, "255.255.255.255")


def test_unknown_clients_and_requests_to_other_servers_get_no_reply(directory: Path) -> None:
    assert request(directory, {TYPE: DISCOVER}, mac="fa:16:3e:00:00:06") is None
    assert request(directory, {TYPE: REQUEST, SERVER: socket.inet_aton("10.0.0.3")}) is None
    assert request(directory, {TYPE: RELEASE}) is None
    assert request(directory, {}) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=80), st.booleans())
def test_malformed_requests_are_ignored(directory: Path, noise: bytes, headed: bool) -> None:
    parsed = Request.parse(make_request({TYPE: REQUEST})[:-1] + noise if headed else noise)
    if parsed is not None:
        make_reply(parsed, directory)


def test_invalid_options_are_refused_with_their_field() -> None:
    bad = (DhcpOption(name="66", value="x"), DhcpOption(name="mtu", value="much"))
    with pytest.raises(InvalidInput) as caught:
        offers(a_port(options=bad), SERVED, 600)
    assert caught.value.problems.keys() == {"options[1].value"}
