"""What is changed, in which steps, and for whom."""

from ipaddress import ip_network
from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.firewall import FirewallKey, FirewallValue, Member
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import Conflict, InvalidInput, NotSupported
from netfw.linux.iptables.rule import Family
from netfw.model.values.address import Mac
from netfw.plan import Plan, Stage, Update
from netfw_drivers.iptables.plan.names import short
from tests.unit.backends.iptables.samples import (
    FRIENDS,
    GROUP,
    IN,
    NETWORK,
    OTHER,
    OUT,
    V6,
    Kernel,
    a_group,
    a_member,
    a_port,
    a_rule,
    port_id,
)

State = dict[FirewallKey, FirewallValue]

BRIDGES = {f"tap{number}": "br1" for number in range(1, 100)}
REMOTE = a_group(a_rule(IN, protocol=6, remote_group_id=FRIENDS), a_rule(OUT))
SET = f"G4{short(FRIENDS)}"


def a_kernel(**state: object) -> Kernel:
    return Kernel({**BRIDGES, "tap200": "br2", "tap201": None}, **state)  # type: ignore[arg-type]


def backends(plan: Plan) -> list[str]:
    return [stage.backend for stage in plan.stages]


def whole(*parts: State) -> State:
    return {key: value for part in parts for key, value in part.items()}


def a_host(ports: int = 3, members: int = 5) -> tuple[Kernel, State]:
    kernel = a_kernel()
    some = [a_port(number, GROUP) for number in range(1, ports + 1)]
    crowd = [a_member(f"10.1.{n // 250}.{n % 250}/32") for n in range(members)]
    state = whole(REMOTE, *some, *crowd)
    kernel.converge(Update(put=state))
    return kernel, state


def payloads(stage: Stage) -> list[Any]:
    return [operation.payload for operation in stage.operations]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_second_plan_has_nothing_to_do(fresh: bool) -> None:
    kernel, state = a_host()
    assert not kernel.plan(Update(put=state), fresh=fresh)
    assert not kernel.plan(Update(put=state, complete=True), fresh=fresh)


def test_everything_goes_with_the_last() -> None:
    kernel, state = a_host()
    kernel.converge(Update(drop=frozenset(state)))
    assert (kernel.mirror.chains, kernel.sets, kernel.frames) == ({}, {}, {})


def test_sets_come_before_rules_and_go_after_them() -> None:
    kernel = a_kernel()
    state = whole(REMOTE, a_port(1, GROUP), a_member("10.1.0.1/32"))
    made = kernel.converge(Update(put=state))
    assert backends(made) == [
        "conntrack", "ebtables", "ipset", "iptables/IPv4/raw", "iptables/IPv6/raw",
        "iptables/IPv4/filter", "iptables/IPv6/filter", "iptables/IPv4/mangle",
        "iptables/IPv6/mangle", "conntrack",
    ]  # fmt: skip
    gone = kernel.converge(Update(drop=frozenset(state)))
    assert backends(gone)[-3:] == ["ebtables", "ipset", "conntrack"]


@pytest.mark.spec("FW-11")
@pytest.mark.parametrize("crowd", [10, 2000])
def test_one_member_more_is_one_word_to_one_set(crowd: int) -> None:
    kernel, _ = a_host(members=crowd)
    plan = kernel.plan(Update(put=a_member("10.2.0.1/32")))
    (operation,) = plan
    assert str(operation) == f"ipset: add 1 and remove 0 members of set {SET}"


def test_one_rule_more_is_its_chains_whatever_the_ports() -> None:
    for ports in (1, 40):
        kernel, _ = a_host(ports)
        more = a_group(*REMOTE[GroupKey(GROUP)].rules, a_rule(IN, protocol=17))  # type: ignore[union-attr]
        assert {operation.text.split()[4] for operation in kernel.plan(Update(put=more))} == {
            f"g{short(GROUP)}:",
            f"a{short(GROUP)}:",
        }


def test_one_port_more_does_not_touch_the_others() -> None:
    kernel, _ = a_host(40)
    plan = kernel.plan(Update(put=a_port(41, GROUP, device="tap99")))
    assert not any(short(port_id(7)) in operation.text for operation in plan)
    assert len(plan) < 20


