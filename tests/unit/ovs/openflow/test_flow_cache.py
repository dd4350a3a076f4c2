"""Differences, books and frames: everything about flows that needs no switch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw import flows as of
from netfw.ovs.openflow import (
    CookieSpace,
    Drift,
    FlowCache,
    FlowGroup,
    difference,
    encode_flows,
    group_of,
)
from netfw.ovs.openflow.encode import Encoded, canonical, describe_key
from netfw.ovs.openflow.flow_cache import digest
from netfw.ovs.openflow.messages import FlowEvent, FlowUpdateEvent, Framer, read_dump, read_monitor

OURS = CookieSpace(0x10, 0xF0)


def flow(number: int, *actions: of.Action, cookie: int = 0x10) -> of.Flow:
    match = of.tcp() & of.register(0, number) & of.tcp_dst(80)
    return of.Flow(table=5, priority=9, match=match, actions=actions, cookie=cookie)


def entries(*flows: of.Flow) -> list[tuple[bytes, bytes]]:
    return [(encoded.key, encoded.state) for encoded in encode_flows(flows).values()]


def shuffled(key: bytes) -> bytes:
    """Return the same key with its fields in reverse order."""
    fields, position = [], 3
    while position < len(key):
        after = position + 4 + key[position + 3]
        fields.append(key[position:after])
        position = after
    return key[:3] + b"".join(reversed(fields))


def test_the_order_of_fields_does_not_matter() -> None:
    (key, state), *_ = entries(flow(1))
    assert shuffled(key) != key
    assert canonical(shuffled(key)) == canonical(key) == key
    assert not difference(encode_flows([flow(1)]), [(shuffled(key), state)])


def test_a_key_reads_as_a_match() -> None:
    assert describe_key(Encoded(flow(5)).key) == "table=5,priority=9,tcp,reg0=0x5,tp_dst=80"
    strange = Encoded(flow(5)).key + bytes.fromhex("0001fe0412345678")
    assert describe_key(strange).endswith("tp_dst=80,0001fe0412345678")


def test_agreement_needs_nothing() -> None:
    flows = [flow(number, of.output(1)) for number in range(1, 9)]
    assert not difference(encode_flows(flows), entries(*flows))


@pytest.mark.spec("L2-20")
def test_the_difference_adds_changes_and_removes_what_is_ours() -> None:
    wanted = encode_flows([flow(1), flow(2, of.output(2)), flow(3)])
    there = entries(flow(2), flow(3), flow(4), flow(5, cookie=0x20))
    changes = difference(wanted, there, OURS)
    assert [encoded.flow for encoded in changes.added] == [flow(1)]
    assert [encoded.flow for encoded in changes.changed] == [flow(2, of.output(2))]
    assert changes.removed == {Encoded(flow(4)).key: 0x10}
    assert len(changes) == 3


def test_learnt_flows_are_known_by_table_and_cookie() -> None:
    learning = flow(1, of.learn(5, cookie=0x11))
    learnt, stranger = flow(2, cookie=0x11), flow(3, cookie=0x12)
    changes = difference(encode_flows([learning]), entries(learning, learnt, stranger), OURS)
    assert changes.removed == {Encoded(stranger).key: 0x12}


def group(*flows: of.Flow, source: object = None) -> FlowGroup:
    return FlowGroup(source or flows, lambda: flows)


class Switch:
    """A switch as a cache sees it: entries that plans and strangers change."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.cache = FlowCache()
        self.cache.load({})

    def converge(self, wanted: dict[object, FlowGroup]) -> int:
        plan = self.cache.plan(wanted, complete=OURS)
        for key in plan.changes.removed:
            del self.entries[key]
        for encoded in (*plan.changes.added, *plan.changes.changed):
            self.entries[encoded.key] = encoded.state
        self.cache.confirm(plan)
        return len(plan.changes)

    def strange_add(self, flow: of.Flow) -> None:
        encoded = Encoded(flow)
        kind = FlowUpdateEvent.MODIFIED if encoded.key in self.entries else FlowUpdateEvent.ADDED
        self.entries[encoded.key] = encoded.state
        self.cache.on_event(FlowEvent(kind, shuffled(encoded.key), encoded.state))

    def strange_delete(self, flow: of.Flow) -> None:
        encoded = Encoded(flow)
        if self.entries.pop(encoded.key, None) is not None:
            self.cache.on_event(FlowEvent(FlowUpdateEvent.REMOVED, encoded.key, encoded.state))


