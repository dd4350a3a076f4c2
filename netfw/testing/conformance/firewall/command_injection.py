"""Injection: values that bypass the checks of their classes must not reach a backend's language."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Network
from typing import Any, cast

import pytest
from attrs import frozen

from netfw.drivers.firewall import (
    FilteredPort,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
    Member,
    Rules,
)
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.errors import InvalidInput
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.firewall.case import UNFILTERED, FirewallCase
from netfw.testing.conformance.firewall.environment import FirewallTestPort
from netfw.testing.conformance.firewall.factories import (
    IN,
    OUT,
    State,
    a_group,
    everything,
    group,
    nothing,
    port,
    rule,
    trusted,
)

SENTINEL = "h0st1le"
"""In every text that must not reach the backend."""
TEXTS = (
    f"{SENTINEL}\n-A INPUT -j ACCEPT",
    f"{SENTINEL}\nCOMMIT\n*raw",
    f"{SENTINEL} -j ACCEPT",
    f"{SENTINEL},actions=normal",
    f"{SENTINEL}\x00",
    f'{SENTINEL}";quit',
    f"$({SENTINEL})",
    f"-{SENTINEL}",
    f"{SENTINEL}/0 0.0.0.0/0",
    f"{SENTINEL}\u2019\u202e",
    f"{SENTINEL}" * 40,
)
NUMBERS: tuple[object, ...] = (-1, 1 << 16, 1 << 40, 6.5, "6", f"6 -j {SENTINEL}", float("nan"))

Injected = tuple[FirewallKey, FirewallValue]


def forced(value: Any, **fields: object) -> Any:
    """Return an unvalidated copy of *value*."""
    made = copy.copy(value)  # without a cached hash
    for name, forbidden in fields.items():
        object.__setattr__(made, name, forbidden)
    return made


def invalid_ports(
    port: FirewallTestPort, good: FilteredPort, texts: Iterable[str] = TEXTS
) -> Iterator[Injected]:
    """Yield invalid values for a port."""
    for text in texts:
        yield port.key, forced(good, groups=frozenset({text}))
        yield port.key, forced(good, sources=frozenset({forced(_source(good), mac=text)}))
        yield port.key, forced(good, sources=frozenset({forced(_source(good), prefix=text)}))
        yield PortKey(cast(Any, text)), good
    scoped = forced(_source(good), prefix=_scoped())
    yield port.key, forced(good, sources=frozenset({scoped}))
    yield port.key, cast(Any, Rules())


def invalid_locations(good: FilteredPort) -> Iterator[FilteredPort]:
    """Yield locations that no host has, in fields that a driver may ignore."""
    for text in (*TEXTS, "", "..", "a/b", "x" * 40):
        yield forced(good, device=text)
        yield forced(good, network=text)
        yield forced(good, mac=text)


def invalid_groups(id: Any, texts: Iterable[str] = TEXTS) -> Iterator[Injected]:
    """Yield invalid values for a group."""
    good = rule(id, IN, 6, (80, 90))
    for text in texts:
        yield GroupKey(cast(Any, text)), Rules(frozenset({good}))
        for field in ("remote_prefix", "remote_group_id", "remote_address_group_id"):
            yield GroupKey(id), _one(forced(good, **{field: text}))
        for field in ("direction", "ethertype", "protocol"):
            yield GroupKey(id), _one(forced(good, **{field: text}))
    for number in NUMBERS:
        for field in ("protocol", "port_min", "port_max"):
            yield GroupKey(id), _one(forced(good, **{field: number}))
    yield GroupKey(id), _one(forced(good, port_min=90, port_max=80))
    yield GroupKey(id), _one(forced(good, remote_prefix=IPv6Network("fd00::/8")))
    yield GroupKey(id), _one(forced(good, protocol=58))
    yield GroupKey(id), _one(forced(good, protocol=47))
    yield GroupKey(id), _one(forced(rule(id, IN, version=6), remote_prefix=_scoped()))
    yield GroupKey(id), cast(Any, Rules(cast(Any, frozenset({SENTINEL}))))
    yield GroupKey(id), cast(Any, SENTINEL)


def invalid_members(id: Any, texts: Iterable[str] = TEXTS) -> Iterator[Injected]:
    """Yield invalid members."""
    good = Member(GroupKey(id), IPv6Network("fd00::/64"))
    for text in texts:
        for made in (
            forced(good, prefix=text),
            forced(good, mac=text),
            forced(good, group=GroupKey(cast(Any, text))),
            forced(good, group=text),
        ):
            yield made, made
    scoped = forced(good, prefix=_scoped())
    yield scoped, scoped
    yield good, cast(Any, Rules())


def _one(rule: SecurityGroupRule) -> Rules:
    return Rules(frozenset({rule}))


def _source(port: FilteredPort) -> AllowedSource:
    return min(port.sources, key=str)


def _scoped() -> IPv6Network:
    """Return a prefix with a scope, which is free text."""
    made = IPv6Network("fe80::/128")
    made.network_address._scope_id = f"{SENTINEL} -j ACCEPT"  # type: ignore[attr-defined]
    return made


@frozen
class Sender:
    """A port that may send everything: its group, its value, and all that was put."""

    group: SecurityGroupId
    good: FilteredPort
    state: State


class InjectionCase(FirewallCase):
    """How hostile values are offered to a driver."""

    def may_speak(
        self, driver: FirewallDriver, one: FirewallTestPort, outside: FirewallTestPort
    ) -> Sender:
        """Let *one*, which is filtered, send everything; *outside* is trusted."""
        id = a_group()
        state = {**port(one, id), **trusted(outside), **everything(id, OUT)}
        self.apply(driver, state)
        good = state[one.key]
        assert isinstance(good, FilteredPort)
        return Sender(id, good, state)

    def refuses(self, driver: FirewallDriver, invalid: Iterator[Injected]) -> None:
        """Check that each value is refused for its key alone, and leaves no trace."""
        former, present = self.environment.dump_state(), driver.present()
        for key, value in invalid:
            other = GroupKey(a_group())
            update: Update[Any, Any] = Update(put={key: value, **nothing(other.group)})
            outcome = driver.converge(update)
            assert outcome.done >= {other}, f"{value!r} concerns others: {outcome}"
            driver.converge(Update(drop=frozenset({other})))
            if not self.filtering:
                driver.converge(Update(drop=frozenset({key})))
                continue
            assert isinstance(outcome.failed.get(key), InvalidInput), f"{value!r} is not refused"
        if self.filtering:
            assert driver.present() == present
            picture = self.environment.dump_state()
            assert not [line for line in picture if SENTINEL in line]
            assert picture == former


class FirewallInjectionConformance(InjectionCase):
    """Refused by name, and nowhere else to be seen."""

    @proves(FirewallDriver, 9)
    def test_invalid_ports_are_refused_by_name(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        self.refuses(driver, invalid_ports(one, self.may_speak(driver, one, outside).good))
        self.assert_passes(one, outside, one.udp(outside, 9))
        self.assert_blocked(outside, one, outside.udp(one, 9))

    @proves(FirewallDriver, 9)
    def test_invalid_devices_and_networks_leave_no_trace(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        sender = self.may_speak(driver, one, outside)
        for value in invalid_locations(sender.good):
            outcome = driver.converge(Update(put={one.key: value, **nothing(sender.group)}))
            assert GroupKey(sender.group) in outcome.done, f"{value!r} concerns others: {outcome}"
            error = outcome.failed.get(one.key)
            assert error is None or isinstance(error, InvalidInput), f"{value!r}: {error!r}"
            seen = [line for line in self.environment.dump_state() if SENTINEL in line]
            assert not (self.filtering and seen)
        outcome = driver.converge(Update(put=sender.state))
        assert outcome.ok, str(outcome)
        self.environment.settle()
        self.assert_passes(one, outside, one.udp(outside, 9))
        self.assert_blocked(outside, one, outside.udp(one, 9))

    @proves(FirewallDriver, 9)
    def test_invalid_groups_are_refused_by_name(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        self.refuses(driver, invalid_groups(self.may_speak(driver, one, outside).group))
        self.assert_passes(one, outside, one.udp(outside, 9))
        self.assert_blocked(outside, one, outside.udp(one, 9))

    @proves(FirewallDriver, 9)
    def test_invalid_members_are_refused_by_name(self, driver: FirewallDriver) -> None:
        one, outside = self.make_ports(2)
        id, friends = a_group(), a_group()
        allow = group(id, rule(id, IN, version=6, remote=friends))
        self.apply(driver, {**port(one, id), **trusted(outside), **allow})
        self.refuses(driver, invalid_members(friends))
        self.assert_blocked(outside, one, outside.udp(one, 9, version=6))

    @proves(FirewallDriver, 5, 9)
    @proves(HostDriver, 4, 7)
    def test_one_refusal_concerns_one_key_and_leaves_the_old_in_force(
        self, driver: FirewallDriver
    ) -> None:
        one, two, outside = self.make_ports(3)
        id, other, wrong = a_group(), a_group(), a_group()
        state = {**port(one, id), **trusted(outside), **everything(id)}
        self.apply(driver, state)
        more = {**port(two, other), **everything(other)}
        broken = forced(rule(id, IN, 6, (80, 90)), port_min=f"1 -j {SENTINEL}")
        update = {**more, GroupKey(id): _one(broken), GroupKey(wrong): _one(broken)}
        self.wire({**state, **more})
        outcome = driver.converge(Update(put=update))
        if not self.filtering:
            pytest.skip(UNFILTERED)
        assert outcome.failed.keys() == {GroupKey(id), GroupKey(wrong)}, str(outcome)
        assert outcome.done == more.keys()
        assert driver.present() == {*state, *more}
        self.environment.settle()
        self.assert_passes(outside, one, outside.udp(one, 9))
        self.assert_passes(outside, two, outside.udp(two, 9))
