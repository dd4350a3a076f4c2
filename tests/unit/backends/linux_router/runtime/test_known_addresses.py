"""Announced addresses of a namespace, as values."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.linux.iptables.rule import Family
from netfw.model.values.address import Mac
from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.plan.floating_ip_rules import DNAT, float_chain, parse_translation
from netfw_drivers.linux_router.plan.translation_index import TranslationIndex
from netfw_drivers.linux_router.runtime.announcements import (
    AnnouncedAddress,
    AnnouncedFloatingIps,
    KnownAddresses,
)
from tests.unit.backends.linux_router.plan.test_translation_index import line, of
from tests.unit.backends.linux_router.samples import translation

MAC, OTHER_MAC = Mac("fa:16:3e:00:00:01"), Mac("fa:16:3e:00:00:02")
LINES = tuple(line(number, of(number)) for number in range(1, 301))


def known(lines: tuple[str, ...], *own: AnnouncedAddress, mac: Mac = MAC) -> KnownAddresses:
    index = TranslationIndex().advance({float_chain(DNAT, Family.IPV4): lines})
    return KnownAddresses(frozenset(own), AnnouncedFloatingIps("qg-1", mac, index))


def address(number: int, mac: Mac = MAC) -> AnnouncedAddress:
    return AnnouncedAddress("qg-1", mac, of(number).floating)


def test_one_more_floating_ip_is_the_only_one_that_is_looked_at() -> None:
    before, now = known(LINES[:-1]), known(LINES)
    info = parse_translation.cache_info()
    count = info.hits + info.misses
    assert now.beyond(before) == {address(300)}
    assert before.beyond(now) == set()
    info = parse_translation.cache_info()
    assert info.hits + info.misses - count == 1


def test_all_are_new_with_another_mac_address_of_the_gateway() -> None:
    before, now = known(LINES[:2]), known(LINES[:2], mac=OTHER_MAC)
    assert now.beyond(before) == {address(1, OTHER_MAC), address(2, OTHER_MAC)}
    assert before.beyond(now) == {address(1), address(2)}


def test_a_floating_ip_of_another_port_has_its_address_on_both_sides() -> None:
    moved = line(1, translation("10.9.9.9", str(of(1).floating)))
    before, now = known(LINES[:1]), known((moved,))
    assert now.beyond(before) == before.beyond(now) == {address(1)}


def test_a_gateway_that_is_not_wired_has_none() -> None:
    before, now = known(LINES[:2]), KnownAddresses()
    assert now.beyond(before) == set()
    assert before.beyond(now) == {address(1), address(2)}


@pytest.mark.spec("L3-67", "ML2-08")
def test_a_prepared_floating_ip_is_announced_once_it_is_active() -> None:
    active = known(LINES[:2])
    assert active.floating is not None
    prepared = KnownAddresses(frozenset(), evolve(active.floating, prepared=_ids(1)))
    assert prepared.beyond(KnownAddresses()) == {address(2)}
    assert active.beyond(prepared) == {address(1)}
    assert prepared.beyond(active) == set()


def _ids(number: int) -> frozenset[FloatingIpId]:
    parsed = parse_translation(LINES[number - 1])
    assert parsed is not None
    return frozenset({parsed[0]})
