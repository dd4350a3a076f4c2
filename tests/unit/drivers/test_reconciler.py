"""Converge: observe, plan, apply, and what happens when something is refused."""

from collections.abc import Callable, Mapping

import pytest
from attrs import evolve, field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.reconciler import Reconciler
from netfw.errors import BackendUnavailable, Conflict, OperationRefused
from netfw.plan import Operation, Outcome, Plan, Stage, Update

Key, Value = str, int


def operation(verb: str, key: Key, value: Value | None = None, owners=None) -> Operation:
    return Operation("memory", f"{verb} {key}", {key} if owners is None else owners, (key, value))


@frozen
class Refusing:
    """Refuses some keys: for ever, or so many times."""

    times: dict[Key, float] = field(factory=dict)

    def __call__(self, key: Key) -> bool:
        left = self.times.get(key, 0)
        self.times[key] = left - 1
        return left > 0


class MemoryReconciler(Reconciler[Key, Value, Mapping[Key, Value]]):
    """Holds numbers; one stage for all removals, one for all else."""

    GROUP = "test"
    VERSION = 1

    def __init__(self, refuse: Callable[[Key], bool] = lambda key: False, owned=True) -> None:
        self.numbers: dict[Key, Value] = {}
        self.refuse = refuse
        self.owned = owned
        self.scopes: list[object] = []
        self.waiting: dict[Key, str] = {}
        self.impossible: dict[Key, Conflict] = {}

    @classmethod
    def from_conf(cls, options, host):
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("memory")

    def present(self) -> frozenset[Key]:
        return frozenset(self.numbers)

    def observe(self, scope):
        self.scopes.append(scope)
        return dict(self.numbers)

    def plan(self, update, observed) -> Plan:
        gone = set(update.drop) & observed.keys()
        if update.complete:
            gone |= observed.keys() - update.put.keys() - update.keep
        put = {k: v for k, v in update.put.items() if k not in self.impossible}
        owners = None if self.owned else frozenset()
        batches = (
            [operation("remove", key, owners=owners) for key in sorted(gone)],
            [operation("set", k, v, owners) for k, v in put.items() if observed.get(k) != v],
        )
        return Plan(
            stages=[Stage(batch) for batch in batches if batch],
            waiting={key: why for key, why in self.waiting.items() if key in put},
            refused={key: why for key, why in self.impossible.items() if key in update.put},
        )

    def apply(self, plan, checkpoint) -> None:
        for stage in plan.stages:
            reasons = {o: "no" for o in stage.operations if self.refuse(o.payload[0])}
            if reasons:
                raise OperationRefused(reasons)
            for o in stage.operations:
                key, value = o.payload
                if value is None:
                    del self.numbers[key]
                else:
                    self.numbers[key] = value
            checkpoint(stage)


def test_what_was_asked_for_is_done():
    driver = MemoryReconciler()
    driver.numbers = {"old": 1}
    outcome = driver.converge(Update(put={"a": 1}, drop=frozenset({"old", "absent"})))
    assert outcome == Outcome(done=frozenset({"a", "old", "absent"}))
    assert driver.numbers == {"a": 1}


def test_the_first_look_is_at_what_the_update_is_about():
    driver = MemoryReconciler()
    update = Update(put={"a": 1})
    driver.converge(update)
    assert driver.scopes == [update]


def test_plan_of_a_stale_observation_is_made_once_more_on_a_new_one():
    driver = MemoryReconciler(Refusing({"a": 1}))
    update = Update(put={"a": 1, "b": 2})
    assert driver.converge(update) == Outcome(done=frozenset({"a", "b"}))
    assert driver.scopes == [update, None]


def test_a_plan_that_needs_a_full_observation_is_made_again_before_anything_is_applied():
    class Forgetful(MemoryReconciler):
        def plan(self, update, observed) -> Plan:
            plan = super().plan(update, observed)
            return evolve(plan, needs_full_observation=self.scopes[-1] is not None)

        def apply(self, plan, checkpoint) -> None:
            assert not plan.needs_full_observation
            super().apply(plan, checkpoint)

    driver = Forgetful()
    update = Update(put={"a": 1})
    assert driver.converge(update) == Outcome(done=frozenset({"a"}))
    assert driver.scopes == [update, None]


