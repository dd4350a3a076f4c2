"""What a driver's defect costs: the keys that trigger it."""

from collections.abc import Iterable

import pytest

from netfw.agents.common.agent import reread
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import BackendUnavailable, Conflict, DriverCrashed
from netfw.plan import Outcome, Update


class CrashingDriver(HostDriver[str, int]):
    """Raises `ZeroDivisionError` as soon as one of certain keys is touched."""

    GROUP = "test"
    VERSION = 2

    def __init__(self, crashes_at: Iterable[str] = (), holding: Iterable[str] = ()) -> None:
        self.crashes_at = frozenset(crashes_at)
        self.numbers = dict.fromkeys(holding, 0)
        self.calls = 0

    @classmethod
    def from_conf(cls, options, host):
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("crashing")

    def present(self) -> frozenset[str]:
        return frozenset(self.numbers)

    def converge(self, update: Update[str, int]) -> Outcome[str]:
        self.calls += 1
        gone = set(update.drop)
        if update.complete:
            gone |= self.numbers.keys() - update.put.keys() - update.keep
        if self.crashes_at & (gone | update.put.keys()):
            raise ZeroDivisionError("division by zero")
        for key in gone:
            self.numbers.pop(key, None)
        self.numbers |= update.put
        return Outcome(done=frozenset(update))


@pytest.mark.spec("DRV-05")
def test_a_crash_costs_the_key_that_causes_it_and_nothing_else():
    driver = CrashingDriver({"f"})
    wanted = dict.fromkeys("abcdefgh", 1)
    outcome = converge_isolated(driver, Update(put=wanted))
    assert outcome.done == frozenset("abcdegh")
    assert outcome.failed.keys() == {"f"}
    assert driver.numbers.keys() == set("abcdegh")


def test_the_error_says_whose_fault_it_was_and_keeps_the_cause():
    outcome = converge_isolated(CrashingDriver({"a"}), Update(put={"a": 1}))
    error = outcome.failed["a"]
    assert isinstance(error, DriverCrashed)
    assert error.retryable
    assert str(error) == "crashing: ZeroDivisionError: division by zero"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.__cause__.__traceback__ is not None


def test_many_keys_with_one_that_crashes_cost_few_calls():
    driver = CrashingDriver({"77"})
    wanted = {str(number): number for number in range(1000)}
    assert len(converge_isolated(driver, Update(put=wanted)).done) == 999
    assert driver.calls < 25


def test_several_that_crash_are_all_found():
    driver = CrashingDriver({"a", "d", "e"})
    outcome = converge_isolated(driver, Update(put=dict.fromkeys("abcdef", 1)))
    assert outcome.failed.keys() == {"a", "d", "e"}
    assert outcome.done == {"b", "c", "f"}


def test_removals_are_divided_too_and_come_first():
    driver = CrashingDriver({"bad"}, holding=["old", "bad"])
    outcome = converge_isolated(driver, Update(put={"a": 1}, drop=frozenset({"old", "bad"})))
    assert outcome.done == {"a", "old"}
    assert outcome.failed.keys() == {"bad"}


def test_garbage_that_crashes_does_not_keep_the_rest_from_being_removed():
    driver = CrashingDriver({"stuck"}, holding=["stuck", "loose", "kept"])
    update = Update(put={"a": 1}, complete=True, keep=frozenset({"kept"}))
    outcome = converge_isolated(driver, update)
    assert driver.numbers.keys() == {"a", "stuck", "kept"}
    assert outcome.failed.keys() == {"stuck"}
    assert "a" in outcome.done


def test_what_is_kept_is_not_touched_though_its_touch_would_crash():
    driver = CrashingDriver({"kept", "bad"}, holding=["kept"])
    update = Update(put={"a": 1, "bad": 1}, complete=True, keep=frozenset({"kept"}))
    outcome = converge_isolated(driver, update)
    assert outcome.failed.keys() == {"bad"}
    assert driver.numbers.keys() == {"a", "kept"}


def test_an_error_that_netfw_knows_is_not_divided():
    class Unplugged(CrashingDriver):
        def converge(self, update):
            self.calls += 1
            raise BackendUnavailable("no answer")

    driver = Unplugged()
    outcome = converge_isolated(driver, Update(put={"a": 1}, drop=frozenset({"b"})))
    assert driver.calls == 1
    assert {key: str(error) for key, error in outcome.failed.items()} == {
        "a": "no answer",
        "b": "no answer",
    }


def test_a_failure_that_no_key_can_answer_for_is_not_lost():
    class Unplugged(CrashingDriver):
        def converge(self, update):
            raise BackendUnavailable("no answer")

    with pytest.raises(BackendUnavailable):
        converge_isolated(Unplugged(), Update(complete=True))


def test_a_crash_over_what_the_driver_does_not_say_that_it_holds_is_not_lost():
    class Forgetful(CrashingDriver):
        def converge(self, update):
            raise ZeroDivisionError("division by zero")

    with pytest.raises(DriverCrashed, match="division by zero"):
        converge_isolated(Forgetful(), Update(complete=True))


def test_a_driver_is_not_called_for_nothing():
    driver = CrashingDriver(holding="a")
    assert converge_isolated(driver, Update()) == Outcome()
    assert driver.calls == 0


def test_a_driver_that_cannot_say_what_it_holds_is_not_lost_either():
    class Blind(CrashingDriver):
        def present(self):
            raise KeyError("held")

    with pytest.raises(DriverCrashed, match="KeyError"):
        converge_isolated(Blind({"a"}), Update(put={"a": 1, "b": 1}, complete=True))


def test_what_goes_well_is_passed_through():
    class Picky(CrashingDriver):
        def converge(self, update):
            return Outcome(failed={"a": Conflict("taken")}, waiting={"b": "later"})

    outcome = converge_isolated(Picky(), Update(put={"a": 1, "b": 2}))
    assert outcome.waiting == {"b": "later"}
    assert isinstance(outcome.failed["a"], Conflict)


class CarelessDriver(CrashingDriver):
    """Does its work and tells nothing, or not all of it."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def converge(self, update: Update[str, int]) -> Outcome[str]:
        super().converge(update)
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [None, {"a": "done"}, Outcome()])
def test_a_driver_that_does_not_say_what_became_of_a_key_is_at_fault(answer: object) -> None:
    outcome = converge_isolated(CarelessDriver(answer), Update(put={"a": 1}))
    assert isinstance(outcome.failed["a"], DriverCrashed)


def test_what_goes_makes_room_before_what_comes_when_an_update_is_divided() -> None:
    class Recording(CrashingDriver):
        def converge(self, update: Update[str, int]) -> Outcome[str]:
            outcome = super().converge(update)
            order.extend(update)
            return outcome

    order: list[str] = []
    driver = Recording({"x"}, holding="a")
    converge_isolated(driver, Update(put={"b": 1, "x": 1}, drop=frozenset("a")))
    assert order == ["a", "b"]


class CrashingObserver(CrashingDriver):
    """Raises `ValueError` when it reads the machine."""

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("crashing", {HostCapability.PLAN})

    def observe(self, scope: object) -> None:
        raise ValueError("not a namespace name: 'vpn+office'")


def test_crash_while_the_machine_is_read_is_an_error_of_netfw() -> None:
    error = reread([CrashingObserver()])
    assert isinstance(error, DriverCrashed)
    assert "ValueError: not a namespace name: 'vpn+office'" in str(error)
