"""Requests of netlink as bytes: compared with those of pyroute2, and decoded again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netfw.linux.ip import netlink_decode, netlink_encode
from netfw.linux.ip.netlink_encode import Lookup, encode
from netfw.linux.ip.netlink_socket import NetlinkError, NetlinkRequest
from netfw.linux.ip.operations import (
    AddAddress,
    AddLinuxBridge,
    AddRoute,
    AddRule,
    AddVeth,
    DelLink,
    MoveLink,
    NetworkOperation,
    SetMac,
    SetMtu,
    SetNeighbour,
    SetSysctl,
    SetUp,
)
from netfw.linux.ip.values import (
    Address,
    FoundAddress,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    RouteKind,
    RuleAction,
    Scope,
    route,
)
from netfw.model.values.address import Mac

INDEXES = {"e0": 7, "e1": 300}
LOOKUP = Lookup(INDEXES.__getitem__, {"blue": 5}.__getitem__)
NAMES: Callable[[int], str | None] = {number: name for name, number in INDEXES.items()}.get
MAC = Mac("fa:16:3e:00:00:01")
HOPS = (
    NextHop(via="10.0.0.1", device="e0"),
    NextHop(via="10.0.0.2", device="e1", weight=3, onlink=True),
    NextHop(device="e0"),
)

PYROUTE2 = [
    (
        AddVeth(name="e0", peer="e1", peer_namespace="blue"),
        (16, 0x600),
        "00000000 00000000 00000000 00000000 07000300 65300000 38001200 09000100 76657468 00000000"
        "28000200 24000100 00000000 00000000 00000000 00000000 07000300 65310000 08001c00 05000000",
    ),
    (
        AddVeth(name="rfp-1", peer="fpr-1"),
        (16, 0x600),
        "00000000 00000000 00000000 00000000 0a000300 7266702d 31000000 34001200 09000100 76657468"
        "00000000 24000200 20000100 00000000 00000000 00000000 00000000 0a000300 6670722d 31000000",
    ),
    (
        AddLinuxBridge("br"),
        (16, 0x600),
        "00000000 00000000 00000000 00000000 07000300 62720000 24001200 0b000100 62726964 67650000"
        "14000200 08000100 00000000 05001700 00000000",
    ),
    (SetUp("e0"), (19, 0), "00000000 07000000 01000000 01000000"),
    (
        MoveLink(name="e0", namespace="blue", new_name="e1"),
        (19, 0),
        "00000000 07000000 00000000 00000000 08001c00 05000000 07000300 65310000",
    ),
    (
        AddAddress(Address(device="e0", interface="10.0.0.2/24")),
        (20, 0x600),
        "02180000 07000000 08000200 0a000002 08000100 0a000002 08000800 00000000 08000400 0a0000ff",
    ),
    (
        AddAddress(Address(device="e0", interface="fd00::2/64", nodad=True, noprefixroute=True)),
        (20, 0x600),
        "0a400000 07000000 14000200 fd000000 00000000 00000000 00000002 14000100 fd000000 00000000"
        "00000000 00000002 08000800 02020000",
    ),
    (
        AddRoute(IpRoute(destination="10.9.0.0/16", hops=HOPS)),
        (24, 0x600),
        "02100000 fe040001 00000000 08000f00 fe000000 08000100 0a090000 2c000900 10000000 07000000"
        "08000500 0a000001 10000402 2c010000 08000500 0a000002 08000000 07000000",
    ),
    (
        AddRoute(route("10.9.0.0/16", via="fe80::1", device="e0"), replace=True),
        (24, 0x500),
        "02100000 fe040001 00000000 08000f00 fe000000 08000100 0a090000 16001200 0a00fe80 00000000"
        "00000000 00000000 00010000 08000400 07000000",
    ),
    (
        AddRule(IpRule(priority=100, source="10.9.0.0/16", table=100)),
        (32, 0x600),
        "02001000 64000001 00000000 08000600 64000000 08000f00 64000000 05001500 04000000 08000200"
        "0a090000",
    ),
    (
        SetNeighbour(Neighbour(device="e0", address="10.0.0.9", mac=MAC)),
        (28, 0x500),
        "02000000 07000000 80000000 08000100 0a000009 0a000200 fa163e00 00010000",
    ),
]
"""Operation, kind and flags, body; on a little-endian machine."""


@pytest.mark.parametrize(("operation", "header", "body"), PYROUTE2)
def test_a_request_is_the_one_that_pyroute2_encodes(
    operation: NetworkOperation, header: tuple[int, int], body: str
) -> None:
    assert encode(operation, LOOKUP) == NetlinkRequest(header[0], bytes.fromhex(body), header[1])


@pytest.mark.parametrize(
    "address",
    [
        Address(device="e0", interface="10.0.0.2/24", scope=Scope.GLOBAL),
        Address(device="e1", interface="10.0.0.2/32", scope=Scope.LINK, noprefixroute=True),
        Address(device="e0", interface="fd00::2/64", scope=Scope.GLOBAL, nodad=True),
    ],
)
def test_an_address_is_decoded_as_it_was_encoded(address: Address) -> None:
    body = encode(AddAddress(address), LOOKUP).body
    assert netlink_decode.address(body, NAMES) == FoundAddress(address=address, permanent=False)


@pytest.mark.parametrize(
    "value",
    [
        route("default", via="10.0.0.1", device="e0", scope=Scope.GLOBAL),
        route("10.9.0.0/16", via="10.0.0.1", device="e0", onlink=True, metric=5, table=1000,
              source="10.0.0.9", scope=Scope.GLOBAL),
        route("fd09::/64", via="fd00::1", device="e1", scope=Scope.GLOBAL),
        route("10.9.0.0/16", via="fe80::1", device="e0", scope=Scope.GLOBAL),
        IpRoute(destination="10.9.0.0/16", hops=HOPS, scope=Scope.GLOBAL),
        IpRoute(destination="fd09::/64", kind=RouteKind.UNREACHABLE, scope=Scope.GLOBAL),
    ],
)  # fmt: skip
def test_a_route_is_decoded_as_it_was_encoded(value: IpRoute) -> None:
    assert netlink_decode.route(encode(AddRoute(value), LOOKUP).body, NAMES) == value


@pytest.mark.parametrize(
    "rule",
    [
        IpRule(priority=100, source="10.9.0.0/16", table=100),
        IpRule(priority=1, source="fd01::/64", destination="fd00::/64", table=100_000),
        IpRule(priority=5, iif="e0", oif="e1", mark=3, mask=0xFF, version=6),
        IpRule(priority=7, action=RuleAction.BLACKHOLE),
    ],
)
def test_a_rule_is_decoded_as_it_was_encoded(rule: IpRule) -> None:
    assert netlink_decode.rule(encode(AddRule(rule), LOOKUP).body, NAMES) == rule


@pytest.mark.parametrize(
    "neighbour",
    [
        Neighbour(device="e0", address="10.0.0.9", mac=MAC),
        Neighbour(device="e1", address="fd00::9", proxy=True),
    ],
)
def test_a_neighbour_is_decoded_as_it_was_encoded(neighbour: Neighbour) -> None:
    body = encode(SetNeighbour(neighbour), LOOKUP).body
    assert netlink_decode.neighbour(body, NAMES) == neighbour


def test_a_name_of_any_bytes_is_encoded_as_it_was_decoded() -> None:
    body = netlink_encode.read_link("odd\udcff").body
    assert b"odd\xff\0" in body


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(NetlinkError, match="a number is out of range"):
        encode(SetMtu("e0", 1 << 32), LOOKUP)


def test_other_operations_are_not_encoded() -> None:
    with pytest.raises(TypeError, match="not an operation of netlink"):
        encode(SetSysctl("net.ipv4.ip_forward", "1"), LOOKUP)


def test_a_device_is_named_by_its_number() -> None:
    assert encode(DelLink("e1"), LOOKUP).body[4:8] == (300).to_bytes(4, "little")
    assert bytes.fromhex("fa163e000001") in encode(SetMac("e0", MAC), LOOKUP).body