def test_a_full_observation_is_made_once_whatever_the_plan_says():
    class NeverContent(MemoryReconciler):
        def plan(self, update, observed) -> Plan:
            return evolve(super().plan(update, observed), needs_full_observation=True)

    driver = NeverContent()
    assert driver.converge(Update(put={"a": 1})).ok
    assert len(driver.scopes) == 2


def test_key_refused_twice_is_left_out_and_others_are_done():
    driver = MemoryReconciler(Refusing({"bad": 99}))
    outcome = driver.converge(Update(put={"a": 1, "bad": 2, "b": 3}))
    assert outcome.done == {"a", "b"}
    assert set(outcome.failed) == {"bad"}
    assert "set bad: no" in str(outcome.failed["bad"])
    assert driver.numbers == {"a": 1, "b": 3}


def test_several_offenders_each_get_their_own_reason():
    driver = MemoryReconciler(Refusing({"x": 99, "y": 99}))
    outcome = driver.converge(Update(put={"a": 1, "x": 2, "y": 3}))
    assert {key: str(error) for key, error in outcome.failed.items()} == {
        "x": "memory: set x: no",
        "y": "memory: set y: no",
    }
    assert driver.numbers == {"a": 1}


def test_an_offender_that_shows_up_later_is_left_out_too():
    driver = MemoryReconciler(Refusing({"old": 99, "new": 99}))
    driver.numbers = {"old": 1}
    outcome = driver.converge(Update(put={"a": 1, "new": 2}, drop=frozenset({"old"})))
    assert outcome.done == {"a"}
    assert outcome.failed.keys() == {"old", "new"}


def test_complete_update_leaves_refused_keys_as_they_are():
    driver = MemoryReconciler(Refusing({"bad": 99}))
    driver.numbers = {"bad": 1, "garbage": 1}
    outcome = driver.converge(Update(put={"a": 1, "bad": 2}, complete=True))
    assert driver.numbers == {"a": 1, "bad": 1}, "the refused is not taken for garbage"
    assert outcome.done == {"a"}
    assert outcome.failed.keys() == {"bad"}


def test_garbage_that_cannot_be_removed_does_not_hold_up_the_rest():
    driver = MemoryReconciler(Refusing({"stuck": 99}))
    driver.numbers = {"stuck": 1, "loose": 1}
    outcome = driver.converge(Update(put={"a": 1}, complete=True))
    assert driver.numbers == {"a": 1, "stuck": 1}
    assert (outcome.done, set(outcome.failed)) == ({"a"}, {"stuck"})


def test_operation_without_owners_concerns_all_requested_keys():
    driver = MemoryReconciler(Refusing({"a": 99}), owned=False)
    outcome = driver.converge(Update(put={"a": 1, "b": 2}))
    assert outcome.failed.keys() == {"a", "b"}
    assert driver.numbers == {}


def test_refusal_without_owner_and_request_is_raised():
    driver = MemoryReconciler(Refusing({"old": 99}), owned=False)
    driver.numbers = {"old": 1}
    with pytest.raises(OperationRefused):
        driver.converge(Update(complete=True))


def test_what_has_to_wait_says_for_what():
    driver = MemoryReconciler()
    driver.waiting = {"a": "no number yet"}
    outcome = driver.converge(Update(put={"a": 1, "b": 2}))
    assert outcome == Outcome(done=frozenset({"b"}), waiting={"a": "no number yet"})


def test_what_planning_refuses_fails_at_once():
    driver = MemoryReconciler()
    driver.impossible = {"a": Conflict("taken")}
    driver.waiting = {"a": "in vain"}
    outcome = driver.converge(Update(put={"a": 1, "b": 2}))
    assert outcome == Outcome(done=frozenset({"b"}), failed=driver.impossible)
    assert len(driver.scopes) == 1


def test_unavailable_backend_is_raised_to_the_caller():
    class Unplugged(MemoryReconciler):
        def observe(self, scope):
            raise BackendUnavailable("no answer")

    with pytest.raises(BackendUnavailable):
        Unplugged().converge(Update(put={"a": 1}))


def test_a_key_that_failed_does_not_wait_as_well() -> None:
    driver = MemoryReconciler()
    driver.waiting = {"a": "a device"}
    driver.impossible = {"a": Conflict("taken")}
    driver.plan = lambda update, observed: Plan(  # type: ignore[method-assign]
        waiting=driver.waiting, refused=driver.impossible
    )
    outcome = driver.converge(Update(put={"a": 1}))
    assert outcome == Outcome(failed=driver.impossible)
