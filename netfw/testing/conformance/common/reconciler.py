"""Tests of the promises of every `Reconciler`: observe, plan, apply."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, cast

import pytest

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler, no_checkpoint
from netfw.errors import BackendUnavailable, Conflict, OperationRefused
from netfw.plan import Plan, Stage, Update
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.side_effects import HostMachineConformance
from netfw.testing.conformance.watch.calls import unwatched
from netfw.testing.conformance.watch.fingerprint import fingerprint
from netfw.testing.conformance.watch.machine_state import effects, machine_changes

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Drift = Callable[[Any, Any], None]
FEW, MANY = 2, 10
"""Keys of a host by which a cost that grows with the host is seen."""
EFFORT = 2_000_000
"""Calls of functions after which a plan is given up."""


class Killed(BaseException):
    """The end of the driver's process; no driver catches it."""


def dies_at(driver: Reconciler[K, V, Any], update: Update[K, V], stage: int) -> bool:
    """Kill *driver* after *stage* of *update*; return false if it finished before."""
    passed: list[Stage] = []

    def checkpoint(done: Stage) -> None:
        passed.append(done)
        if len(passed) > stage:
            raise Killed

    try:
        driver.apply(driver.plan(update, driver.observe(update)), checkpoint)
    except Killed:
        return True
    return False


