"""Values on the wire: protocols, numbers, addresses, names, times."""

from __future__ import annotations

import time
from typing import Any

import attrs
import pytest

from netfw.errors import InvalidInput
from netfw.model import (
    Direction,
    Ethertype,
    Kind,
    Network,
    SecurityGroupRule,
)
from netfw.model.resource import KINDS
from netfw.model.values.protocol import TCP
from netfw.model.wire import CODECS, parse, render
from netfw.model.wire.object_codec import ObjectCodec
from tests.unit.model.wire_samples import ID_A, ID_B, A, B, C, port_problems, problems


@pytest.mark.parametrize(
    ("given", "number", "written"),
    [
        ("tcp", 6, "tcp"),
        ("TCP", 6, "tcp"),
        ("6", 6, "tcp"),
        (6, 6, "tcp"),
        ("icmpv6", 58, "ipv6-icmp"),
        (255, 255, "255"),
        ("any", None, None),
        (0, None, None),
        (None, None, None),
    ],
)
def test_a_protocol_is_a_name_or_a_number(given: object, number: int | None, written: str) -> None:
    body = {"id": A, "security_group_id": B, "direction": "ingress", "ethertype": "ipv6"}
    read = parse(Kind.SECURITY_GROUP_RULE, body | {"protocol": given})
    assert read == SecurityGroupRule(
        id=ID_A,
        security_group_id=ID_B,
        direction=Direction.INGRESS,
        ethertype=Ethertype.IPV6,
        protocol=number,
    )
    assert render(read)["protocol"] == written


@pytest.mark.parametrize("given", ["tpc", "256", -1, 256, 6.0, True, "", "6\n", [], "t" * 99])
def test_what_is_no_protocol_is_refused(given: object) -> None:
    found = problems(
        Kind.SECURITY_GROUP_RULE, id=A, security_group_id=B, direction="ingress", protocol=given
    )
    assert found.keys() == {"protocol"}


def test_ports_of_a_rule_are_numbers_or_digits() -> None:
    body = {"id": A, "security_group_id": B, "direction": "egress", "protocol": "tcp"}
    read = parse(Kind.SECURITY_GROUP_RULE, body | {"port_range_min": "80", "port_range_max": 90})
    assert read == SecurityGroupRule(
        id=ID_A,
        security_group_id=ID_B,
        direction=Direction.EGRESS,
        protocol=TCP,
        port_min=80,
        port_max=90,
    )


@pytest.mark.parametrize("number", [True, 1.0, "1.0", "٣", " 1", "1e3", 2**70, -1, [1], None])
def test_only_a_whole_number_in_range_is_a_number(number: object) -> None:
    assert problems(Kind.NETWORK, id=A, mtu=number).keys() == {"mtu"}


def test_a_number_too_large_to_print_is_refused() -> None:
    assert problems(Kind.NETWORK, id=A, mtu=10**5000, name=10**5000) == {
        "mtu": "a number too large is outside 0 to 4294967295",
        "name": "not text: a number too large",
    }


@pytest.mark.parametrize("prefix", ["10.0.0.5/24", "fe80::1%eth0", "10.0.0.0/255.0.0.0", "x", 5])
def test_an_address_pair_is_an_address_or_an_exact_prefix(prefix: object) -> None:
    assert port_problems(allowed_address_pairs=[{"ip_address": prefix}]).keys() == {
        "allowed_address_pairs[0].ip_address"
    }


def test_the_message_about_a_prefix_says_which_may_be_meant() -> None:
    found = port_problems(allowed_address_pairs=[{"ip_address": "10.0.0.5/24"}])
    assert "10.0.0.0/24" in found["allowed_address_pairs[0].ip_address"]


@pytest.mark.parametrize(
    "address", ["010.0.0.1", "10.0.0", "::1%lo", "1" * 5000, b"\x01\x02\x03\x04", 1]
)
def test_what_is_no_address_is_refused_in_a_short_message(address: object) -> None:
    found = port_problems(fixed_ips=[{"subnet_id": C, "ip_address": address}])
    assert found.keys() == {"fixed_ips[0].ip_address"}
    assert len(found["fixed_ips[0].ip_address"]) < 120


@pytest.mark.parametrize(
    "name", ["-a", "a-", "a..b", ".a", "a_b", "a b", "a,b", "a\nb", "x" * 64, "ä"]
)
def test_a_dns_name_has_the_letters_of_dns(name: str) -> None:
    assert port_problems(dns_name=name).keys() == {"dns_name"}


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize(
    "name", ["", "a b", "67,evil", "tag:x", "option:\n", "a=b", "#x", "x" * 65]
)
def test_the_name_of_a_dhcp_option_cannot_be_more_than_a_name(name: str) -> None:
    found = port_problems(extra_dhcp_opts=[{"opt_name": name, "opt_value": "1"}])
    assert found.keys() == {"extra_dhcp_opts[0].opt_name"}


@pytest.mark.parametrize("body", [None, [], "x", 5, True, {1, 2}, object()])
def test_a_body_that_is_no_object_is_refused_as_a_whole(body: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(Kind.PORT, body)
    assert caught.value.problems.keys() == {"port"}


def test_text_has_a_longest_length() -> None:
    assert port_problems(name="x" * 256) == {"name": "longer than 255 characters"}


def test_a_hostile_body_is_refused_quickly() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    body: dict[Any, Any] = {f"unknown_attribute_{number}": deep for number in range(20_000)}
    body |= {"fixed_ips": [deep], "name": "x" * 10_000_000, "binding:profile": {"a": deep}}
    body |= {"tags": ["x"] * 5000, "y" * 1_000_000: 1, 5: 6, None: 7}
    before = time.process_time()
    found = problems_of(body)
    assert time.process_time() - before < 5
    assert found["fixed_ips[0]"] == "not an object: a list"
    assert found["tags"] == "more than 4096 entries"
    assert max(len(path) + len(text) for path, text in found.items()) < 400


def problems_of(body: dict[Any, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse(Kind.PORT, body)
    return caught.value.problems


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31 12:00:00", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc(given: str, written: str) -> None:
    body = {"id": A, "created_at": given}
    assert render(parse(Kind.NETWORK, body))["created_at"] == written


@pytest.mark.parametrize("given", ["now", "2030-13-01T00:00:00Z", "0001-01-01T00:00:00+10:00", 5])
def test_what_is_no_time_is_refused(given: object) -> None:
    assert problems(Kind.NETWORK, id=A, created_at=given).keys() == {"created_at"}


def test_sets_are_written_in_one_order() -> None:
    tags = {f"t{number}" for number in range(20)}
    assert render(Network(id=ID_A, tags=tags))["tags"] == sorted(tags)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_field_of_a_resource_is_on_the_wire_under_names_of_its_own(kind: Kind) -> None:
    table: ObjectCodec[Any] = CODECS[kind]
    assert KINDS[table.cls] is kind
    assert {part.field for part in table.parts} == {f.name for f in attrs.fields(table.cls)}
    assert len(set(table.names)) == len(table.names)
