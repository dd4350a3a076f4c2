"""Flows that an earlier run has left: whose they are, and which of them nobody has."""

from netfw import flows as of
from netfw.ovs.openflow import CookieSpace, FlowCache, encode_flows, group_of
from netfw.ovs.openflow.flow_cache import digest


def flow(number: int, *actions: of.Action, cookie: int = 1) -> of.Flow:
    return of.Flow(table=0, priority=1, match=of.in_port(number), actions=actions, cookie=cookie)


def loaded(*flows: of.Flow) -> FlowCache:
    """A book of a switch that holds *flows*, of which nobody knows whose they are."""
    book = FlowCache()
    book.load({key: digest(encoded.state) for key, encoded in encode_flows(flows).items()})
    return book


def test_what_is_adopted_can_be_dropped():
    book = loaded(flow(1), flow(2))
    assert not book.plan({}, drop=["a"])
    book.adopt({"a": group_of(flow(1), flow(9))})
    assert list(book.plan({}, drop=["a"]).changes.lines()) == [
        "remove cookie=0x1,table=0,priority=1,in_port=1"
    ]


def test_what_is_adopted_is_compared_when_it_is_put():
    book = loaded(flow(1, of.normal()))
    book.adopt({"a": group_of(flow(1))})
    assert not book.plan({"a": group_of(flow(1, of.normal()))})
    plan = book.plan({"a": group_of(flow(1, of.output(7)))})
    assert [encoded.flow for encoded in plan.changes.changed] == [flow(1, of.output(7))]


def test_what_somebody_has_is_not_adopted_by_another():
    book = loaded(flow(1))
    book.confirm(book.plan({"a": group_of(flow(1))}))
    book.adopt({"b": group_of(flow(1)), "a": group_of()})
    assert not book.plan({}, drop=["b"])
    assert len(book.plan({}, drop=["a"]).changes) == 1


def test_erasing_takes_what_nobody_has_and_leaves_the_rest():
    book = loaded(flow(1), flow(2), flow(3, cookie=2))
    book.confirm(book.plan({"a": group_of(flow(1))}))
    plan = book.plan({}, erase=CookieSpace(1, 0xFF))
    assert list(plan.changes.lines()) == ["remove cookie=0x1,table=0,priority=1,in_port=2"]
    assert plan.gone == frozenset()