@pytest.mark.spec("FW-08")
def test_networks_have_zones_that_no_other_has() -> None:
    kernel = a_kernel()
    kernel.converge(Update(put=whole(a_port(1), a_port(2, network=OTHER, device="tap200"))))
    assert kernel.lines("zones.br1") == (
        f"-i br1 -m comment --comment {NETWORK} -j CT --zone 4097",
    )
    assert kernel.lines("zones.br2")[0].endswith("--zone 4098")
    kernel.converge(Update(drop=frozenset({PortKey(port_id(1))})))
    assert kernel.cuts[-1].zones == {4097}
    again = kernel.converge(Update(put=a_port(1)))
    assert backends(again)[0] == "conntrack"
    assert kernel.cuts[-2].zones == {4097}
    assert kernel.lines("zones.br1")[0].endswith("--zone 4097")
    assert kernel.lines("zones.br2")[0].endswith("--zone 4098")


@pytest.mark.spec("FW-08")
def test_a_network_keeps_the_zone_that_rules_of_ipv6_still_assign() -> None:
    kernel = a_kernel()
    kernel.converge(Update(put=a_port(2, device="tap200")))
    for key in [key for key in kernel.mirror.chains if key.family is Family.IPV4]:
        del kernel.mirror.chains[key]
    state = whole(a_port(1, network=OTHER), a_port(2, device="tap200"))
    kernel.converge(Update(put=state, complete=True))
    assert kernel.cuts[-2].zones == {4098}
    for family in (4, 6):
        assert kernel.lines("zones.br1", family)[0].endswith("--zone 4098")
        assert kernel.lines("zones.br2", family)[0].endswith("--zone 4097")
    assert not kernel.plan(Update(put=state, complete=True))


def test_a_trusted_port_with_a_bridge_of_its_own_needs_no_zone() -> None:
    kernel = a_kernel(private=True)
    kernel.converge(Update(put=whole(a_port(1, trusted=True), a_port(2, device="tap200"))))
    assert kernel.lines("zones.br1")[0].endswith("-j CT --notrack")
    assert kernel.lines("zones.br2")[0].endswith("-j CT --zone 4097")


@pytest.mark.spec("FW-04")
def test_what_loses_a_rule_a_member_or_a_group_has_its_connections_judged() -> None:
    everyone = {port_id(number) for number in (1, 2, 3)}
    for update, ports in (
        (Update(put=a_group(a_rule(OUT))), everyone),
        (Update(drop=frozenset(a_member("10.1.0.1/32"))), everyone),
        (Update(put=a_port(1)), {port_id(1)}),
        (Update(drop=frozenset({GroupKey(GROUP)})), everyone),
    ):
        kernel, _ = a_host()
        kernel.converge(update)
        assert kernel.cuts[-1].ports == ports


def test_what_only_gains_has_no_connections_judged() -> None:
    kernel, _ = a_host()
    kernel.cuts.clear()
    kernel.converge(Update(put=a_member("10.2.0.1/32")))
    assert not kernel.cuts


@pytest.mark.spec("FW-09")
def test_rules_and_members_that_change_against_each_other_go_round() -> None:
    kernel, _ = a_host()
    fewer = a_group(a_rule(IN, protocol=6, remote_group_id=FRIENDS))
    plan = kernel.plan(Update(put=whole(fewer, a_member("10.2.0.1/32"))))
    assert backends(plan) == ["ipset", *["iptables/IPv4/mangle"], "ipset",
                              "iptables/IPv4/mangle", "ipset", "conntrack"]  # fmt: skip
    first, _, _, back, last, _ = plan.stages
    created, changed, removed = (payloads(stage) for stage in (first, back, last))
    assert [payload.name for payload in created] == [f"t{SET}"]
    assert [payload.name for payload in removed] == [f"t{SET}"]
    assert all(f"--match-set nfw-{SET} " in str(payload.lines) for payload in changed)
    kernel.carry_out(plan)
    assert not kernel.plan(Update(put=fewer), fresh=True)
    assert f"t{SET}" not in kernel.sets


def test_missing_group_allows_nothing_until_it_is_put() -> None:
    kernel = a_kernel()
    kernel.converge(Update(put=a_port(1, GROUP)))
    assert kernel.lines(f"e{short(GROUP)}") == ()
    assert kernel.observe().index.groups == {GROUP: False}
    kernel.converge(Update(put=REMOTE))
    assert kernel.observe().index.groups == {GROUP: True}
    kernel.converge(Update(drop=frozenset({GroupKey(GROUP)})))
    assert kernel.lines(f"e{short(GROUP)}") == ()
    kernel.converge(Update(put=a_port(1)))
    assert not any(short(GROUP) in key.name for key in kernel.mirror.chains)


