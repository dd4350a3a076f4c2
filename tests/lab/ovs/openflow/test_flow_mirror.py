"""The mirror on a real switch: current without asking, and loud when somebody else interferes."""

import random
from collections.abc import Iterator

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import (
    CookieSpace,
    Drift,
    FlowChanges,
    FlowGroup,
    FlowMirror,
    OpenFlow,
    encode_flows,
    group_of,
)
from netfw.ovs.openflow.encode import Encoded
from netfw.ovs.openflow.flow_cache import digest
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import Relay
from tests.lab.ovs.openflow.packets import packet_out

OURS = CookieSpace(0x10, 0xFF)


def flow(port: int, number: int, *actions: of.Action, cookie: int = 0x10) -> of.Flow:
    match = of.register(0, port) & of.register(1, number)
    return of.Flow(table=5, priority=9, match=match, actions=actions, cookie=cookie)


def port(number: int, *actions: of.Action) -> FlowGroup:
    return group_of(*(flow(number, place, *actions) for place in range(5)))


class Watch:
    """Collects what a mirror says about interference."""

    def __init__(self) -> None:
        self.drifts: list[Drift] = []

    def __call__(self, drift: Drift) -> None:
        self.drifts.append(drift)

    @property
    def owners(self) -> set[object]:
        return {owner for drift in self.drifts for owner in drift.owners}


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def mirror(client: OpenFlow, watch: Watch) -> Iterator[FlowMirror]:
    found = FlowMirror(client, watch)
    found.wait_current()
    return found


def is_true(mirror: FlowMirror, client: OpenFlow) -> bool:
    client.barrier()
    return mirror._cache.observed == {key: digest(state) for key, state in client.flows()}


@pytest.mark.spec("L2-20")
def test_what_was_put_needs_nothing_more(mirror, client, watch) -> None:
    wanted = {number: port(number, of.output(number)) for number in range(1, 10)}
    plan = mirror.converge(wanted, complete=OURS)
    assert len(plan.changes.added) == 45
    assert is_true(mirror, client)
    assert not mirror.plan(wanted, complete=OURS)
    assert watch.drifts == []
    assert mirror._monitor == 1, "read again without need"


@pytest.mark.parametrize("committed", [None, lambda: None])
def test_what_the_client_does_past_the_mirror_is_read_again(mirror, client, committed) -> None:
    client.commit(FlowChanges(tuple(encode_flows([flow(1, 1)]).values())), committed)
    wait_until(lambda: len(mirror) == 1)
    assert is_true(mirror, client)


def give_up_on_commits(relay: Relay, client: OpenFlow) -> None:
    """Keep commits back, and have the client wait for them, and for nothing else, in vain."""
    relay.may_commit.clear()
    relay.on_closed = lambda: setattr(client.connection, "timeout", 0.3)


def test_a_late_commit_past_the_mirror_is_read_too(bridge, connected_to) -> None:
    relay = Relay(bridge)
    _, client = connected_to(relay)
    mirror = FlowMirror(client)
    mirror.wait_current(60)
    give_up_on_commits(relay, client)
    changes = FlowChanges(tuple(encode_flows([flow(1, 1)]).values()))
    with pytest.raises(BackendUnavailable):
        client.commit(changes, lambda: None, by=mirror)
    relay.may_commit.set()
    wait_until(lambda: len(mirror) == 1)


def test_an_unchanged_source_is_not_even_turned_into_flows(mirror) -> None:
    mirror.converge({1: FlowGroup("source", lambda: [flow(1, 1)])})

    def never() -> list[of.Flow]:
        raise AssertionError("made again without need")

    assert not mirror.plan({1: FlowGroup("source", never)}, complete=OURS)


def test_an_update_changes_what_differs_and_nothing_else(mirror, client) -> None:
    mirror.converge({1: port(1, of.output(1)), 2: port(2, of.output(2))})
    plan = mirror.converge({1: group_of(flow(1, 0, of.output(1)), flow(1, 1), flow(1, 9))})
    assert [encoded.flow for encoded in plan.changes.added] == [flow(1, 9)]
    assert [encoded.flow for encoded in plan.changes.changed] == [flow(1, 1)]
    assert len(plan.changes.removed) == 3
    assert is_true(mirror, client)
    assert len(mirror.converge({}, drop=[1]).changes.removed) == 3
    assert len(mirror) == 5
    assert mirror.converge({}, drop=[1]).changes.removed == {}