numbers = st.integers(1, 12)
flows = st.builds(
    lambda number, port, cookie: flow(number, of.output(port), cookie=cookie),
    numbers,
    st.integers(1, 2),
    st.sampled_from([0x10, 0x11]),
)
steps = st.lists(
    st.tuples(st.just("add"), flows | st.builds(lambda n: flow(n, cookie=0x20), numbers))
    | st.tuples(st.just("delete"), flows)
    | st.tuples(st.just("want"), st.lists(flows, unique_by=lambda flow: flow.identity)),
    max_size=30,
)


@pytest.mark.spec("L2-20")
@given(steps)
def test_whatever_strangers_do_the_next_plan_makes_it_right(history) -> None:
    switch = Switch()
    for verb, what in history:
        if verb == "add":
            switch.strange_add(what)
        elif verb == "delete":
            switch.strange_delete(what)
        else:
            wanted = {owner: group(*(f for f in what if f.match.get("reg0")[0] % 3 == owner))
                      for owner in range(3)}  # fmt: skip
            foreign = {
                key: state
                for key, state in switch.entries.items()
                if int.from_bytes(state[:8], "big") not in OURS
            }
            switch.converge(wanted)
            assert switch.entries == {**foreign, **dict(entries(*what))}
            assert switch.converge(wanted) == 0


def test_only_the_owner_of_a_touched_flow_looks_again() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1)), 2: group(flow(2))})
    (key, state), *_ = entries(flow(1))
    assert switch.cache.on_event(FlowEvent(FlowUpdateEvent.REMOVED, key, state)) == Drift(
        frozenset({1})
    )
    assert switch.cache.on_event(FlowEvent(FlowUpdateEvent.REMOVED, key, state)) == Drift()
    assert [encoded.flow for encoded in switch.cache.plan({1: group(flow(1))}).changes.added] == [
        flow(1)
    ]


def test_an_owner_that_is_kept_stays_as_it_is() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1)), 2: group(flow(2))})
    plan = switch.cache.plan({}, complete=OURS, keep=[2])
    assert plan.gone == {1}
    assert plan.changes.removed == {Encoded(flow(1)).key: 0x10}


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=10), st.data())
def test_messages_are_found_however_they_are_cut(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(
        bytes([5, 2]) + (8 + len(body)).to_bytes(2, "big") + bytes(4) + body for body in bodies
    )
    framer, found, position = Framer(), [], 0
    while position < len(stream):
        size = data.draw(st.integers(1, 60))
        found += [message.data[8:] for message in framer.feed(stream[position : position + size])]
        position += size
    assert found == bodies


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n", bytes(8), b"\x05\0\0\7\0\0\0\0"])
def test_what_is_not_a_message_is_refused(garbage: bytes) -> None:
    with pytest.raises(ValueError, match="a message of version"):
        list(Framer().feed(garbage))


@given(st.binary(max_size=200))
def test_garbage_in_a_dump_or_report_never_hangs(garbage: bytes) -> None:
    for read in (read_dump, read_monitor):
        try:
            list(read(bytes(16) + garbage))
        except ValueError:
            continue


def test_what_happens_between_plan_and_commit_is_not_forgotten() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1), flow(2))})
    plan = switch.cache.plan({1: group(flow(1), flow(2), flow(3))})
    switch.strange_delete(flow(1))
    assert switch.cache.confirm(plan) == Drift(frozenset({1}))
    again = switch.cache.plan({1: group(flow(1), flow(2), flow(3))})
    assert [encoded.flow for encoded in again.changes.added] == [flow(1)]


def test_a_flow_taken_over_between_plan_and_commit_is_still_seen() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1))})
    plan = switch.cache.plan({}, drop=[1])
    switch.strange_add(flow(1, cookie=0x99))
    assert switch.cache.confirm(plan) == Drift()
    assert Encoded(flow(1)).key in switch.cache.observed


def test_taking_over_what_is_there_does_not_hide_what_vanishes_meanwhile() -> None:
    switch = Switch()
    switch.strange_add(flow(1))
    plan = switch.cache.plan({1: group(flow(1))})
    assert not plan
    switch.strange_delete(flow(1))
    assert switch.cache.confirm(plan) == Drift(frozenset({1}))
    assert switch.cache.plan({1: group(flow(1))})


def test_a_doubtful_plan_is_settled_by_what_is_read() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1)), 2: group(flow(2))})
    before = dict(switch.cache.observed)
    plan = switch.cache.plan({1: group(flow(3))}, drop=[2])
    switch.cache.mark_uncertain(plan)
    assert switch.cache.load({Encoded(flow(3)).key: digest(Encoded(flow(3)).state)}) == Drift()
    assert not switch.cache.plan({1: group(flow(3))}, drop=[2], complete=OURS)
    switch.cache.mark_uncertain(switch.cache.plan({2: group(flow(4))}))
    assert switch.cache.load(before) == Drift(
        frozenset({1}), frozenset({Encoded(flow(1)).key, Encoded(flow(2)).key})
    )
    assert [item.flow for item in switch.cache.plan({2: group(flow(4))}).changes.added] == [flow(4)]


