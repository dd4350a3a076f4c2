"""Which connections live on."""

from ipaddress import ip_address, ip_network

import pytest
from attrs import evolve

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.conntrack.entry import ConntrackTuple, TrackedConnection
from netfw.plan import Update
from netfw_drivers.iptables.plan.conntrack_eval import ConnectionEvaluator, parse_rule
from tests.unit.backends.iptables.samples import (
    FRIENDS,
    GROUP,
    IN,
    OUT,
    V6,
    Kernel,
    a_group,
    a_member,
    a_port,
    a_rule,
    port_id,
)


def a_connection(
    source: str, destination: str, protocol: int = 6, port: int | None = 80, zone: int = 4097
) -> TrackedConnection:
    ends = ip_address(source), ip_address(destination)
    ports = (None, None) if protocol in (1, 58) else (40000, port)
    there = ConntrackTuple(
        protocol=protocol, source=ends[0], destination=ends[1],
        source_port=ports[0], destination_port=ports[1],
    )  # fmt: skip
    back = ConntrackTuple(
        protocol=protocol, source=ends[1], destination=ends[0],
        source_port=ports[1], destination_port=ports[0],
    )  # fmt: skip
    return TrackedConnection(original=there, reply=back, zone=zone, status=0)


def is_denied(connection: TrackedConnection, *state: dict) -> bool:
    kernel = Kernel({"tap1": "br1", "tap2": "br1"})
    kernel.converge(Update(put={key: value for part in state for key, value in part.items()}))
    evaluator = ConnectionEvaluator(
        index=kernel.observe().index, chains=kernel.mirror.chains, sets=kernel.sets
    )
    return evaluator.finder.denied([port_id(1)])(connection)


ONE = a_port(1, GROUP)


@pytest.mark.spec("FW-04")
@pytest.mark.parametrize(
    ("rule", "connection", "denied"),
    [
        (a_rule(IN, protocol=6), a_connection("192.0.2.1", "10.0.0.1"), False),
        (a_rule(IN, protocol=17), a_connection("192.0.2.1", "10.0.0.1"), True),
        (a_rule(OUT, protocol=6), a_connection("192.0.2.1", "10.0.0.1"), True),
        (a_rule(OUT, protocol=6), a_connection("10.0.0.1", "192.0.2.1"), False),
        (
            a_rule(IN, protocol=6, port_min=81, port_max=90),
            a_connection("192.0.2.1", "10.0.0.1"),
            True,
        ),
        (
            a_rule(IN, protocol=6, port_min=80, port_max=90),
            a_connection("192.0.2.1", "10.0.0.1"),
            False,
        ),
        (
            a_rule(IN, remote_prefix="192.0.2.0/24"),
            a_connection("192.0.2.1", "10.0.0.1"),
            False,
        ),
        (
            a_rule(IN, remote_prefix="198.51.100.0/24"),
            a_connection("192.0.2.1", "10.0.0.1"),
            True,
        ),
        (a_rule(IN, V6), a_connection("fd00::9", "fd00::1"), False),
        (a_rule(IN), a_connection("fd00::9", "fd00::1"), True),
        (
            a_rule(IN, protocol=1, port_min=8, port_max=0),
            a_connection("192.0.2.1", "10.0.0.1", 1),
            False,
        ),
        (
            a_rule(IN, protocol=1, port_min=13),
            a_connection("192.0.2.1", "10.0.0.1", 1),
            True,
        ),
        (a_rule(IN), a_connection("192.0.2.1", "10.0.0.77"), False),
        (a_rule(OUT), a_connection("192.0.2.1", "10.0.0.1", zone=4098), False),
    ],
)
def test_a_connection_lives_while_a_rule_allows_it(rule, connection, denied: bool) -> None:
    assert is_denied(connection, ONE, a_group(rule)) is denied


@pytest.mark.spec("FW-03")
@pytest.mark.parametrize(
    ("prefix", "denied"),
    [
        ("192.0.2.1/32", False),
        ("192.0.2.0/24", False),
        ("0.0.0.0/0", False),
        ("192.0.3.0/24", True),
    ],
)
def test_a_member_is_in_a_set_by_any_prefix(prefix: str, denied: bool) -> None:
    rule = a_group(a_rule(IN, remote_group_id=FRIENDS))
    connection = a_connection("192.0.2.1", "10.0.0.1")
    assert is_denied(connection, ONE, rule, a_member(prefix)) is denied


