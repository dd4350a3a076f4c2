"""What updates of the firewall ask of the switch."""

import itertools
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw import flows as of
from netfw.drivers.values.keys import AddressGroupKey, PortKey
from netfw.errors import Conflict, InvalidInput, PartlyInvalid
from netfw.model.values.ids import AddressGroupId, PortId
from netfw.ovs.openflow.encode import Encoded, decode_match
from netfw.ovs.openflow.flow_inspection import conjunctions, note_of
from netfw_drivers.ovs.firewall.plan.changes import Owner
from netfw_drivers.ovs.firewall.plan.flows import PortFlows, port_flows, static_flows
from netfw_drivers.ovs.firewall.plan.state import PolicyOwner
from netfw_drivers.ovs.pipeline.tables import BASE_INGRESS, INTEGRATION
from tests.unit.backends.ovs.firewall.samples import (
    IN,
    OUT,
    V6,
    Bench,
    group,
    group_id,
    listed,
    member,
    port,
    rule,
)

FRIENDS = rule(IN, remote_group_id=group_id(2))
WEB = rule(IN, protocol=6, port_min=80, port_max=80)
LISTED = rule(OUT, remote_address_group_id=AddressGroupId(UUID(int=1 << 48)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_trusted_port_has_two_flows_and_is_held(bench):
    plan = bench.apply(port(1, 1, trusted=True))
    assert len(plan) == 2 + len(list(static_flows()))
    assert bench.present == port(1).keys()


def test_the_last_to_go_takes_everything_along(bench):
    wanted = {**port(1, 1), **group(1, WEB, FRIENDS), **member(2, "10.0.0.9")}
    bench.apply(wanted)
    assert bench.present == wanted.keys()
    bench.apply(drop=wanted)
    assert bench.flows == {}
    assert not list(bench.state.meanings.number) + list(bench.state.policies.number)


def test_ports_with_the_same_groups_share_a_policy(bench):
    bench.apply({**port(1, 1, 2), **port(2, 2, 1), **port(3, 1)})
    assert len(bench.state.policies.number) == 2
    bench.apply(port(3, 1, 2))
    assert len(bench.state.policies.number) == 1


def test_one_rule_more_costs_its_own_flows_whatever_ports_there_are():
    costs = set()
    for ports in (1, 8):
        bench = Bench()
        many = {key: value for n in range(1, ports + 1) for key, value in port(n, 1).items()}
        bench.apply({**many, **group(1, WEB)})
        costs.add(len(bench.plan(group(1, WEB, rule(IN, protocol=6, port_min=90, port_max=90)))))
    assert costs == {1}


def test_what_a_group_begins_to_allow_reaches_the_ports_in_it(bench):
    bench.apply({**port(1, 1), **port(2, 1, 2), **group(1)})
    plan = bench.apply(group(1, WEB))
    assert sum("reg7=" in operation.text for operation in plan) == 2
    assert not bench.plan({**port(1, 1), **port(2, 1, 2), **group(1, WEB)}, complete=True)


@pytest.mark.spec("FW-11")
def test_one_more_member_is_one_flow_however_many_members_and_rules_there_are(bench):
    everybody = {**group(1, FRIENDS, WEB), **group(3, FRIENDS, WEB), **port(1, 1), **port(2, 3)}
    bench.apply({**everybody, **member(2, "10.0.1.1"), **member(2, "10.0.1.2")})
    for number in range(3, 9):
        assert len(bench.apply(member(2, f"10.0.1.{number}"))) == 1


def test_members_and_rules_with_equal_matches_share_a_flow_and_part_again(bench):
    alike = rule(IN, remote_prefix="10.0.0.9/32")
    bench.apply({**port(1, 1, 3), **group(1, FRIENDS), **group(3, alike)})
    before = dict(bench.flows)
    (step,) = bench.apply(member(2, "10.0.0.9")).stages
    texts = [operation.text for operation in step.operations]
    assert sum(text.startswith("change") for text in texts) == 1
    bench.apply(drop=member(2, "10.0.0.9"))
    assert bench.flows == before


def test_a_member_without_a_referring_rule_is_present_and_counts_later(bench):
    bench.apply(member(2, "10.0.0.9"))
    assert bench.present == member(2, "10.0.0.9").keys()
    bench.apply({**port(1, 1), **group(1, LISTED, rule(OUT, remote_group_id=group_id(2)))})
    bench.restart()
    assert not bench.plan(
        {**port(1, 1), **group(1, LISTED, rule(OUT, remote_group_id=group_id(2)))}
    )
    found = [c for state in bench.flows.values() for c in conjunctions(state) if c.clause == 2]
    assert {clause.clauses for clause in found} == {3}


def test_entries_of_an_address_group_are_members(bench):
    bench.apply({**port(1, 1), **group(1, LISTED), **listed(1, "192.0.2.0/24")})
    key = AddressGroupKey(AddressGroupId(UUID(int=1 << 48)))
    assert [m.group for m in bench.present if hasattr(m, "prefix")] == [key]


def test_a_device_without_number_waits_and_has_no_flows(bench):
    bench.apply({**port(1, 1), **port(2, 1)})
    bench.ports.pop("tap1")
    plan = bench.apply({**port(1, 1), **port(2, 1)})
    assert plan.waiting.keys() == port(1).keys()
    assert "tap1" in str(plan)
    assert bench.present == port(2).keys()


def test_a_device_with_another_number_is_planned_anew(bench):
    bench.apply(port(1, 1))
    moved = evolve(bench.ports["tap1"].interface, ofport=77)
    bench.ports["tap1"] = evolve(bench.ports["tap1"], interfaces=(moved,))
    assert bench.apply(port(1, 1))
    assert not bench.plan(port(1, 1))
    bench.restart()
    assert not bench.plan(port(1, 1), complete=True)


def test_two_ports_of_one_device_are_one_too_many(bench):
    bench.apply(port(1, 1))
    rival = PortKey(PortId(UUID(int=99)))
    plan = bench.apply({rival: port(1, 1)[PortKey(PortId(UUID(int=1)))], **port(2, 1)})
    assert isinstance(plan.refused[rival], Conflict)
    assert bench.present == port(1).keys() | port(2).keys()


@pytest.mark.parametrize("stateful", [True, False])
def test_a_rule_that_the_switch_cannot_match_is_left_out_alone_and_named(bench, stateful):
    dccp = rule(IN, protocol=33, port_min=1, port_max=2)
    bench.apply({**port(1, 1), **group(1, WEB, rule(OUT), stateful=stateful)})
    plan = bench.apply(group(1, dccp, rule(OUT), FRIENDS, stateful=stateful))
    (error,) = plan.refused.values()
    assert isinstance(error, PartlyInvalid)
    assert list(error.problems) == [f"rule {dccp.id}"]
    assert "dccp" in str(error)
    without = Bench()
    without.apply({**port(1, 1), **group(1, rule(OUT), FRIENDS, stateful=stateful)})
    assert sorted(_shape(bench)) == sorted(_shape(without))
    assert not bench.plan(group(1, dccp, rule(OUT), FRIENDS, stateful=stateful))


@pytest.mark.spec("FW-12")
def test_values_of_other_kinds_are_refused(bench):
    plan = bench.plan({next(iter(port(1))): next(iter(group(1).values()))})
    assert plan.refused
    assert not plan.stages


def test_what_cannot_be_there_can_be_dropped(bench):
    nonsense = evolve(next(iter(member(2, "fd00::/64"))))
    object.__setattr__(nonsense, "prefix", "fd00::/64 actions=normal")
    bench.apply({**port(1, 1), **member(2, "10.0.0.9")})
    assert not bench.plan(drop=[nonsense, *group(7), *port(7), *member(2, "10.0.0.8")])


def test_a_group_that_is_dropped_allows_nothing_and_its_ports_stay(bench):
    bench.apply({**port(1, 1), **group(1, WEB)})
    bench.apply(drop=group(1))
    assert bench.present == port(1).keys()
    assert not [state for state in bench.flows.values() if conjunctions(state)]


def test_numbers_are_the_lowest_free_ones(bench):
    bench.apply({**group(1, WEB), **group(2, WEB), **group(3, WEB)})
    assert set(bench.state.meanings.thing) == {1, 2, 3, 4, 5, 6}
    bench.apply(drop=[*group(1), *group(2)])
    bench.apply(group(4))
    assert set(bench.state.meanings.thing) == {1, 5, 6}
    bench.restart()
    bench.apply(group(5, WEB))
    assert set(bench.state.meanings.thing) == {1, 2, 3, 5, 6}


def test_a_kept_key_of_unknown_value_stays(bench):
    wanted = {**port(1, 1), **port(2, 2), **group(1, WEB, FRIENDS), **member(2, "10.0.0.9")}
    bench.apply(wanted)
    before = dict(bench.flows)
    bench.restart()
    assert not bench.plan(complete=True, keep=wanted)
    bench.restart()
    bench.apply(port(2, 2), complete=True, keep=[*port(1), *group(1), *member(2, "10.0.0.9")])
    assert bench.flows == before


def test_foreign_changes_are_repaired_by_the_next_update(bench):
    bench.apply({**port(1, 1), **port(2, 2), **group(1, WEB)})
    lost = [key for key in bench.flows if key[0] == 72]
    for key in lost:
        del bench.flows[key], bench.cache.observed[key]
    bench.cache.load(bench.cache.observed)
    policies = {Owner(PolicyOwner(number)).part for number in (1, 2)}
    parts = policies | bench.state.ports.keys() | {"static"}
    bench.apply(group(3, WEB), drifted=frozenset(parts))
    assert set(lost) <= bench.flows.keys()


def test_flows_that_bear_our_cookie_and_mean_nothing_are_swept(bench):
    bench.apply({**port(1, 1), **group(1, WEB)})
    before = dict(bench.flows)
    stale = Bench()
    stale.apply({**port(5, 7), **group(7, FRIENDS), **member(2, "10.0.0.8")})
    for key, state in stale.flows.items():
        bench.flows.setdefault(key, state)
    bench.restart()
    bench.apply({**port(1, 1), **group(1, WEB)}, complete=True)
    assert len(bench.flows) == len(before)


def test_flows_of_a_release_with_one_for_each_ip_version_are_replaced(bench):
    wanted = {**port(1, 1), **port(2, 1), **group(1, WEB)}
    bench.apply(wanted)
    before = dict(bench.flows)
    for key, state in before.items():
        if key[0] == BASE_INGRESS.number and note_of(state) is not None:
            table = {"table": key[0], "priority": int.from_bytes(key[1:3])}
            for family in (of.ipv4(), of.ipv6()):
                older = of.Flow(match=decode_match(key[3:]) & family, **table)
                bench.flows[Encoded(older).key] = state
            del bench.flows[key]
    bench.restart()
    assert bench.present == wanted.keys()
    bench.apply(port(1, 1))
    bench.apply(port(2, 1))
    assert bench.flows == before


def test_every_flow_keeps_to_the_pipeline(bench):
    plan = bench.apply(
        {
            **port(1, 1, 2),
            **port(2, 3, trusted=True),
            **group(1, WEB, FRIENDS, LISTED, rule(OUT, V6)),
            **group(2, WEB, FRIENDS, rule(OUT), stateful=False),
            **member(2, "0.0.0.0/0", "fa:16:3e:00:00:09"),
        }
    )
    INTEGRATION.check(operation.payload.subject for operation in plan)


def test_a_prefix_of_everything_is_left_out():
    key = PortKey(PortId(UUID(int=1)))
    (value,) = port(1).values()
    plain = PortFlows(key=key, number=1, policy=1, sources=value.sources)
    assert not any("0.0.0.0/0" in str(flow) for flow in port_flows(plain))


RULES = [
    WEB,
    FRIENDS,
    LISTED,
    rule(OUT),
    rule(OUT, V6, protocol=17),
    rule(IN, protocol=6, port_min=80, port_max=90, remote_group_id=group_id(1)),
    rule(IN, remote_prefix="10.0.0.9/32"),
    rule(IN, V6, protocol=58, remote_group_id=group_id(2)),
]
MEMBERS = [
    *member(1, "10.0.0.9"),
    *member(2, "10.0.0.9"),
    *member(2, "fd00::9"),
    *member(2, "0.0.0.0/0", "fa:16:3e:00:00:09"),
    *listed(1, "10.0.0.9/32"),
    *listed(1, "0.0.0.0/0"),
]
NUMBERS, BOTH = st.integers(1, 2), st.booleans()
RARELY = st.sampled_from([False, False, False, True])
EDITS = st.one_of(
    st.builds(
        lambda number, rules, stateful: group(number, *rules, stateful=stateful),
        NUMBERS,
        st.sets(st.sampled_from(RULES), max_size=4),
        RARELY.map(lambda rarely: not rarely),
    ),
    st.builds(
        lambda number, groups, trusted: port(number, *groups, trusted=trusted),
        st.integers(1, 3),
        st.sets(NUMBERS, min_size=1),
        RARELY,
    ),
    st.sampled_from(MEMBERS).map(lambda one: {one: one}),
)


@given(
    st.lists(st.lists(st.tuples(EDITS, RARELY), min_size=1, max_size=5), min_size=3, max_size=6),
    st.data(),
)
def test_whatever_came_before_the_end_is_as_if_made_at_once(steps, data):
    bench, now = Bench(), {}
    for step in steps:
        state = dict(now)
        for edit, drops in step:
            state = {k: state[k] for k in state if k not in edit} if drops else {**state, **edit}
        if data.draw(RARELY):
            bench.restart()
        changed = {key: value for key, value in state.items() if now.get(key) != value}
        if data.draw(RARELY):
            bench.apply(state, complete=True)
        elif changed or now.keys() - state.keys():
            bench.apply(changed, now.keys() - state.keys())
        now = state
        assert bench.present == now.keys()
        assert not bench.plan(now), "it is so already"
        assert not bench.plan(now, complete=True), "and nothing else is"
    fresh = Bench()
    fresh.apply(now, complete=True)
    for one, two in itertools.pairwise((fresh, bench)):
        assert sorted(_shape(one)) == sorted(_shape(two))


def _shape(bench: Bench) -> list[tuple[int, int]]:
    """Return the table and the number of clauses of each flow."""
    return [(key[0], len(conjunctions(state))) for key, state in bench.flows.items()]


def _all(*parts):
    return {key: value for part in parts for key, value in part.items()}


@pytest.fixture
def cramped(monkeypatch) -> Bench:
    """Return a switch with short messages."""
    monkeypatch.setattr("netfw_drivers.ovs.firewall.plan.changes.MAX_CLAUSES", 20)
    return Bench()


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(
    "many",
    [
        lambda ids: group(1, *(rule(IN, remote_group_id=group_id(id)) for id in ids)),
        lambda ids: port(1, 1, *ids),
        lambda ids: _all(*(member(id, "10.0.0.7") for id in ids)),
    ],
    ids=["remote groups of a group", "groups of a port", "groups of an address"],
)
def test_a_key_that_makes_a_flow_too_long_is_refused_alone(cramped, many, complete):
    before = {**port(1, 1), **group(1, WEB)}
    cramped.apply(before)
    others = {**port(2, 2), **group(2, WEB), **_all(*(group(id) for id in range(100, 121)))}
    too_many = many(range(100, 121))
    plan = cramped.apply({**before, **others, **too_many}, complete=complete)
    assert plan.refused.keys() == too_many.keys()
    assert all(isinstance(why, InvalidInput) for why in plan.refused.values())
    assert cramped.present == {**before, **others}.keys()


def test_a_rule_for_which_a_flow_has_no_room_is_left_out_alone(cramped):
    plan = cramped.apply(_all(*(group(number, WEB, FRIENDS) for number in range(1, 22))))
    assert plan.refused.keys() == group(21).keys()
    (error,) = plan.refused.values()
    assert isinstance(error, PartlyInvalid)
    assert cramped.present >= group(21).keys()
    assert not cramped.plan(_all(*(group(number, WEB, FRIENDS) for number in range(1, 22))))
    assert cramped.apply(drop=group(1))
    assert cramped.apply(group(21, WEB)).refused == {}


def test_as_many_clauses_as_are_taken_fit_into_a_message(bench):
    plan = bench.apply({**port(1, *range(1, 4001)), **group(1, WEB)})
    assert plan.refused == {}
    assert max(map(len, bench.flows.values())) > 16 * 4000
