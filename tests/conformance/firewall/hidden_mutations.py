"""Mutations of the fake firewall: each does its work, and more than it shows."""

from attrs import evolve

from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.reconciler import Reconciler
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("present", breaks(HostDriver, 8))
def mark_host_while_reading(driver, original):
    """Leave a mark on the host while the keys are read."""
    driver.backend.marks.add(f"read {len(driver.backend.marks)}")
    return original()


@MUTATIONS.override("describe", breaks(HostDriver, 9))
def watch_without_declaring(driver, original):
    """Announce changes, and do not declare it."""
    info = original()
    return evolve(info, capabilities=info.capabilities - {HostCapability.WATCH})


@MUTATIONS.override("watch", breaks(HostDriver, 9))
def declare_watch_and_stay_silent(driver, original, sink):
    """Announce nothing."""


@MUTATIONS.override("execute", breaks(HostDriver, 4))
def take_refused_stages_for_done(driver, original, stage):
    """Ignore that the kernel refuses a stage."""
    if not driver.backend.refuses:
        original(stage)


@MUTATIONS.override("converge", breaks(Reconciler, 7))
def mark_host_beside_the_plan(driver, original, update):
    """Leave a mark on the host that no plan shows."""
    outcome = original(update)
    driver.backend.marks.discard("unplanned")
    driver.backend.marks.update({"unplanned"} if update.put else ())
    return outcome