class ReconcilerConformance(HostMachineConformance[K, V]):
    """The promises of :class:`Reconciler`, for drivers that declare ``HostCapability.PLAN``."""

    def drifts(self) -> Mapping[str, Drift]:
        """Return ways to damage what the driver made, by name; each takes the key and its value."""
        raise NotImplementedError("override `drifts`: what can other programs change?")

    def reconciler(self, driver: HostDriver[K, V]) -> Reconciler[K, V, Any]:
        self.require(driver, HostCapability.PLAN)
        assert isinstance(driver, Reconciler), "it declares the capability 'plan'"
        return cast(Reconciler[K, V, Any], driver)

    def plan(self, driver: Reconciler[K, V, Any], update: Update[K, V]) -> Plan:
        return driver.plan(update, driver.observe(update))

    @proves(Reconciler, 1)
    def test_planning_is_pure_and_touches_nothing(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(2)
        update = Update(put=things)
        observed = reconciler.observe(update)
        plan = reconciler.plan(update, observed)
        assert plan == reconciler.plan(update, observed), "the same observation gives another plan"
        assert plan, "there is something to do"
        assert len(list(plan.lines())) == len(plan), "an operation has no line"
        self.assert_gone(things)

    @proves(Reconciler, 1)
    def test_a_plan_depends_on_the_observation_alone(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        update = Update(put=self.examples(2))
        observed = reconciler.observe(None)
        plan = list(reconciler.plan(update, observed).lines())
        before = fingerprint(observed, deep=True)
        reconciler.converge(update)
        if fingerprint(observed, deep=True) != before:
            return  # it is a view of the mirror, and not the same any more
        again = list(reconciler.plan(update, observed).lines())
        assert again == plan, (
            f"promise 1 of Reconciler: the same observation gave {plan} before the machine changed "
            f"and {again} after that: `plan` looks past the observation"
        )

    @proves(Reconciler, 7)
    def test_converge_does_what_the_plan_shows(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(2)
        update = Update(put=things)
        reconciler.apply(self.plan(reconciler, update), no_checkpoint)
        self.assert_so(things)
        planned = self.machine().without_identities()
        self.assert_done(reconciler.converge(Update(complete=True)))
        self.assert_done(reconciler.converge(update))
        differences = list(machine_changes(planned, self.machine().without_identities()))
        assert not differences, (
            f"promise 7 of Reconciler: after `converge` the machine is not as after `apply` of the "
            f"plan: {'; '.join(differences)}"
        )

    @proves(Reconciler, 2)
    def test_after_applying_there_is_nothing_left_to_do(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(2)
        one, two = things
        changed = {one: self.changed(things[one])}
        updates: list[Update[K, V]] = [
            Update(put=things),
            Update(put=changed),
            Update(put={two: things[two]}, complete=True),
            Update(drop=frozenset({two})),
            Update(complete=True),
        ]
        for update in updates:
            reconciler.apply(self.plan(reconciler, update), no_checkpoint)
            left = self.plan(reconciler, update)
            assert not left, f"there is still to do: {left}"
        self.assert_held(reconciler, frozenset())

    @proves(Reconciler, 2)
    def test_nothing_is_left_to_do_for_an_edge_case_either(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        ((key, value),) = self.examples(1).items()
        for what, awkward in self.edge_cases(value).items():
            update = Update(put={key: awkward})
            if reconciler.converge(update).ok:
                left = reconciler.plan(update, reconciler.observe(None))
                assert not left, f"{what} is said to be done, and there is still to do: {left}"
            reconciler.converge(Update(drop=frozenset({key})))

    @proves(Reconciler, 3)
    def test_dying_after_any_stage_of_making_is_safe(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(2)
        self.kill_at_every_stage(make_driver, {}, Update(put=things, complete=True))

    @proves(Reconciler, 3)
    def test_dying_after_any_stage_of_changing_is_safe(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(2)
        changed = {key: self.changed(value) for key, value in things.items()}
        self.kill_at_every_stage(make_driver, things, Update(put=changed, complete=True))

    @proves(Reconciler, 3)
    def test_dying_after_any_stage_of_removing_is_safe(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        self.kill_at_every_stage(make_driver, self.examples(2), Update(complete=True))

    def kill_at_every_stage(
        self,
        make_driver: Callable[[], HostDriver[K, V]],
        before: Mapping[K, V],
        update: Update[K, V],
    ) -> None:
        """Kill a driver after each stage from *before* to *update*; the next driver finishes."""
        stage, died = 0, True
        while died:
            victim = self.reconciler(make_driver())
            self.assert_done(victim.converge(Update(put=before, complete=True)))
            died = dies_at(victim, update, stage)
            successor = make_driver()
            self.assert_done(successor.converge(update))
            self.assert_so(update.put)
            self.assert_held(successor, update.put.keys())
            self.assert_done(successor.converge(Update(complete=True)))
            self.assert_gone({**before, **update.put})
            successor.close()
            victim.close()
            stage += 1
        assert stage > 1, "there was something to do"

    @proves(Reconciler, 4)
    def test_the_mirror_and_the_machine_lead_to_the_same_plan(
        self, driver: HostDriver[K, V]
    ) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(3)
        one, two, three = things
        reconciler.converge(Update(put={one: things[one], two: things[two]}))
        update = Update(
            put={one: self.changed(things[one]), three: things[three]}, drop=frozenset({two})
        )
        sliced = reconciler.plan(update, reconciler.observe(update))
        whole = reconciler.plan(update, reconciler.observe(None))
        assert sliced == whole, "the mirror is not what the machine has"

    @proves(Reconciler, 4)
    def test_the_cost_of_a_key_does_not_grow_with_the_host(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        things = list(self.examples(MANY).items())
        (key, value), *_ = things
        update = Update(put={key: self.changed(value)})
        costs = []
        for count in (FEW, MANY):
            reconciler.converge(Update(put=dict(things[:count])))
            self.plan(reconciler, update)  # what is read once is read now
            with unwatched():
                costs.append(count_calls(lambda: self.plan(reconciler, update), EFFORT))
        few, many = costs
        assert many < 2 * few, (
            f"promise 4 of Reconciler: the plan of one key takes {few} calls of functions with "
            f"{FEW} keys on the host and {many} with {MANY}"
        )

    @proves(Reconciler, 5)
    def test_each_stage_passes_the_checkpoint(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        plan = self.plan(reconciler, Update(put=self.examples(2)))
        passed: list[Stage] = []
        reconciler.apply(plan, passed.append)
        assert tuple(passed) == plan.stages, "a stage passed no checkpoint, or twice"

    @proves(Reconciler, 5)
    @proves_raise(Reconciler, "apply", OperationRefused)
    def test_a_plan_that_came_too_late_is_refused_and_nothing_of_the_stage_is_done(
        self, driver: HostDriver[K, V]
    ) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(2)
        one, two = things
        update = Update(put=things)
        plan = self.plan(reconciler, update)
        self.make_foreign(things[one])
        passed: list[Stage] = []
        states = [self.machine()]

        def checkpoint(stage: Stage) -> None:
            passed.append(stage)
            states.append(self.machine())

        with pytest.raises(OperationRefused) as refusal:
            reconciler.apply(plan, checkpoint)
        assert len(passed) < len(plan.stages), "a stage was refused and passed its checkpoint"
        effect = list(effects(states, self.machine()))
        assert not effect, f"promise 5 of Reconciler: a refused stage has an effect: {effect}"
        blamed = {key for o in plan if o in refusal.value.reasons for key in o.owners}
        assert blamed == {one}, f"the refused operations are of {one} alone"
        outcome = reconciler.converge(update)
        assert isinstance(outcome.failed.get(one), Conflict), (
            f"a foreign object is a Conflict, not {outcome}"
        )
        assert outcome.done == {two}, f"the other key is done: {outcome}"
        self.assert_so({two: things[two]})
        assert self.foreign_is_intact(things[one]), "the foreign object was touched"

    @proves_raise(Reconciler, "apply", BackendUnavailable)
    def test_apply_raises_when_the_backend_is_unreachable(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        plan = self.plan(reconciler, Update(put=self.examples(1)))
        with self.outage(), pytest.raises(BackendUnavailable):
            reconciler.apply(plan, no_checkpoint)

    @proves_raise(Reconciler, "observe", BackendUnavailable)
    def test_observe_raises_when_the_backend_is_unreachable(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        reconciler.observe(None)
        with self.outage():
            with pytest.raises(BackendUnavailable):
                reconciler.observe(None)
            with pytest.raises(BackendUnavailable):
                reconciler.observe(Update(put=self.examples(1)))

    @proves(Reconciler, 6)
    def test_drift_is_repaired(self, driver: HostDriver[K, V]) -> None:
        reconciler = self.reconciler(driver)
        things = self.examples(2)
        key = next(iter(things))
        update = Update(put=things)
        reconciler.converge(update)
        for name, spoil in self.drifts().items():
            spoil(key, things[key])
            noticed = reconciler.plan(update, reconciler.observe(None))
            assert noticed, f"{name}: it goes unnoticed"
            outcome = reconciler.converge(update)
            assert outcome.ok, f"{name}: it is not repaired: {outcome}"
            self.assert_so(things)
            left = self.plan(reconciler, update)
            assert not left, f"{name}: there is still to do: {left}"