@pytest.mark.spec("L2-20")
def test_a_flow_deleted_by_hand_is_reported_and_put_back(ovs, bridge, client) -> None:
    wanted = {1: port(1, of.output(1)), 2: port(2)}
    drifts: list[Drift] = []
    mirror = FlowMirror(client, drifts.append)
    mirror.wait_current()
    mirror.converge(wanted)
    ovs.ofctl("--strict", "del-flows", bridge, "table=5,priority=9,reg0=1,reg1=3")
    wait_until(lambda: drifts)
    assert drifts == [Drift(frozenset({1}))]
    plan = mirror.converge({1: wanted[1]})
    assert [encoded.flow for encoded in plan.changes.added] == [flow(1, 3, of.output(1))]
    assert is_true(mirror, client)
    assert len(drifts) == 1


def test_a_flow_changed_by_hand_is_changed_back(ovs, bridge, mirror, client, watch) -> None:
    wanted = {1: port(1, of.output(1))}
    mirror.converge(wanted)
    ovs.ofctl("mod-flows", bridge, "table=5,reg0=1,reg1=3,actions=drop")
    wait_until(lambda: watch.owners == {1})
    plan = mirror.converge(wanted)
    assert [encoded.flow for encoded in plan.changes.changed] == [flow(1, 3, of.output(1))]
    assert is_true(mirror, client)


@pytest.mark.parametrize("cookie", [0x8000000000000010, 0x11], ids=["highest bit", "other"])
def test_a_removal_of_what_got_another_cookie_meanwhile_is_noted_as_the_switch_does_it(
    ovs, bridge, mirror, client, cookie
) -> None:
    # The switch does not compare the highest bit; of other cookies it removes nothing.
    mirror.converge({1: port(1)})
    plan = mirror.plan({}, drop=[1])
    ovs.ofctl(
        "add-flow", bridge, f"cookie={cookie:#x},table=5,priority=9,reg0=1,reg1=3,actions=drop"
    )
    wait_until(lambda: mirror.cookie(Encoded(flow(1, 3)).key) == cookie)
    mirror.apply(plan)
    assert is_true(mirror, client)
    assert len(client.flows()) == (0 if cookie >> 63 else 1)


def test_strangers_in_our_space_are_removed_and_others_stay(
    ovs, bridge, mirror, client, watch
) -> None:
    wanted = {1: port(1)}
    mirror.converge(wanted, complete=OURS)
    ovs.ofctl("add-flow", bridge, "cookie=0x99,table=5,priority=1,actions=drop")
    ovs.ofctl("add-flow", bridge, "cookie=0x10,table=5,priority=2,actions=drop")
    wait_until(lambda: sum(len(drift.unowned) for drift in watch.drifts) == 2)
    plan = mirror.converge(wanted, complete=OURS)
    assert list(plan.changes.lines()) == ["remove cookie=0x10,table=5,priority=2"]
    assert len(mirror) == 6
    assert is_true(mirror, client)


@pytest.mark.spec("L2-20")
def test_learnt_flows_are_recognised_and_left_alone(ovs, mirror, client, watch) -> None:
    learn = of.learn(20, of.learn_match(of.FIELD["eth_dst"], of.FIELD["eth_src"]), cookie=0x10)
    learning = of.Flow(table=0, priority=1, match=of.ANYTHING, actions=(learn,), cookie=0x10)
    wanted = {"learning": group_of(learning)}
    mirror.converge(wanted, complete=OURS)
    packet_out(ovs, "ffffffffffff fa163e000001 9999", "resubmit(,0)")
    # The switch reports what was learnt together with the next change of anybody.
    wanted["other"] = group_of(flow(1, 1))
    mirror.converge(wanted, complete=OURS)
    assert len(mirror) == 3
    assert watch.drifts == []
    assert not mirror.plan(wanted, complete=OURS)
    plan = mirror.converge({}, complete=OURS)
    assert len(plan.changes.removed) == 3


