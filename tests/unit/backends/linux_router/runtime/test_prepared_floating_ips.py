"""Floating IPs that are prepared, and the routes that make them active."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterPart
from netfw.linux.iptables.rule import Family
from netfw.plan import Update
from netfw_drivers.linux_router.plan.floating_ip_rules import DNAT, float_chain
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from netfw_drivers.linux_router.runtime.converged_routers import ConvergedRouter
from netfw_drivers.linux_router.runtime.prepared_floating_ips import (
    PreparedFloatingIps,
    plan_route_move,
)
from tests.unit.backends.linux_router.distributed.test_gateway_link import NEW, ROUTES, found
from tests.unit.backends.linux_router.plan.test_translation_index import line
from tests.unit.backends.linux_router.samples import EXTERNAL, ROUTER, translation

INDEX = TranslationIndex().advance({float_chain(DNAT, Family.IPV4): (line(1, translation()),)})
((ID, EACH),) = INDEX.translations.items()
NAT = FloatingIpNat(
    router=ROUTER,
    part=RouterPart.LOCAL,
    external_network=EXTERNAL,
    floating_address=EACH.floating,
    fixed_address=EACH.fixed,
)
LINK = evolve(NEW, has_router_end=True)
ACTIVE = ConvergedRouter(id=ROUTER, index=INDEX, link=LINK.observed_in(found(*ROUTES)))
PREPARED = evolve(ACTIVE, prepared=frozenset({ID}), link=LINK.observed_in(found()))


@pytest.mark.spec("L3-67", "ML2-08")
@pytest.mark.parametrize(
    ("router", "prepared", "verb"), [(PREPARED, False, "add"), (ACTIVE, True, "delete")]
)
def test_only_the_route_moves(router: ConvergedRouter, prepared: bool, verb: str) -> None:
    move = plan_route_move(router, {ID: evolve(NAT, prepared=prepared)})
    assert move is not None
    (operation,) = [each for stage in move.stages for each in stage.operations]
    assert operation.text.startswith(f"ip route {verb} {EACH.floating}/32")
    assert move.router.prepared == (frozenset({ID}) if prepared else frozenset())


def test_what_is_as_it_should_be_or_has_other_rules_is_left_alone() -> None:
    other = evolve(NAT, fixed_address=EACH.fixed + 1)
    assert plan_route_move(ACTIVE, {ID: NAT}) is None
    assert plan_route_move(PREPARED, {ID: evolve(NAT, prepared=True)}) is None
    assert plan_route_move(PREPARED, {ID: other}) is None
    assert plan_route_move(evolve(PREPARED, link=None), {ID: NAT}) is None


def test_updates_tell_what_is_prepared_and_the_kernel_of_what_no_update_named() -> None:
    known, key = PreparedFloatingIps(), FloatingIpKey(ID)
    served = INDEX.translations
    assert known.among(served, PREPARED.link) == {ID}
    assert known.among(served, ACTIVE.link) == frozenset()
    known.record(Update(put={key: evolve(NAT, prepared=True)}))
    assert known.among(served, NEW) == {ID}, "its link is being made anew"
    known.record(Update(put={key: NAT}))
    assert known.among(served, PREPARED.link) == frozenset()
    known.record(Update(drop=frozenset({key})))
    assert known.among(served, PREPARED.link) == {ID}
