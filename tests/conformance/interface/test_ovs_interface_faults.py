"""The interface suite on a real switch: it sees what a broken driver does to the machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.plan import Update
from netfw.testing.conformance.common.promises import Promise, proofs_in
from netfw.testing.conformance.watch.machine_probe import bounced_devices
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.conformance.common.mutations import Mutation, Mutations, Override, breaks
from tests.conformance.common.suite_runner import ANY_FAULT, Refusal, run_tests
from tests.conformance.interface.test_ovs_interface import (
    OvsInterfaceDriverConformance,
    bridge,
    ip,
    link,
)

__all__ = ["bridge"]

AS_DESIRED = "test_what_is_as_desired_is_neither_made_anew_nor_bounced"
numbers = itertools.count()


class OneNamespace(OvsInterfaceDriverConformance):
    """The suite for drivers of the class ``DRIVER``."""

    USE_VETH = False
    PLACE = None
    REMOVAL_TIMEOUT = 3.0


MUTATIONS = Mutations()
SEEN: dict[str, tuple[str, str]] = {}
"""The test that refuses each mutation, and words of what it says."""


def fault(
    method: str, promises: frozenset[Promise], test: str, said: str = ""
) -> Callable[[Override], Mutation]:
    """Register a mutation of *method*, which does its work, and then something else."""

    def register(function: Override) -> Mutation:
        mutation = MUTATIONS.override(method, promises)(function)
        SEEN[mutation.name] = test, said
        return mutation

    return register


@fault("converge", breaks(HostDriver, 5), "test_objects_of_other_programs_stay")
def remove_foreign_ports(driver, original, update):
    """Remove ports of the bridge that other programs made."""
    outcome = original(update)
    for port in driver.switch.vsctl("list-ports", "br-int").split():
        if update.complete and port.startswith("bystander"):
            driver.switch.vsctl("del-port", port)
    return outcome


@fault("converge", breaks(HostDriver, 1), AS_DESIRED, "went down for a moment")
def bounce_devices(driver, original, update):
    """Set every device down and up again."""
    outcome = original(update)
    for value in update.put.values():
        ip("link", "set", value.device, "down")
        ip("link", "set", value.device, "up")
    return outcome


@fault("converge", breaks(HostDriver, 1), AS_DESIRED, "repeating changed the machine")
def recreate_devices(driver, original, update):
    """Make every device anew before it is converged."""
    original(Update(drop=frozenset(update.put)))
    return original(update)


@fault(
    "converge",
    breaks(HostDriver, 1),
    "test_what_is_dropped_leaves_no_object_behind",
    "dropped keys leave device helper",
)
def leave_helper_device(driver, original, update):
    """Leave a device that helped to make another one."""
    outcome = original(update)
    for _ in update.put:
        name = f"helper{next(numbers)}"
        ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-peer")
    return outcome


@fault("present", breaks(HostDriver, 8), "test_reading_changes_nothing")
def add_port_while_reading(driver, original):
    """Add a port while the ports are read."""
    driver.switch.vsctl("add-port", "br-int", f"reader{next(numbers)}")
    return original()


@fault("converge", breaks(Reconciler, 7), "test_converge_does_what_the_plan_shows")
def change_more_than_planned(driver, original, update):
    """Change a column of the port that the plan does not show."""
    outcome = original(update)
    for value in update.put.values():
        driver.switch.vsctl("set", "Port", value.device, "trunks=7")
    return outcome


def run_on(bridge: PrivateOvs, test: str, mutation: Mutation | None = None) -> Refusal:
    """Run *test* on the driver for *bridge*, with or without a mutation; remove what it left."""
    members = {"VERSION": OvsInterfaceDriver.VERSION, "switch": bridge}
    driver = type("SwitchDriver", (OvsInterfaceDriver,), members)
    suite = OneNamespace()
    suite.DRIVER = driver if mutation is None else mutation.apply(driver)
    try:
        return run_tests(suite, {test}, lambda: suite.drivers(bridge), ANY_FAULT)
    finally:
        for number in range(next(numbers)):
            bridge.vsctl("--if-exists", "del-port", f"reader{number}")
            if link(f"helper{number}", None):
                ip("link", "delete", f"helper{number}")


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize("test", sorted({test for test, _ in SEEN.values()}))
def test_driver_without_a_fault_passes(bridge: PrivateOvs, test: str) -> None:
    refusal = run_on(bridge, test)
    assert not refusal.refusing, refusal
    assert refusal.passed


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize("mutation", [*MUTATIONS], ids=lambda each: each.name)
def test_fault_on_the_machine_is_seen(bridge: PrivateOvs, mutation: Mutation) -> None:
    test, said = SEEN[mutation.name]
    assert mutation.breaks <= dict(proofs_in(OneNamespace))[test], "it is no proof of the promise"
    refusal = run_on(bridge, test, mutation)
    for words in (said, *(f"promise {each.what} of {each.where}" for each in mutation.breaks)):
        assert words in refusal.reasons.get(test, ""), refusal


@pytest.mark.spec("DRV-31")
def test_device_that_the_switch_changes_while_it_is_down_is_not_bounced(bridge: PrivateOvs) -> None:
    try:
        with bounced_devices() as down:
            bridge.vsctl("set", "Interface", "br-int", "mtu_request=1400")
        assert down == []
    finally:
        bridge.vsctl("clear", "Interface", "br-int", "mtu_request")
