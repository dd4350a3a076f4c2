"""Tests of what a host driver leaves on the machine and in the process."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from inspect import unwrap
from typing import Any, ClassVar, TypeVar

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.host_driver import HostDriverConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.watch.bystanders import made_bystanders
from netfw.testing.conformance.watch.dropped_privileges import without_network_privileges
from netfw.testing.conformance.watch.held_resources import ROUNDS, growth, read_held_resources
from netfw.testing.conformance.watch.host_cleanup import closed_hosts
from netfw.testing.conformance.watch.machine_probe import bounced_devices, read_machine
from netfw.testing.conformance.watch.machine_state import MachineState, machine_changes
from netfw.testing.conformance.watch.secret_options import assert_secrets_are_declared
from netfw.testing.lab.wait import TIMEOUT, wait_until

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


def tells(event: Event, key: object) -> bool:
    """Return whether *event* has an agent converge *key* again."""
    return isinstance(event, FeedLost) or (isinstance(event, KeysChanged) and key in event.keys)


class HostMachineConformance(HostDriverConformance[K, V]):
    """What every `HostDriver` leaves alone: foreign objects, and its own that are as desired.

    The hooks read the sandbox of the test: links in named namespaces, and each Open vSwitch of the
    lab.  Override them for a backend elsewhere.
    """

    REMOVAL_TIMEOUT: ClassVar[float] = TIMEOUT
    """Seconds after which an object is left for good, and an event is missing: a switch may remove
    an object after the call."""

    def machine(self) -> MachineState:
        """Return what the machine has, with what identifies each object."""
        return read_machine()

    def bounced(self) -> AbstractContextManager[list[str]]:
        """Return a context that collects the devices that were down for a moment."""
        return bounced_devices()

    def bystanders(self) -> AbstractContextManager[None]:
        """Return a context with objects of other programs beside those of the driver."""
        return made_bystanders()

    def refused(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, to which the kernel refuses every change of the network."""
        return without_network_privileges(call)

    @contextmanager
    def untouched(self, promise: str) -> Iterator[None]:
        """Assert that the machine is the same at the end of the context, and was so in between."""
        before = self.machine()
        with self.bounced() as down:
            yield
        self.assert_unchanged(promise, before)
        assert not down, f"{promise}: {', '.join(down)} went down for a moment"

    def assert_unchanged(self, promise: str, before: MachineState) -> None:
        """Assert that the machine is as it was *before*."""
        changes = list(machine_changes(before, self.machine()))
        assert not changes, f"{promise}: {'; '.join(changes)}"

    @proves(Driver, 1, 2)
    def test_describing_a_driver_and_its_problems_changes_nothing(
        self, driver: HostDriver[K, V]
    ) -> None:
        with self.untouched("promise 2 of Driver: `describe` or `problems` changed the machine"):
            assert driver.describe() == driver.describe(), "`describe` is not constant"
            driver.problems()

    @proves(Driver, 2)
    def test_problems_can_be_read_while_the_backend_is_away(self, driver: HostDriver[K, V]) -> None:
        with self.outage():
            driver.problems()

    @proves(Driver, 1, 4, 5, 6)
    def test_the_whole_life_of_a_driver_keeps_the_rules_of_every_call(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        """Make every call once; what surrounds each call is watched by itself."""
        driver = make_driver()
        things = self.examples(1)
        driver.describe()
        driver.problems()
        self.assert_done(driver.converge(Update(put=things)))
        self.assert_held(driver, things.keys())
        self.assert_done(driver.converge(Update(drop=frozenset(things))))
        self.assert_done(driver.gc(()))
        driver.close()

    @proves(Driver, 3)
    def test_closing_releases_descriptors_threads_and_processes(
        self, make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(1)
        before = None
        for _ in range(ROUNDS + 1):
            with closed_hosts():
                driver = make_driver()
                driver.converge(Update(put=things))
                driver.converge(Update(drop=frozenset(things)))
                driver.close()
            before = before or read_held_resources()
        assert before is not None
        left = list(growth(before, read_held_resources(), ROUNDS))
        assert not left, f"promise 3 of Driver, after close(): {'; '.join(left)}"

    @proves(Driver, 3)
    def test_repeated_calls_hold_no_more_than_one(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(1)
        before = None
        for _ in range(ROUNDS + 1):
            driver.converge(Update(put=things))
            driver.present()
            driver.problems()
            driver.converge(Update(drop=frozenset(things)))
            before = before or read_held_resources()
        assert before is not None
        left = list(growth(before, read_held_resources(), ROUNDS))
        assert not left, f"promise 3 of Driver, after repeated calls: {'; '.join(left)}"

    @proves(Driver, 7)
    def test_options_with_secrets_are_declared_as_secret(self, driver: HostDriver[K, V]) -> None:
        assert_secrets_are_declared(driver)

    @proves(HostDriver, 1)
    def test_what_is_as_desired_is_neither_made_anew_nor_bounced(
        self, driver: HostDriver[K, V], make_driver: Callable[[], HostDriver[K, V]]
    ) -> None:
        things = self.examples(2)
        self.assert_done(driver.converge(Update(put=things)))
        with self.untouched("promise 1 of HostDriver: repeating changed the machine"):
            self.assert_done(driver.converge(Update(put=things)))
        driver.close()
        with self.untouched("promise 1 of HostDriver: a restarted driver changed the machine"):
            successor = make_driver()
            self.assert_done(successor.converge(Update(put=things, complete=True)))

    @proves(HostDriver, 1)
    def test_what_is_dropped_leaves_no_object_behind(self, driver: HostDriver[K, V]) -> None:
        things = list(self.examples(3).items())
        first, rest = dict(things[:1]), dict(things[1:])
        driver.converge(Update(put=first))  # what a driver keeps for good is made now
        driver.converge(Update(drop=frozenset(first)))
        before = self.machine().objects.keys()
        driver.converge(Update(put=rest))
        driver.converge(Update(drop=frozenset(rest)))

        def left() -> set[str]:
            return self.machine().objects.keys() - before

        wait_until(
            lambda: not left(),
            lambda: f"promise 1 of HostDriver: dropped keys leave {', '.join(sorted(left()))}",
            seconds=self.REMOVAL_TIMEOUT,
        )

    @proves(HostDriver, 4)
    def test_the_outcome_names_each_requested_key_once(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(3)
        one, two, three = things
        self.assert_done(driver.converge(Update(put={one: things[one], two: things[two]})))
        update = Update(put={three: things[three]}, drop=frozenset({two}))
        outcome = driver.converge(update)
        assert outcome == Outcome(done=frozenset({two, three})), (
            f"promise 4 of HostDriver: {three} was put and {two} dropped: {outcome}"
        )

    @proves(HostDriver, 5)
    def test_objects_of_other_programs_stay(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        one = next(iter(things))
        with self.bystanders():
            before = self.machine()
            for update in (
                Update(put=things),
                Update(drop=frozenset({one})),
                Update(put=things, complete=True),
                Update(complete=True),
            ):
                driver.converge(update)
            now = self.machine()
            foreign = MachineState(
                {name: now.objects[name] for name in before.objects if name in now.objects}
            )
            changes = list(machine_changes(before, foreign))
            assert not changes, (
                f"promise 5 of HostDriver, objects of other programs: {'; '.join(changes)}"
            )

    @proves(HostDriver, 8)
    def test_reading_changes_nothing(self, driver: HostDriver[K, V]) -> None:
        things = self.examples(2)
        update = Update(put=things)
        driver.converge(update)
        with self.untouched("promise 8 of HostDriver: reading changed the machine"):
            driver.present()
            driver.present()
            if isinstance(driver, Reconciler):
                reconciler: Reconciler[K, V, Any] = driver
                reconciler.plan(Update(complete=True), reconciler.observe(None))
                reconciler.plan(update, reconciler.observe(update))

    @proves(HostDriver, 4)
    def test_a_refusal_of_the_kernel_is_reported(self, driver: HostDriver[K, V]) -> None:
        """Check that what is said to be done is done; a backend may not need the kernel."""
        things = self.examples(2)
        updates: list[tuple[Update[K, V], Callable[[dict[K, V]], None]]] = [
            (Update(put=things), self.assert_so),
            (Update(drop=frozenset(things)), self.assert_gone),
        ]
        for update, check in updates:
            done = self._done_when_refused(driver, update)
            try:
                check({key: value for key, value in things.items() if key in done})
            except AssertionError as error:
                raise AssertionError(
                    "promise 4 of HostDriver: the kernel refused a change, and the outcome says "
                    f"that it is done: {error}"
                ) from error
            self.assert_done(driver.converge(update))
            check(things)

    def _done_when_refused(self, driver: HostDriver[K, V], update: Update[K, V]) -> frozenset[K]:
        """Return the keys that are said to be done although the kernel refuses every change."""

        def converge() -> frozenset[K]:
            try:
                return driver.converge(update).done
            except AssertionError:
                raise
            except Exception:  # noqa: BLE001 - an error that is raised is reported
                return frozenset()

        return self.refused(converge)

    @proves(HostDriver, 9)
    def test_a_driver_that_watches_says_so(self, driver: HostDriver[K, V]) -> None:
        declared = HostCapability.WATCH in driver.describe().capabilities
        overridden = unwrap(type(driver).watch) is not unwrap(HostDriver.watch)
        assert declared == overridden, (
            "promise 9 of HostDriver: it declares the capability 'watch' and announces nothing"
            if declared
            else "promise 9 of HostDriver: it overrides `watch` and does not declare it"
        )