def test_what_is_left_of_an_earlier_run_is_taken_over_without_touching_it(bridge, client) -> None:
    wanted = {number: port(number, of.output(number)) for number in range(1, 4)}
    first = FlowMirror(client)
    first.wait_current()
    first.converge({**wanted, 9: port(9)}, complete=OURS)
    again = OpenFlow(bridge)
    try:
        mirror = FlowMirror(again)
        mirror.wait_current()
        plan = mirror.converge(wanted, complete=OURS)
        assert (plan.changes.added, plan.changes.changed) == ((), ())
        assert len(plan.changes.removed) == 5
        assert not mirror.plan(wanted, complete=OURS)
    finally:
        again.close()


@pytest.mark.spec("L2-20")
def test_a_restarted_switch_is_read_again_and_filled_again(ovs, mirror, client, watch) -> None:
    wanted = {number: port(number) for number in range(3)}
    mirror.converge(wanted)
    ovs.stop_switch()
    wait_until(lambda: not client.connected)
    with pytest.raises(BackendUnavailable):
        mirror.plan(wanted)
    ovs.start_switch()
    wait_until(lambda: watch.owners == {0, 1, 2})
    mirror.wait_current()
    plan = mirror.converge(wanted)
    assert len(plan.changes.added) == 15
    assert is_true(mirror, client)


def test_two_owners_of_one_flow_are_refused_but_it_may_change_hands(mirror, client) -> None:
    mirror.converge({"a": group_of(flow(1, 1))})
    plan = mirror.plan({"b": group_of(flow(1, 1, of.normal())), "c": group_of(flow(3, 3))})
    assert set(plan.refused) == {"b"}
    assert "a has a flow for table=5,priority=9,reg0=0x1,reg1=0x1" in str(plan.refused["b"])
    mirror.apply(plan)
    assert len(mirror) == 2
    plan = mirror.converge({"b": group_of(flow(1, 1, of.normal()))}, drop=["a"])
    assert (len(plan.changes.changed), len(plan.changes.removed)) == (1, 0)
    mirror.converge({}, drop=["b", "c"])
    assert len(mirror) == 0
    assert is_true(mirror, client)


def test_after_a_refusal_the_mirror_is_what_it_was(mirror, client) -> None:
    mirror.converge({1: port(1)})
    plan = mirror.plan({1: group_of(flow(1, 0, of.Meter(9)))})
    with pytest.raises(OperationRefused) as refused:
        mirror.apply(plan)
    assert list(refused.value.reasons) == [flow(1, 0, of.Meter(9))]
    assert is_true(mirror, client)
    assert not mirror.plan({1: port(1)})


def test_an_audit_reads_again_and_keeps_following(ovs, bridge, mirror, client, watch) -> None:
    mirror.converge({1: port(1)})
    mirror._cache.observed.popitem()
    mirror.audit()
    mirror.wait_current()
    assert is_true(mirror, client)
    ovs.ofctl("del-flows", bridge)
    wait_until(lambda: watch.owners == {1})
    assert len(mirror) == 0


def test_it_stays_true_while_others_interfere(ovs, bridge, mirror, client) -> None:
    dice = random.Random(7)
    other = OpenFlow(bridge)
    try:
        other.wait_connected()
        rival = FlowMirror(other)
        rival.wait_current()
        for turn in range(60):
            group = {1: port(1, of.output(1 + dice.randrange(9)))}
            (mirror if dice.random() < 0.5 else rival).converge(group)
            if turn % 7 == 0:
                ovs.ofctl("del-flows", bridge, f"table=5,reg1={dice.randrange(5)}")
        wait_until(lambda: is_true(mirror, client) and is_true(rival, other))
        mirror.converge({1: port(1)})
        assert {key for key, _ in client.flows()} == set(
            encode_flows(flow(1, place) for place in range(5))
        )
    finally:
        other.close()