def test_what_is_kept_stays_as_it_is() -> None:
    kernel, state = a_host()
    before = dict(kernel.mirror.chains), dict(kernel.frames)
    keep = frozenset(key for key in state if not isinstance(key, Member))
    plan = kernel.plan(Update(complete=True, keep=keep))
    assert {stage.backend for stage in plan.stages} == {"ipset", "conntrack"}
    kernel.carry_out(plan)
    assert (kernel.mirror.chains, kernel.frames) == before
    assert kernel.sets[SET].elements == set()


@pytest.mark.spec("FW-12")
def test_invalid_values_are_refused_and_others_are_applied() -> None:
    kernel = a_kernel()
    bad = evolve(next(iter(a_port(2).values())), device="tap 1\n-A INPUT")
    odd = Member(GroupKey(FRIENDS), ip_network("10.0.0.0/8"), Mac("fa:16:3e:00:00:07"))
    put = {**a_port(1), PortKey(port_id(2)): bad, odd: odd}
    plan = kernel.converge(Update(put=put))
    assert isinstance(plan.refused[PortKey(port_id(2))], InvalidInput)
    assert isinstance(plan.refused[odd], NotSupported)
    assert set(kernel.observe().index.ports) == {port_id(1)}


def test_a_device_on_no_bridge_is_waited_for() -> None:
    kernel = a_kernel()
    plan = kernel.plan(Update(put=whole(a_port(1, device="tap201"), a_port(2, device="tapx"))))
    assert plan.waiting == {
        PortKey(port_id(1)): "device tap201 is on no Linux bridge yet",
        PortKey(port_id(2)): "there is no device tapx yet",
    }
    assert not plan


def test_a_device_is_that_of_one_port_and_a_bridge_that_of_one_network() -> None:
    kernel = a_kernel()
    ports = whole(a_port(1), a_port(2, device="tap1"), a_port(3, network=OTHER))
    plan = kernel.converge(Update(put=ports))
    assert {str(key): type(error) for key, error in plan.refused.items()} == {
        f"port {port_id(2)}": Conflict,
        f"port {port_id(3)}": Conflict,
    }
    moved = Update(put=a_port(2, device="tap1"), drop=frozenset({PortKey(port_id(1))}))
    assert not kernel.plan(moved).refused


def test_families_do_not_mix() -> None:
    kernel = a_kernel()
    v6 = a_group(a_rule(IN, V6, remote_group_id=FRIENDS))
    kernel.converge(Update(put=whole(v6, a_member("fd00::/64"), a_member("10.0.0.0/24"))))
    assert {name[:2]: present.elements for name, present in kernel.sets.items()} == {
        "G4": {"10.0.0.0/24"},
        "G6": {"fd00::/64"},
    }


def test_changed_chain_is_repaired() -> None:
    kernel, state = a_host()
    (key,) = [
        k for k in kernel.mirror.chains if k.name == f"s{short(port_id(1))}" and k.family == 4
    ]
    kernel.mirror.chains[key] = ("-j RETURN",)
    plan = kernel.plan(Update(put=state, complete=True), fresh=True)
    assert next(map(str, plan)) == f"iptables/IPv4/mangle: put {key}: 2 rules"


@pytest.mark.parametrize("lost", ["i", "o", "s", "zones.br1", "sent.tap1", "taken.tap1"])
@pytest.mark.parametrize("family", [4, 6])
def test_partial_removal_is_finished_after_a_crash(lost: str, family: int) -> None:
    kernel, state = a_host(1)
    for key in [*kernel.mirror.chains]:
        if key.family == family and key.name.startswith(lost):
            del kernel.mirror.chains[key]
    kernel.carry_out(kernel.plan(Update(drop=frozenset(state)), fresh=True))
    assert (kernel.mirror.chains, kernel.sets, kernel.frames) == ({}, {}, {})


@pytest.mark.spec("FW-12")
@pytest.mark.parametrize(
    ("field", "value"),
    [("network", "x -j ACCEPT"), ("mac", "x -j ACCEPT"), ("groups", frozenset({"x"}))],
)
def test_unvalidated_value_is_validated_by_the_plan(field: str, value: object) -> None:
    kernel = a_kernel()
    state = a_port(1)
    (key,) = state
    object.__setattr__(state[key], field, value)
    plan = kernel.plan(Update(put=state))
    assert isinstance(plan.refused[key], InvalidInput)
    assert not plan
