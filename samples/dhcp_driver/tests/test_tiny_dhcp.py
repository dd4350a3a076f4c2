"""The server's answers, without a network."""

import json
import socket
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_dhcp.offers import offers
from tiny_dhcp.server import ACK, COOKIE, HEADER, NAK, OFFER, Question, answer

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort, ServerPort
from netfw.errors import InvalidInput
from netfw.model import FixedIp, NetworkId, PortId, Subnet, SubnetId
from netfw.model.address import as_address, as_interface
from netfw.model.dhcp_option import DhcpOption

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
    said = {"mac": MAC, "offers": offers(a_port(options=boot), SERVED, 600)}
    (tmp_path / MAC).write_text(json.dumps(said))
    return tmp_path


def question(options: dict[int, bytes], mac: str = MAC, ciaddr: str = "0.0.0.0") -> bytes:
    chaddr, zero = bytes.fromhex(mac.replace(":", "")), bytes(4)
    address = socket.inet_aton(ciaddr)
    head = HEADER.pack(1, 1, 6, 0, 77, 0, 0, address, zero, zero, zero, chaddr, b"", b"", COOKIE)
    coded = b"".join(bytes([n, len(value)]) + value for n, value in options.items())
    return head + b"\0" + coded + b"\xff"


def asked(directory: Path, *args: Any, **kwargs: Any) -> tuple[Any, dict[int, bytes], str] | None:
    """The header of an answer, its options, and where it goes."""
    parsed = Question.parse(question(*args, **kwargs))
    assert parsed is not None
    found = answer(parsed, directory)
    if found is None:
        return None
    as_question = b"\x01" + found[0][1:]
    again = Question.parse(as_question)
    assert again is not None
    return HEADER.unpack_from(found[0]), again.options, found[2]


def test_discover_is_offered_the_address_of_the_port(directory: Path) -> None:
    found = asked(directory, {TYPE: DISCOVER})
    assert found is not None
    header, options, to = found
    assert (header[0], header[4]) == (2, 77)
    assert [socket.inet_ntoa(each) for each in header[8:10]] == ["10.0.0.5", "10.0.0.7"]
    assert (options[TYPE], to) == (OFFER, "255.255.255.255")
    assert options[1] == bytes([255, 255, 255, 0])
    assert options[67] == b"undionly.kpxe"
    assert 6 not in options, "there is no name server"


def test_ipxe_client_receives_the_ipxe_options(directory: Path) -> None:
    found = asked(directory, {TYPE: DISCOVER, IPXE: b"\x01"})
    assert found is not None
    assert found[1][67] == b"http://boot/menu"


def test_renewal_is_answered_at_the_address_of_the_client(directory: Path) -> None:
    found = asked(directory, {TYPE: REQUEST}, ciaddr="10.0.0.5")
    assert found is not None
    assert (found[1][TYPE], found[2]) == (ACK, "10.0.0.5")


def test_request_for_a_foreign_address_is_refused(directory: Path) -> None:
    for said in ({REQUESTED: socket.inet_aton("10.0.0.6")}, {REQUESTED: b"x"}, {}):
        found = asked(directory, {TYPE: REQUEST, **said}, ciaddr="10.0.0.9")
        assert found is not None
        assert (found[1][TYPE], found[2]) == (NAK, "255.255.255.255")


def test_strangers_and_questions_to_others_get_no_answer(directory: Path) -> None:
    assert asked(directory, {TYPE: DISCOVER}, mac="fa:16:3e:00:00:06") is None
    assert asked(directory, {TYPE: REQUEST, SERVER: socket.inet_aton("10.0.0.3")}) is None
    assert asked(directory, {TYPE: RELEASE}) is None
    assert asked(directory, {}) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=80), st.booleans())
def test_nonsense_is_survived(directory: Path, noise: bytes, headed: bool) -> None:
    parsed = Question.parse(question({TYPE: REQUEST})[:-1] + noise if headed else noise)
    if parsed is not None:
        answer(parsed, directory)


def test_what_no_client_would_understand_is_refused_by_name() -> None:
    bad = (DhcpOption(name="66", value="x"), DhcpOption(name="mtu", value="much"))
    with pytest.raises(InvalidInput) as caught:
        offers(a_port(options=bad), SERVED, 600)
    assert caught.value.problems.keys() == {"options[1].value"}
