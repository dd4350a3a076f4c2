"""The interface suite on a real switch: it sees what a broken driver does to the machine."""

from __future__ import annotations

import itertools

import pytest

from netfw.drivers.interface import Attachment
from netfw.model.values.ids import PortId
from netfw.plan import Outcome, Update
from netfw.testing.conformance.watch.machine_probe import bounced_devices
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.conformance.common.suite_runner import ANY_FAULT, run_tests
from tests.conformance.interface.test_ovs_interface import (
    OvsInterfaceDriverConformance,
    bridge,
    ip,
    link,
)

__all__ = ["bridge"]

numbers = itertools.count()


class OneNamespace(OvsInterfaceDriverConformance):
    """The suite for drivers of the class ``DRIVER``."""

    USE_VETH = False
    PLACE = None
    REMOVAL_TIMEOUT = 3.0


class Broken(OvsInterfaceDriver):
    """Does its work, and then something else."""

    switch: PrivateOvs

    def converge(self, update: Update[PortId, Attachment]) -> Outcome[PortId]:
        outcome = super().converge(update)
        self.spoil(update)
        return outcome

    def spoil(self, update: Update[PortId, Attachment]) -> None:
        raise NotImplementedError


class RemovesForeignPorts(Broken):
    def spoil(self, update: Update[PortId, Attachment]) -> None:
        for port in self.switch.vsctl("list-ports", "br-int").split():
            if update.complete and port.startswith("bystander"):
                self.switch.vsctl("del-port", port)


class BouncesDevices(Broken):
    def spoil(self, update: Update[PortId, Attachment]) -> None:
        for value in update.put.values():
            ip("link", "set", value.device, "down")
            ip("link", "set", value.device, "up")


class RecreatesDevices(Broken):
    """Makes every device anew before it is converged."""

    def converge(self, update: Update[PortId, Attachment]) -> Outcome[PortId]:
        super().converge(Update(drop=frozenset(update.put)))
        return super().converge(update)

    def spoil(self, update: Update[PortId, Attachment]) -> None:
        """Do nothing: it is done."""


class LeavesHelperDevice(Broken):
    def spoil(self, update: Update[PortId, Attachment]) -> None:
        for _ in update.put:
            name = f"helper{next(numbers)}"
            ip("link", "add", name, "type", "veth", "peer", "name", f"{name}-peer")


class AddsPortWhileReading(OvsInterfaceDriver):
    switch: PrivateOvs

    def present(self) -> frozenset[PortId]:
        self.switch.vsctl("add-port", "br-int", f"reader{next(numbers)}")
        return super().present()


class ChangesMoreThanPlanned(Broken):
    def spoil(self, update: Update[PortId, Attachment]) -> None:
        for value in update.put.values():
            self.switch.vsctl("set", "Port", value.device, "trunks=7")


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize(
    ("driver", "test", "promise"),
    [
        (RemovesForeignPorts, "test_objects_of_other_programs_stay", "promise 5 of HostDriver"),
        (
            BouncesDevices,
            "test_what_is_as_desired_is_neither_made_anew_nor_bounced",
            "went down for a moment",
        ),
        (
            RecreatesDevices,
            "test_what_is_as_desired_is_neither_made_anew_nor_bounced",
            "promise 1 of HostDriver: repeating changed the machine",
        ),
        (
            LeavesHelperDevice,
            "test_what_is_dropped_leaves_no_object_behind",
            "promise 1 of HostDriver: dropped keys leave device helper",
        ),
        (AddsPortWhileReading, "test_reading_changes_nothing", "promise 8 of HostDriver"),
        (
            ChangesMoreThanPlanned,
            "test_converge_does_what_the_plan_shows",
            "promise 7 of Reconciler",
        ),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_fault_on_the_machine_is_seen(
    bridge: PrivateOvs, driver: type[OvsInterfaceDriver], test: str, promise: str
) -> None:
    suite = OneNamespace()
    suite.DRIVER = type(driver.__name__, (driver,), {"VERSION": driver.VERSION, "switch": bridge})
    try:
        refusal = run_tests(suite, {test}, lambda: suite.drivers(bridge), ANY_FAULT)
    finally:
        for number in range(next(numbers)):
            bridge.vsctl("--if-exists", "del-port", f"reader{number}")
            if link(f"helper{number}", None):
                ip("link", "delete", f"helper{number}")
    assert promise in refusal.reasons.get(test, ""), refusal


@pytest.mark.spec("DRV-31")
def test_device_that_the_switch_changes_while_it_is_down_is_not_bounced(bridge: PrivateOvs) -> None:
    try:
        with bounced_devices() as down:
            bridge.vsctl("set", "Interface", "br-int", "mtu_request=1400")
        assert down == []
    finally:
        bridge.vsctl("clear", "Interface", "br-int", "mtu_request")