def test_a_doubtful_removal_is_settled_too() -> None:
    for there in (False, True):
        switch = Switch()
        switch.converge({1: group(flow(1), flow(2))})
        before = dict(switch.cache.observed)
        switch.cache.mark_uncertain(switch.cache.plan({}, drop=[1]))
        assert switch.cache.load(before if there else {}) == Drift()
        assert len(switch.cache.plan({}, drop=[1]).changes.removed) == (2 if there else 0)


def test_a_doubt_is_settled_once() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1))})
    switch.cache.mark_uncertain(switch.cache.plan({}, drop=[1]))
    switch.cache.load(dict(switch.cache.observed))
    assert switch.cache.load({}) == Drift(frozenset({1})), "somebody else has deleted it"


def test_a_doubtful_plan_does_not_undo_a_newer_one() -> None:
    switch = Switch()
    older = switch.cache.plan({1: group(flow(1))})
    switch.converge({1: group(flow(2))})
    switch.cache.mark_uncertain(older)
    there = {**switch.cache.observed, Encoded(flow(1)).key: digest(Encoded(flow(1)).state)}
    assert switch.cache.load(there) == Drift(unowned=frozenset({Encoded(flow(1)).key}))
    assert not switch.cache.plan({1: group(flow(2))})


def test_what_was_learnt_is_no_stray_when_everything_is_read() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1, of.learn(5, cookie=0x11)))})
    learnt, stranger = Encoded(flow(2, cookie=0x11)), Encoded(flow(3, cookie=0x12))
    there = {each.key: digest(each.state) for each in (learnt, stranger)}
    drift = switch.cache.load({**switch.cache.observed, **there})
    assert drift == Drift(unowned=frozenset({stranger.key}))


def test_a_flow_is_learned_while_one_owner_learns_it() -> None:
    switch = Switch()
    learns = of.learn(5, cookie=0x11)
    learned = Encoded(flow(9, cookie=0x11))
    appears = FlowEvent(FlowUpdateEvent.ADDED, learned.key, learned.state)
    vanishes = FlowEvent(FlowUpdateEvent.REMOVED, learned.key, learned.state)
    for owners, drift in (
        ((1, 2), Drift()),
        ((1, 2), Drift()),
        ((2,), Drift()),
        ((), Drift(unowned=frozenset({learned.key}))),
    ):
        switch.converge({owner: group(flow(owner, learns)) for owner in owners})
        assert switch.cache.on_event(appears) == drift
        switch.cache.on_event(vanishes)


def test_a_plan_is_outdated_for_those_whose_flows_were_planned_anew() -> None:
    switch = Switch()
    older = switch.cache.plan({1: group(flow(1)), 2: group(flow(2))})
    thief = switch.cache.plan({3: group(flow(1))})
    switch.converge({2: group(flow(5))})
    assert switch.cache.outdated(older) == {2}
    switch.cache.confirm(thief)
    assert switch.cache.outdated(older) == {2, 3}
    assert switch.cache.outdated(thief) == frozenset()


def test_a_plan_reads_as_what_it_does() -> None:
    switch = Switch()
    switch.converge({1: group(flow(1)), 2: group(flow(2))})
    plan = switch.cache.plan({1: group(flow(3, of.output(3))), 3: group(flow(2))})
    assert str(plan).splitlines() == [
        "remove cookie=0x10,table=5,priority=9,tcp,reg0=0x1,tp_dst=80",
        f"add {flow(3, of.output(3))}",
        "refuse 3: 2 has a flow for table=5,priority=9,tcp,reg0=0x2,tp_dst=80 already",
    ]
    assert str(plan).startswith(f"{plan.changes}\n")
    assert repr(plan.changes.added) == f"(Encoded({flow(3, of.output(3))}),)"


def test_owner_of_a_flow_keeps_it_whatever_the_order_of_requests() -> None:
    cache = FlowCache()
    cache.confirm(cache.plan({"a": group_of(flow(1)), "b": group_of(flow(2))}))
    keeping, giving_up = group_of(flow(2), flow(3)), group_of(flow(1))
    assert cache.plan({"a": group_of(flow(2)), "b": keeping}).refused.keys() == {"a"}
    assert cache.plan({"a": group_of(flow(2)), "b": giving_up}).refused == {}