def test_ten_thousand_foreign_flows_are_followed(
    ovs: PrivateOvs, bridge: str, mirror, client
) -> None:
    text = "".join(f"table=6,priority=1,reg2={number},actions=drop\n" for number in range(10_000))
    (ovs.directory / "many").write_text(text)
    ovs.ofctl("add-flows", bridge, str(ovs.directory / "many"))
    wait_until(lambda: len(mirror) == 10_000)
    ovs.ofctl("del-flows", bridge)
    wait_until(lambda: len(mirror) == 0)
    assert is_true(mirror, client)


@pytest.mark.spec("L2-20")
@pytest.mark.parametrize("answer", ["late", "lost"])
def test_a_commit_whose_answer_does_not_come_is_found_by_reading_again(
    bridge, connected_to, answer
) -> None:
    relay = Relay(bridge)
    _, client = connected_to(relay)
    mirror = FlowMirror(client)
    mirror.wait_current(60)
    mirror.converge({"old": port(1)})
    plan = mirror.plan({"new": port(2)}, drop=["old"])
    if answer == "late":
        give_up_on_commits(relay, client)
    else:
        relay.loses_answers = True
        relay.may_connect.clear()
    with pytest.raises(BackendUnavailable):
        mirror.apply(plan)
    with pytest.raises(BackendUnavailable):
        mirror.plan({"new": port(2)})
    client.connection.timeout, relay.on_closed = 60, lambda: None
    relay.loses_answers = False
    relay.may_commit.set()
    relay.may_connect.set()
    mirror.wait_current(60)
    assert is_true(mirror, client)
    assert not mirror.plan({"new": port(2)}, drop=["old"], complete=OURS)
    mirror.converge({}, drop=["new"])
    assert client.flows() == []


def test_a_commit_that_never_reached_the_switch_is_planned_again(bridge, connected_to) -> None:
    relay = Relay(bridge)
    _, client = connected_to(relay)
    mirror = FlowMirror(client)
    mirror.wait_current()
    mirror.converge({"old": port(1)})
    relay.loses_commits = True
    with pytest.raises(BackendUnavailable):
        mirror.converge({"new": port(2)}, drop=["old"])
    relay.loses_commits = False
    mirror.wait_current()
    plan = mirror.converge({"new": port(2)}, drop=["old"])
    assert (len(plan.changes.added), len(plan.changes.removed)) == (5, 5)
    assert is_true(mirror, client)


def test_change_between_plan_and_commit_is_reported_and_repaired(
    ovs, bridge, mirror, client, watch
) -> None:
    mirror.converge({1: port(1)})
    wanted = {1: group_of(*(flow(1, place) for place in range(4)), flow(1, 4, of.output(4)))}
    plan = mirror.plan(wanted)
    ovs.ofctl("--strict", "del-flows", bridge, "table=5,priority=9,reg0=1,reg1=2")
    wait_until(lambda: watch.owners == {1})
    mirror.apply(plan)
    assert [encoded.flow for encoded in mirror.converge(wanted).changes.added] == [flow(1, 2)]
    assert is_true(mirror, client)


def test_a_plan_may_be_repeated_but_not_after_a_newer_one(mirror, client) -> None:
    mirror.converge({1: port(1)})
    away, less = mirror.plan({}, drop=[1]), mirror.plan({1: group_of(flow(1, 0))})
    mirror.apply(away)
    mirror.apply(away)
    with pytest.raises(OperationRefused, match="plan again"):
        mirror.apply(less)
    assert len(mirror) == 0
    mirror.converge({1: group_of(flow(1, 9))})
    with pytest.raises(OperationRefused, match="plan again"):
        mirror.apply(away)
    assert is_true(mirror, client)
    assert len(mirror) == 1


def test_kept_owner_keeps_its_flows_in_a_complete_plan(mirror, client) -> None:
    mirror.converge({1: port(1), 2: port(2)})
    plan = mirror.plan({}, complete=OURS, keep=[2])
    mirror.apply(plan)
    assert {key for key, _ in client.flows()} == set(
        encode_flows(flow(2, place) for place in range(5))
    )


def test_many_plans_in_a_row_are_known_without_reading(mirror, client, watch) -> None:
    for turn in range(200):
        mirror.converge({1: port(1, of.output(1 + turn % 2))})
    assert is_true(mirror, client)
    assert (mirror._monitor, watch.drifts) == (1, [])
