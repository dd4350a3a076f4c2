"""Connections that end when translations change, and the record of them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from netfw.linux.iptables.rule import render_rule
from netfw.linux.service_netns.steps import RemoveConnections, RestoreTables
from netfw.model.values.port_range import PortRange
from netfw_drivers.linux_router.plan.contributed_dnat import TranslatedPorts
from netfw_drivers.linux_router.plan.ended_connections import (
    EndedConnections,
    TranslatedAddresses,
    find_ended,
    parse_ended,
    plan_removals,
    render_ended,
)
from tests.unit.backends.linux_router.samples import FIPS, KEY, ROUTER, fip

ADDRESS, OTHER, SIXTH = map(ip_address, ("203.0.113.60", "203.0.113.61", "2001:db8::60"))
ONE, TWO = ip_address("10.0.0.2"), ip_address("10.0.0.3")
WEB = TranslatedPorts(ADDRESS, "tcp", PortRange.single(80), "10.0.0.2")
WEB_TO_TWO = TranslatedPorts(ADDRESS, "tcp", PortRange.single(80), "10.0.0.3")
RANGE = TranslatedPorts(ADDRESS, "tcp", PortRange(5000, 5002), "10.0.0.2:6000-6002/5000")
ALL = EndedConnections(ADDRESS)
WEB_ENDS = EndedConnections(ADDRESS, "tcp", PortRange.single(80))
RANGE_ENDS = EndedConnections(ADDRESS, "tcp", PortRange(5000, 5002))
TO_ONE, TO_TWO = {ADDRESS: (FIPS[0], ONE)}, {ADDRESS: (FIPS[0], TWO)}
Case = dict[str, object]


def on_gateway(**values: object) -> TranslatedAddresses:
    found = {"addresses": {ADDRESS}, "floating": {}, "ports": (), "snat": (), **values}
    for name in ("ports", "snat"):
        found[name] = frozenset(found[name])  # type: ignore[call-overload]
    return TranslatedAddresses(**found)  # type: ignore[arg-type]


@pytest.mark.spec("L3-80")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"ports": [WEB, RANGE]}, {"ports": [RANGE]}, {WEB_ENDS}),
        ({"ports": [WEB]}, {"ports": [WEB, RANGE]}, {RANGE_ENDS}),
        ({"ports": [WEB]}, {"ports": [WEB_TO_TWO]}, {WEB_ENDS}),
        ({"ports": [WEB, RANGE]}, {"ports": [RANGE, WEB]}, set()),
        ({"ports": [WEB]}, {"addresses": ()}, set()),
        ({"addresses": (), "ports": [WEB]}, {"addresses": ()}, {WEB_ENDS}),
        ({"addresses": ()}, {"ports": [WEB]}, set()),
        ({}, {"ports": [WEB]}, {ALL}),
    ],
)
def test_connections_end_where_the_translation_of_ports_changes(
    before: Case, after: Case, expected: set[EndedConnections]
) -> None:
    assert {*find_ended(on_gateway(**before), on_gateway(**after))} == expected


def test_the_routers_own_address_keeps_its_other_connections_with_its_first_port() -> None:
    found = find_ended(on_gateway(), on_gateway(ports=[WEB]), {ADDRESS})
    assert [*found] == [WEB_ENDS]


@pytest.mark.spec("L3-24", "L3-80")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"floating": TO_ONE}, {"floating": TO_ONE}, []),
        ({"floating": TO_ONE}, {"floating": TO_TWO}, [ALL]),
        ({"floating": TO_ONE}, {"ports": [WEB]}, [ALL]),
        ({"ports": [WEB]}, {"floating": TO_ONE}, [ALL]),
        ({}, {"floating": TO_ONE}, [ALL]),
        ({"addresses": ()}, {"floating": TO_ONE}, []),
        ({"floating": TO_ONE}, {"addresses": ()}, []),
        ({"addresses": (), "floating": TO_ONE}, {"addresses": ()}, [ALL]),
    ],
)
def test_all_connections_end_with_a_change_of_the_whole_address(
    before: Case, after: Case, expected: list[EndedConnections]
) -> None:
    assert [*find_ended(on_gateway(**before), on_gateway(**after))] == expected


@pytest.mark.spec("L3-22")
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, [ALL]),
        ({"snat": [ADDRESS]}, []),
        ({"snat": [OTHER]}, []),
        ({"addresses": {OTHER}}, []),
    ],
)
def test_connections_of_snat_end_when_it_is_disabled(
    after: Case, expected: list[EndedConnections]
) -> None:
    # The connections of an address that is removed end with it.
    assert [*find_ended(on_gateway(snat=[ADDRESS]), on_gateway(**after))] == expected


def test_the_record_is_read_as_it_was_written() -> None:
    sixth = EndedConnections(SIXTH, floating_ip=FIPS[0])
    ended = {ALL, WEB_ENDS, RANGE_ENDS, sixth}
    chains = {
        key: tuple(render_rule(rule, "router") for rule in chain.rules)
        for key, chain in render_ended(ROUTER, ended).items()
    }
    assert len(chains) == 2
    parsed = {each: each.floating_ip for each in parse_ended(chains)}
    assert parsed == {**dict.fromkeys(ended), sixth: FIPS[0]}
    (key, *_) = chains
    assert [*parse_ended({key: ("-j ACCEPT", "-d 1.2.3.4/32 -p tcp --dport x -j RETURN")})] == []


def test_the_record_is_removed_after_the_connections() -> None:
    stages = [
        *plan_removals(ROUTER, "ns", [WEB_ENDS, EndedConnections(OTHER, None, None, FIPS[0])])
    ]
    operations = [operation for stage in stages for operation in stage.operations]
    assert [operation.payload for operation in operations[:2]] == [
        RemoveConnections("ns", ADDRESS, "tcp", PortRange.single(80)),
        RemoveConnections("ns", OTHER),
    ]
    assert isinstance(operations[2].payload, RestoreTables)
    assert operations[2].text == "drop IPv4 nat chain ended"
    assert [operation.owners for operation in operations] == [{KEY}, {fip()}, {KEY, fip()}]
    assert [*plan_removals(ROUTER, "ns", [])] == []
