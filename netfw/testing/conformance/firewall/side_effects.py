"""What a firewall driver leaves alone: the process, and a host that is as desired."""

from __future__ import annotations

from functools import partial
from inspect import unwrap

from netfw.drivers.base import Driver
from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler, no_checkpoint
from netfw.drivers.values.events import Event
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.common.side_effects import tells
from netfw.testing.conformance.firewall.case import FirewallCase, MakeDriver
from netfw.testing.conformance.firewall.factories import State, a_group, everything, port
from netfw.testing.conformance.watch.held_resources import ROUNDS, growth, read_held_resources
from netfw.testing.conformance.watch.host_cleanup import closed_hosts
from netfw.testing.conformance.watch.secret_options import assert_secrets_are_declared
from netfw.testing.lab.wait import wait_until


class FirewallSideEffectsConformance(FirewallCase):
    """The promises of `Driver`, and those of host drivers about reading and planning."""

    def simple_state(self) -> State:
        """Return one port that everything reaches."""
        (one,) = self.make_ports(1)
        group = a_group()
        return {**port(one, group), **everything(group)}

    @proves(Driver, 1, 2, 4, 5, 6)
    def test_the_whole_life_of_a_driver_keeps_the_rules_of_every_call(
        self, make_driver: MakeDriver
    ) -> None:
        """Make every call once; what surrounds each call is watched by itself."""
        driver = make_driver()
        before = self.environment.dump_state()
        assert driver.describe() == driver.describe(), "promise 1 of Driver: it is not constant"
        driver.problems()
        assert self.environment.dump_state() == before, (
            "promise 2 of Driver: `describe` or `problems` changed the host"
        )
        self.apply(driver, self.simple_state())
        driver.present()
        self.apply(driver, {})
        driver.close()

    @proves(Driver, 3)
    def test_a_closed_driver_holds_nothing(self, make_driver: MakeDriver) -> None:
        state, before = self.simple_state(), None
        for _ in range(ROUNDS + 1):
            with closed_hosts():
                driver = make_driver()
                self.apply(driver, state)
                driver.present()
                self.apply(driver, {})
                driver.close()
            before = before or read_held_resources()
        assert before is not None
        left = list(growth(before, read_held_resources(), ROUNDS))
        assert not left, f"promise 3 of Driver, after close(): {'; '.join(left)}"

    @proves(Driver, 7)
    def test_options_with_secrets_are_declared_as_secret(self, driver: FirewallDriver) -> None:
        assert_secrets_are_declared(driver)

    @proves(HostDriver, 8)
    def test_reading_changes_nothing(self, driver: FirewallDriver) -> None:
        state = self.simple_state()
        self.apply(driver, state)
        before = self.environment.dump_state()
        driver.present()
        if isinstance(driver, Reconciler):
            driver.plan(Update(complete=True), driver.observe(None))
        changed = sorted(self.environment.dump_state() ^ before)
        assert not changed, f"promise 8 of HostDriver: reading changed the host: {changed}"

    @proves(HostDriver, 4)
    def test_a_refusal_of_the_kernel_is_reported(self, driver: FirewallDriver) -> None:
        """Check that what is said to be done is done; a backend may not need the kernel."""
        state = self.simple_state()
        self.wire(state)
        for wanted in (state, {}):
            update = self.update_to(wanted)
            try:
                reported = not self.environment.refused(partial(driver.converge, update)).ok
            except AssertionError:
                raise
            except Exception:  # noqa: BLE001 - an error that is raised is reported
                reported = True
            found = self.environment.dump_state()
            outcome = driver.converge(update)
            assert outcome.ok, str(outcome)
            missing = sorted(self.environment.dump_state() ^ found)
            assert reported or not missing, (
                "promise 4 of HostDriver: the kernel refused a change, and the outcome says that "
                f"it is done: {missing}"
            )

    @proves(HostDriver, 9)
    def test_a_driver_that_watches_announces_a_loss(self, driver: FirewallDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        events: list[Event] = []
        driver.watch(events.append)
        state = self.simple_state()
        self.apply(driver, state)
        events.clear()
        self.environment.lose_state()
        wait_until(
            lambda: any(tells(event, key) for event in events for key in state),
            "promise 9 of HostDriver: the host lost what the driver made, and `watch` announced "
            "nothing",
            seconds=self.environment.event_timeout,
        )
        self.apply(driver, state)

    @proves(HostDriver, 9)
    def test_a_driver_that_watches_says_so(self, driver: FirewallDriver) -> None:
        declared = HostCapability.WATCH in driver.describe().capabilities
        assert declared == (unwrap(type(driver).watch) is not unwrap(HostDriver.watch)), (
            "promise 9 of HostDriver: `watch` is overridden, or the capability declared, but not "
            "both"
        )

    @proves(Reconciler, 7)
    def test_converge_does_what_the_plan_shows(self, driver: FirewallDriver) -> None:
        self.require(driver, HostCapability.PLAN)
        assert isinstance(driver, Reconciler), "it declares the capability 'plan'"
        state = self.simple_state()
        update = self.update_to(state)
        self.wire(state)
        driver.apply(driver.plan(update, driver.observe(update)), no_checkpoint)
        planned = self.environment.dump_state()
        self.apply(driver, {})
        self.apply(driver, state)
        differs = sorted(self.environment.dump_state() ^ planned)
        assert not differs, (
            f"promise 7 of Reconciler: after `converge` the host is not as after `apply` of the "
            f"plan: {differs}"
        )
