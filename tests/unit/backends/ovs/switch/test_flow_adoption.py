"""Flows that an earlier run has left: whose they are, and which of them nobody has."""

from netfw import flows as of
from netfw.ovs.openflow import CookieSpace, FlowCache, encode_flows, group_of
from netfw.ovs.openflow.flow_cache import digest


def flow(number: int, *actions: of.Action, cookie: int = 1) -> of.Flow:
    return of.Flow(table=0, priority=1, match=of.in_port(number), actions=actions, cookie=cookie)


def loaded(*flows: of.Flow) -> FlowCache:
    """Return a cache of a switch that holds *flows*, whose owners are not known."""
    cache = FlowCache()
    cache.load({key: digest(encoded.state) for key, encoded in encode_flows(flows).items()})
    return cache


def keys_of(*flows: of.Flow) -> list[bytes]:
    return list(encode_flows(flows))


def test_what_is_adopted_can_be_dropped():
    cache = loaded(flow(1), flow(2))
    assert not cache.plan({}, drop=["a"])
    cache.adopt({"a": keys_of(flow(1), flow(9))})
    assert list(cache.plan({}, drop=["a"]).changes.lines()) == [
        "remove cookie=0x1,table=0,priority=1,in_port=1"
    ]


def test_what_is_adopted_is_compared_when_it_is_put():
    cache = loaded(flow(1, of.normal()))
    cache.adopt({"a": keys_of(flow(1))})
    assert not cache.plan({"a": group_of(flow(1, of.normal()))})
    plan = cache.plan({"a": group_of(flow(1, of.output(7)))})
    assert [encoded.flow for encoded in plan.changes.changed] == [flow(1, of.output(7))]


def test_owned_flows_are_not_adopted_by_another_owner():
    cache = loaded(flow(1))
    cache.confirm(cache.plan({"a": group_of(flow(1))}))
    cache.adopt({"b": keys_of(flow(1)), "a": keys_of()})
    assert not cache.plan({}, drop=["b"])
    assert len(cache.plan({}, drop=["a"]).changes) == 1


def test_erasing_removes_flows_without_owner_and_leaves_the_rest():
    cache = loaded(flow(1), flow(2), flow(3, cookie=2))
    cache.confirm(cache.plan({"a": group_of(flow(1))}))
    plan = cache.plan({}, erase=[CookieSpace(1, 0xFF)])
    assert list(plan.changes.lines()) == ["remove cookie=0x1,table=0,priority=1,in_port=2"]
    assert plan.gone == frozenset()


def test_erasing_removes_the_flows_of_several_spaces():
    cache = loaded(flow(1), flow(2, cookie=2), flow(3, cookie=3))
    plan = cache.plan({}, erase=[CookieSpace(1, 0xFF), CookieSpace(2, 0xFF)])
    assert plan.changes.removed.keys() == {*keys_of(flow(1), flow(2))}
