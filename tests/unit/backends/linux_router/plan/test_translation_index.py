"""The index of floating IPs, and what one more of them costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.values.keys import FloatingIpKey
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.operations import PutChain
from netfw.linux.iptables.rule import Family, render_rule
from netfw.linux.service_netns.steps import RestoreTables
from netfw.model.values.ids import FloatingIpId
from netfw.plan import Update
from netfw_drivers.linux_router.plan import floating_ip_rules
from netfw_drivers.linux_router.plan.floating_ip_rules import (
    DNAT,
    Translation,
    float_chain,
    render_float_chains,
)
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER
from netfw_drivers.linux_router.plan.observed import ObservedRouters
from netfw_drivers.linux_router.plan.plan import plan_routers
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from tests.unit.backends.linux_router.samples import CONTEXT, ROUTER, found, nat, translation

FEW, MANY = 40, 400
COUNTED: tuple[_lru_cache_wrapper[Any], ...] = (
    floating_ip_rules.parse_translation,
    floating_ip_rules._rule,
)


def id(number: int) -> FloatingIpId:
    return FloatingIpId(UUID(int=number))


def of(number: int) -> Translation:
    return translation(str(ip_address("10.0.0.0") + number), str(ip_address("203.1.0.0") + number))


def line(number: int, each: Translation) -> str:
    (chain,) = render_float_chains([DNAT], each.family, {id(number): each}).values()
    (rule,) = chain.rules
    return render_rule(rule, CHAIN_OWNER)


def calls(work: Callable[[], object]) -> int:
    """Count the rules that are parsed or rendered."""
    infos = [each.cache_info() for each in COUNTED]
    before = sum(info.hits + info.misses for info in infos)
    work()
    infos = [each.cache_info() for each in COUNTED]
    return sum(info.hits + info.misses for info in infos) - before


LINES = st.one_of(
    st.builds(
        lambda number, other, fixed: line(
            number, translation(f"10.0.0.{fixed}", f"203.0.113.{other}")
        ),
        st.integers(1, 4),
        st.integers(1, 4),
        st.integers(1, 3),
    ),
    st.just("-j RETURN"),
)
CHAINS = st.lists(LINES, max_size=6).map(tuple)


@given(st.lists(CHAINS, max_size=6))
def test_an_index_that_advances_is_the_one_that_is_parsed(steps: list[tuple[str, ...]]) -> None:
    index = TranslationIndex()
    for lines in steps:
        chains: dict[ChainKey, tuple[str, ...]] = {float_chain(DNAT, Family.IPV4): lines}
        index, parsed = index.advance(chains), TranslationIndex().advance(chains)
        assert [*index.translations.items()] == [*parsed.translations.items()]
        assert index.floating == parsed.floating


def test_what_an_index_has_beyond_another() -> None:
    key = float_chain(DNAT, Family.IPV4)
    one, two = line(1, of(1)), line(2, of(2))
    former = TranslationIndex().advance({key: (one,)})
    now = former.advance({key: (one, two)})
    assert dict(now.beyond(former)) == {id(2): of(2)}
    assert dict(former.beyond(now)) == {}


@pytest.mark.spec("L3-24")
def test_one_more_floating_ip_costs_the_same_beside_few_and_many() -> None:
    costs = {}
    for count in (FEW, MANY):
        own = {id(number): of(number) for number in range(1, count + 1)}
        there = found(
            translations=own, floating=tuple(f"{each.floating}/32" for each in own.values())
        )
        known = evolve(there, former=there.index)
        new = of(count + 1)
        update = Update(put={FloatingIpKey(id(count + 1)): nat(str(new.fixed), str(new.floating))})
        observed = ObservedRouters(routers={ROUTER: known})
        costs[count] = calls(lambda u=update, o=observed: plan_routers(u, o, CONTEXT))
    assert costs[MANY] == costs[FEW] > 0


def test_rules_of_a_new_floating_ip_are_added_at_the_end() -> None:
    own = {id(number): of(number) for number in range(2, FEW)}
    there = found(translations=own, floating=tuple(f"{each.floating}/32" for each in own.values()))
    new = of(1)
    update = Update(put={FloatingIpKey(id(1)): nat(str(new.fixed), str(new.floating))})
    planned = plan_routers(update, ObservedRouters(routers={ROUTER: there}), CONTEXT)
    restore = planned.stages[0].operations[0].payload
    assert isinstance(restore, RestoreTables)
    puts = [each for change in restore.changes for each in change.operations]
    assert len(puts) == 2
    for put in puts:
        assert isinstance(put, PutChain)
        assert put.edits is not None
        assert not put.edits.removed
        assert [place for place, _ in put.edits.inserted] == [None]
        assert put.lines[:-1] == there.mirror.chains[put.key]
