"""Updates: the state after and during them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, cast

import pytest
from attrs import evolve

from netfw.drivers.firewall import FirewallDriver, FirewallKey, FirewallValue, Member
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler, no_checkpoint
from netfw.errors import BackendUnavailable
from netfw.model.values.protocol import TCP, UDP
from netfw.plan import Stage, Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.reconciler import dies_at
from netfw.testing.conformance.firewall.background_traffic import BackgroundTraffic
from netfw.testing.conformance.firewall.case import FirewallCase, MakeDriver
from netfw.testing.conformance.firewall.environment import Delivery, FirewallTestPort
from netfw.testing.conformance.firewall.factories import (
    FAMILIES,
    IN,
    OUT,
    State,
    a_group,
    everything,
    group,
    member,
    members,
    nothing,
    port,
    rule,
    trusted,
)
from netfw.testing.conformance.firewall.reference_model import passes

LONG = "NETFW_LONG"
"""Environment variable that selects the long form of tests."""


class FirewallUpdatesConformance(FirewallCase):
    """The general promises of drivers, in terms of packets; and the promise on updates."""

    updates: ClassVar[int] = 500 if os.environ.get(LONG) else 60
    """Number of updates during which no packet may leak or be lost."""

    def states(self) -> tuple[list[State], list[FirewallTestPort]]:
        """Return policies that differ in every way, for the same test ports."""
        one, two, friend, outside = self.make_ports(4)
        id, other, friends = a_group(), a_group(), a_group()
        around = trusted(friend, outside)
        all_in = [rule(id, IN, TCP, (80, 90)), rule(id, IN, TCP, (80, 90), version=6)]
        remote = [rule(id, IN, UDP, (9, 9), version=v, remote=friends) for v in FAMILIES]
        web = group(id, *all_in, *remote)
        wide = {**everything(other), **member(friends, "10.16.0.0/12")}
        states: list[State] = [
            {},
            {**around, **port(one, id), **web},
            {**around, **port(one, id), **port(two, id), **web, **members(friends, friend)},
            {**around, **port(one, id, other), **port(two, other), **web, **nothing(other)},
            {**around, **port(one, other), **port(two, id), **wide, **web},
            {**around, **port(one, id), **trusted(two), **nothing(id), **wide},
            {**around, **port(one, id), **port(two, other), **web, **everything(other, OUT)},
        ]
        return states, [one, two, friend, outside]

    def matrix(
        self, ports: list[FirewallTestPort]
    ) -> Iterator[tuple[FirewallTestPort, FirewallTestPort, Any]]:
        """Yield packets of which some pass and some do not in each of the states."""
        for one in ports:
            for two in ports:
                if one is not two:
                    for version in FAMILIES:
                        for number in (80, 91):
                            yield one, two, one.tcp(two, number, version=version)
                        yield one, two, one.udp(two, 9, version=version)

    def expected(
        self, ports: list[FirewallTestPort], *policies: Mapping[FirewallKey, FirewallValue]
    ) -> list[Delivery]:
        """Return the deliveries with one result in all *policies*, between ports of all of them."""
        number = next(FirewallCase.numbers)
        deliveries = []
        for one, two, packet in self.matrix(ports):
            sent = _on_new_connection(packet, number)
            results = {passes(policy, sent, one.key, two.key) for policy in policies}
            known = all({one.key, two.key} <= policy.keys() for policy in policies)
            if known and len(results) == 1:
                expected = results.pop() or not self.filtering
                deliveries.append(Delivery(one, two, sent, expected))
        return deliveries

    @proves(FirewallDriver, 1)
    @proves(HostDriver, 1, 3, 7)
    def test_states_can_be_visited_in_any_order(self, driver: FirewallDriver) -> None:
        """Check that what passes depends on the desired state alone, not on its history."""
        states, ports = self.states()
        shuffled = random.Random(1).sample(states, len(states))
        for location, state in enumerate([*states, *reversed(states), *shuffled]):
            if location % 2:
                self.apply(driver, state)
            else:
                self.wire(state)
                self.update_to(state)
                outcome = driver.converge(Update(put=state, complete=True))
                assert outcome.ok, str(outcome)
                self.environment.settle()
            assert driver.present() == state.keys()
            self.assert_deliveries(self.expected(ports, state))

    @proves(FirewallDriver, 5)
    def test_nothing_leaks_and_nothing_is_lost_during_updates(self, driver: FirewallDriver) -> None:
        """Open connections all the while; another rule allows them after each update."""
        one, two, friend, outside = self.make_ports(4)
        first, second, friends = a_group(), a_group(), a_group()
        allowed = rule(first, IN, UDP, (9, 9)), rule(second, IN, UDP, (1, 99), remote=friends)
        around = {
            **trusted(friend, outside), **port(two, first, second), **members(friends, friend),
        }  # fmt: skip
        states: list[State] = [
            {**around, **port(one, first), **group(first, allowed[0])},
            {**around, **port(one, second), **group(second, allowed[1])},
            {**around, **port(one, second, first), **group(second, allowed[1]), **nothing(first)},
            {
                **around, **port(one, first, second),
                **group(first, rule(first, IN, UDP, prefix="10.0.0.0/8"), rule(first, IN, TCP)),
                **member(friends, "192.0.2.0/24"),
            },
        ]  # fmt: skip
        self.apply(driver, states[0])
        kept = self.opened(friend, one, 9, protocol=UDP)
        going_on = (
            Delivery(one, friend, kept.back(), True),
            Delivery(friend, one, kept.forth(), True),
        )
        deliveries = [*going_on, *self._load(one, two, friend, outside)]
        load = BackgroundTraffic(self, deliveries)
        with load.running():
            number = 0
            while not load.wrong and (number < self.updates or load.rounds < 3):
                number += 1
                outcome = driver.converge(self.update_to(states[number % len(states)]))
                assert outcome.ok, str(outcome)
        assert not load.wrong, load.wrong[0]
        self.environment.settle()
        self.assert_lives(kept)

    def _load(
        self,
        one: FirewallTestPort,
        two: FirewallTestPort,
        friend: FirewallTestPort,
        outside: FirewallTestPort,
    ) -> list[Delivery]:
        """Return what is allowed, and what is denied, in all states of the test above."""
        number = next(FirewallCase.numbers)
        sent = [
            Delivery(friend, one, friend.udp(one, 9, source_port=3000 + number % 9000 + n), True)
            for n in range(20)
        ]
        denied = not self.filtering
        for n in range(5):
            ports = {"source_port": 20000 + number % 9000 + n}
            sent += [
                Delivery(outside, one, outside.udp(one, 500, version=6, **ports), denied),
                Delivery(friend, one, friend.tcp(one, 9, version=6, **ports), denied),
                Delivery(one, outside, one.udp(outside, 9, **ports), denied),
                Delivery(friend, two, friend.udp(two, 9, version=6, **ports), denied),
            ]
        return sent

    @proves(FirewallDriver, 5)
    @proves(Reconciler, 5)
    def test_atomicity_of_updates_holds_at_every_checkpoint(self, driver: FirewallDriver) -> None:
        """Check that what both policies deny is dropped, and what both allow passes."""
        reconciler = self.reconciler(driver)
        states, ports = self.states()
        # Which ports the firewall is asked about at all is the agent's and the switch's affair.
        known = [states[2], states[3], states[4], states[6]]
        pairs = [(a, b) for a in known for b in known if a is not b]
        for old, new in pairs:
            self.apply(driver, old)
            update = self.update_to(new)
            passed: list[Stage] = []

            def checkpoint(
                stage: Stage, old: State = old, new: State = new, passed: list[Stage] = passed
            ) -> None:
                passed.append(stage)
                self.environment.settle()
                self.assert_deliveries(self.expected(ports, old, new))

            plan = reconciler.plan(update, reconciler.observe(update))
            reconciler.apply(plan, checkpoint)
            assert tuple(passed) == plan.stages
            self.assert_deliveries(self.expected(ports, new))

    @proves(HostDriver, 6)
    @proves(Reconciler, 3)
    def test_dying_after_any_stage_is_safe(self, make_driver: MakeDriver) -> None:
        states, ports = self.states()
        for old, new in ((states[2], states[4]), (states[4], states[6]), (states[6], {})):
            stage, died = 0, True
            while died:
                killed = self.reconciler(make_driver())
                self.wire(old)
                assert killed.converge(Update(put=old, complete=True)).ok
                self.wire(new)
                died = dies_at(killed, Update(put=new, complete=True), stage)
                successor = make_driver()
                outcome = successor.converge(Update(put=new, complete=True))
                assert outcome.ok, str(outcome)
                assert successor.present() == new.keys()
                self.environment.settle()
                self.assert_deliveries(self.expected(ports, new))
                stage += 1

    @proves(HostDriver, 1)
    @proves(Reconciler, 2)
    def test_repeating_changes_nothing(self, driver: FirewallDriver) -> None:
        for state in self.states()[0]:
            self.apply(driver, state)
            former = self.environment.dump_state()
            for complete in (False, True):
                update = Update(put=state, complete=complete)
                assert driver.converge(update).done == state.keys()
                assert self.environment.dump_state() == former
                if self.plans(driver):
                    reconciler = self.reconciler(driver)
                    left = reconciler.plan(update, reconciler.observe(None))
                    assert not left, f"there is still to do: {left}"

    @proves(HostDriver, 2)
    def test_dropping_what_is_absent_succeeds(self, driver: FirewallDriver) -> None:
        state = self.states()[0][2]
        for _ in range(2):
            assert driver.converge(Update(drop=frozenset(state))).done == state.keys()

    @proves(HostDriver, 3)
    def test_a_complete_update_removes_the_rest(self, driver: FirewallDriver) -> None:
        states, ports = self.states()
        self.apply(driver, {})
        blank = self.environment.dump_state()
        self.apply(driver, states[4])
        assert self.environment.dump_state() != blank, (
            "promise 3 of HostDriver: the state of the host is the same with and without what was "
            "put: `dump_state` reads something else than the driver writes"
        )
        kept = {k: v for k, v in states[4].items() if k not in members_of(states[4])}
        first, *rest = kept
        update = Update(put={first: kept[first]}, complete=True, keep=frozenset(rest))
        assert driver.converge(update).ok
        assert driver.present() == kept.keys()
        self.environment.settle()
        self.assert_deliveries(self.expected(ports, kept))
        assert driver.gc(rest).ok
        assert driver.present() == set(rest)
        assert driver.gc([]).ok
        assert driver.present() == frozenset()
        assert self.environment.dump_state() == blank

    @proves(HostDriver, 5)
    def test_what_the_driver_did_not_make_stays(self, driver: FirewallDriver) -> None:
        states, _ = self.states()
        self.apply(driver, states[2])
        self.environment.make_foreign()
        for state in (states[4], states[1], {}):
            self.wire(state)
            assert driver.converge(Update(put=state, complete=True)).ok
        assert self.environment.foreign_is_intact()

    @proves(HostDriver, 7)
    @proves(Reconciler, 6)
    def test_what_was_lost_is_noticed_and_made_again(self, driver: FirewallDriver) -> None:
        states, ports = self.states()
        self.apply(driver, states[2])
        self.environment.lose_state()
        if self.plans(driver):
            self.reconciler(driver).observe(None)
        left = driver.present()
        assert not left, (
            f"promise 7 of HostDriver: what was lost is still present: {sorted(left, key=str)}"
        )
        self.wire(states[2])
        outcome = driver.converge(Update(put=states[2], complete=True))
        assert outcome.ok, str(outcome)
        assert driver.present() == states[2].keys()
        self.environment.settle()
        self.assert_deliveries(self.expected(ports, states[2]))

    @proves(Reconciler, 1, 4)
    def test_planning_is_pure_and_the_mirror_is_right(self, driver: FirewallDriver) -> None:
        reconciler = self.reconciler(driver)
        states, _ = self.states()
        for state in states:
            former = self.environment.dump_state()
            update = Update(put=state, drop=self.update_to(state).drop)
            self.wire(state)
            observed = reconciler.observe(update)
            plan = reconciler.plan(update, observed)
            assert plan == reconciler.plan(update, observed)
            assert len(list(plan.lines())) == len(plan)
            assert reconciler.plan(update, reconciler.observe(None)) == plan
            assert self.environment.dump_state() == former
            reconciler.apply(plan, no_checkpoint)

    @proves(FirewallDriver, 6)
    def test_the_cost_of_one_more_does_not_grow(self, driver: FirewallDriver) -> None:
        """Counted in things of the backend that came or went."""
        one, two, three, outside = self.make_ports(4)
        id, friends = a_group(), a_group()
        rules = [
            rule(id, way, TCP, (p, p), remote=friends) for way in (IN, OUT) for p in range(80, 90)
        ]
        state = {**port(one, id), **trusted(outside), **group(id, *rules)}
        many = [f"10.200.{n // 250}.{n % 250}" for n in range(200)]
        costs = []
        for count in (10, 190):
            some: State = {}
            for address in many[:count]:
                some |= member(friends, address)
            self.apply(driver, {**state, **some})
            before = self.environment.dump_state()
            self.apply(driver, {**state, **some, **member(friends, many[count])})
            costs.append(len(self.environment.dump_state() ^ before))
        assert costs[0] == costs[1] <= 8, costs
        self.apply(driver, {**state, **some})
        for more in (two, three):
            before = self.environment.dump_state()
            state = {**state, **port(more, id)}
            self.apply(driver, {**state, **some})
            costs.append(len(self.environment.dump_state() ^ before))
        assert costs[3] <= 1.5 * costs[2] <= 3 * costs[3], costs

    @proves_raise(HostDriver, "converge", BackendUnavailable)
    @proves_raise(HostDriver, "present", BackendUnavailable)
    @proves_raise(Reconciler, "observe", BackendUnavailable)
    @proves_raise(Reconciler, "apply", BackendUnavailable)
    def test_an_unreachable_backend_is_reported(self, driver: FirewallDriver) -> None:
        states, ports = self.states()
        self.apply(driver, states[1])
        outage = self.environment.outage()
        if outage is None:
            pytest.skip("the kernel always answers")
        update = Update(put=states[2])
        calls: list[Callable[[], object]] = [lambda: driver.converge(update), driver.present]
        if self.plans(driver):
            reconciler = self.reconciler(driver)
            plan = reconciler.plan(update, reconciler.observe(update))
            calls += [lambda: reconciler.observe(None)]
            calls += [lambda: reconciler.apply(plan, no_checkpoint)]
        with outage:
            for call in calls:
                with pytest.raises(BackendUnavailable):
                    call()
        self.wire(states[2])
        assert driver.converge(Update(put=states[2], complete=True)).ok
        self.environment.settle()
        self.assert_deliveries(self.expected(ports, states[2]))

    def plans(self, driver: FirewallDriver) -> bool:
        return HostCapability.PLAN in driver.describe().capabilities

    def reconciler(self, driver: FirewallDriver) -> Reconciler[FirewallKey, FirewallValue, Any]:
        self.require(driver, HostCapability.PLAN)
        assert isinstance(driver, Reconciler), "it declares the capability 'plan'"
        return cast(Reconciler[FirewallKey, FirewallValue, Any], driver)


def _on_new_connection(packet: Any, number: int) -> Any:
    """Return the same packet from another port: a separate connection."""
    return evolve(packet, source_port=10000 + number % 50000)


def members_of(state: State) -> set[FirewallKey]:
    """Return the members among the keys of *state*."""
    return {key for key in state if isinstance(key, Member)}