def test_a_connection_between_two_needs_both() -> None:
    connection = a_connection("10.0.0.2", "10.0.0.1")
    both = a_group(a_rule(IN)), a_port(2, GROUP)
    assert not is_denied(connection, ONE, *both)
    assert is_denied(connection, ONE, a_group(a_rule(OUT)), a_port(2, GROUP))


def test_a_trusted_port_has_nothing_cut() -> None:
    connection = a_connection("192.0.2.1", "10.0.0.1")
    assert not is_denied(connection, a_port(1, trusted=True))


def test_a_line_is_read_as_ours_or_as_iptables_prints_it() -> None:
    ours = parse_rule("-p 136 -m multiport --dports 1:2 -j ACCEPT")
    assert ours == parse_rule("-p udplite -m multiport --dports 1:2 -j ACCEPT")
    assert parse_rule("-m conntrack --ctstate RELATED -j ACCEPT").never
    assert parse_rule("-m comment --comment stateless").never


@pytest.mark.parametrize(
    "line",
    [
        "-p tcp -m multiport --dports 80,443 -j ACCEPT",
        "-s 10.0.0.0/255.0.255.0 -j ACCEPT",
        "! -s 192.0.2.0/24 -j ACCEPT",
        "-m set --match-set lonely",
        "-m set -j ACCEPT --match-set lonely",
        "-m set --match-set lonely src,dst -j ACCEPT",
        "-s 10.0.0.0/8 -j DROP",
        "-s 10.0.0.0/8 -j nfw-e1",
        "-p tcp -j LOG",
        "-p tcp -m tcp --sport 22 -j ACCEPT",
        "-p tcp -m tcp --tcp-flags SYN,ACK SYN -j RETURN",
        "-m mark --mark 0x1 -j ACCEPT",
        "-i eth0 -j ACCEPT",
    ],
)
def test_a_foreign_rule_that_cannot_be_interpreted_allows_nothing(line: str) -> None:
    assert parse_rule(line).never


def test_a_foreign_set_that_netfw_does_not_know_has_no_member() -> None:
    flow = a_connection("192.0.2.1", "10.0.0.1").original
    for name in ("lonely", "a-lonely"):
        rule = parse_rule(f"-m set --match-set {name} src -j ACCEPT")
        assert not rule.never
        assert not rule.matches(flow, {}, ())


@pytest.mark.parametrize("allowed", [1, 2])
def test_an_address_that_two_may_have_is_cut_when_neither_allows_it(allowed: int) -> None:
    pair = AllowedSource("fa:16:3e:00:00:77", ip_network("10.0.0.77/32"))
    state = {**a_port(1), **a_port(2), **a_group(a_rule(IN))}
    for number in (1, 2):
        key = PortKey(port_id(number))
        groups = frozenset({GROUP}) if number == allowed else frozenset()
        state[key] = evolve(state[key], sources=frozenset({pair}), groups=groups)
    kernel = Kernel({"tap1": "br1", "tap2": "br1"})
    kernel.converge(Update(put=state))
    evaluator = ConnectionEvaluator(
        index=kernel.observe().index, chains=kernel.mirror.chains, sets=kernel.sets
    )
    shared = a_connection("192.0.2.1", "10.0.0.77")
    assert not evaluator.finder.denied([port_id(1), port_id(2)])(shared)
    kernel.converge(Update(drop=frozenset({GroupKey(GROUP)})))
    evaluator = ConnectionEvaluator(
        index=kernel.observe().index, chains=kernel.mirror.chains, sets=kernel.sets
    )
    assert evaluator.finder.denied([port_id(1), port_id(2)])(shared)


@pytest.mark.parametrize("exact", [1, 2])
def test_an_address_is_whose_prefix_is_the_longest(exact: int) -> None:
    # A port that may use a whole subnet does not decide about the address of another port.
    wide = 3 - exact
    state = {**a_port(1), **a_port(2, GROUP), **a_group(a_rule(IN))}
    pair = AllowedSource(f"fa:16:3e:00:00:0{wide}", ip_network("10.0.0.0/24"))
    key = PortKey(port_id(wide))
    state[key] = evolve(state[key], sources=state[key].sources | {pair})
    kernel = Kernel({"tap1": "br1", "tap2": "br1"})
    kernel.converge(Update(put=state))
    evaluator = ConnectionEvaluator(
        index=kernel.observe().index, chains=kernel.mirror.chains, sets=kernel.sets
    )
    denied = evaluator.finder.denied([port_id(1), port_id(2)])
    assert denied(a_connection("192.0.2.1", f"10.0.0.{exact}")) is (exact == 1)
    assert denied(a_connection("192.0.2.1", "10.0.0.77")) is (wide == 1)
