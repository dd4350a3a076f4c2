"""Mutations of the fake interface driver: each misuses the machine in a call that does its work.

Only the watch around its calls sees the fault.
"""

import time
from uuid import uuid4

from attrs import evolve

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.interface import InterfaceDriver
from netfw.plan import Outcome
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("converge", breaks(HostDriver, 1))
def leave_helper_device(driver, original, update):
    """Leave the helper device of a port that is dropped."""
    driver.backend.helpers |= {f"helper-{key}" for key in update.put}
    return original(update)


@MUTATIONS.override("converge", breaks(HostDriver, 1))
def recreate_device_on_every_put(driver, original, update):
    """Delete and create a device that is as desired."""
    for key in update.put:
        driver.backend.identities.pop(key, None)
        if key in driver.backend.devices:
            driver.backend.identities[key] = next(driver.backend.numbers)
    return original(update)


@MUTATIONS.override("converge", breaks(HostDriver, 1))
def bounce_device_on_every_put(driver, original, update):
    """Set a device down and up again although the port carries traffic."""
    driver.backend.bounced += [value.device for value in update.put.values()]
    return original(update)


@MUTATIONS.override("__init__", breaks(HostDriver, 1))
def recreate_devices_after_restart(driver, original, backend):
    """Create all devices anew when the driver starts."""
    original(backend)
    backend.identities = {key: next(backend.numbers) for key in backend.identities}


@MUTATIONS.override("converge", breaks(HostDriver, 5))
def remove_foreign_ports_of_bridge(driver, original, update):
    """Remove ports of the bridge that other programs made."""
    if update.complete:
        driver.backend.bystanders.clear()
    return original(update)


@MUTATIONS.override("present", breaks(HostDriver, 8))
def create_device_while_reading(driver, original):
    """Create a device while the ports are read."""
    driver.backend.helpers.add(f"reader-{uuid4()}")
    return original()


@MUTATIONS.override("converge", breaks(HostDriver, 4))
def report_keys_not_asked(driver, original, update):
    """Report all ports of the host as done."""
    outcome = original(update)
    others = driver.backend.devices.keys() - outcome.failed.keys()
    return evolve(outcome, done=outcome.done | others)


@MUTATIONS.override("converge", breaks(HostDriver, 4))
def forget_keys_in_outcome(driver, original, update):
    """Report nothing about a port that was dropped."""
    outcome = original(update)
    return Outcome(outcome.done - update.drop, outcome.failed) if update.put else outcome


MUTATIONS.replace("declare_watch_and_stay_silent", breaks(HostDriver, 9), watch=HostDriver.watch)


@MUTATIONS.override("watch", breaks(HostDriver, 9))
def watch_without_declaring(driver, original, sink):
    """Announce changes, and do not declare it."""
    original(sink)


@watch_without_declaring.also("describe")
def _(driver, original):
    info = original()
    return evolve(info, capabilities=info.capabilities - {HostCapability.WATCH})


@MUTATIONS.override("problems", breaks(Driver, 2))
def raise_problems(driver, original):
    """Raise an error while the backend is away, instead of reporting it."""
    driver.backend.check_online()
    return original()


@MUTATIONS.override("problems", breaks(Driver, 2))
def create_device_for_problems(driver, original):
    """Create a device to see whether that is possible."""
    driver.backend.helpers.add(f"probe-{uuid4()}")
    return original()


@MUTATIONS.override("__init__", breaks(Driver, 6))
def keep_options_in_class(driver, original, backend):
    """Keep the configuration in the class, so that two drivers have one."""
    original(backend)
    type(driver).options = {"backend": backend}


keep_options_in_class.values["options"] = None


@MUTATIONS.override("converge", breaks(Driver, 6))
def remember_ports_in_module(driver, original, update):
    """Keep state of the ports in a variable of the class."""
    driver.requested.update(update.put)
    return original(update)


remember_ports_in_module.values["requested"] = {}


@MUTATIONS.override("device_name", breaks(InterfaceDriver, 7))
def draw_device_name(driver, original, port, prefix):
    """Draw a part of the device name."""
    return f"{original(port, prefix)}{uuid4().hex[0]}"


@MUTATIONS.override("device_name", breaks(InterfaceDriver, 7))
def make_long_device_name(driver, original, port, prefix):
    """Return more bytes than the kernel takes."""
    return f"{original(port, prefix)}-device"


@MUTATIONS.override("problems", breaks(Driver, 5))
def look_for_problems_for_a_minute(driver, original):
    """Wait for an answer of the host."""
    time.sleep(60)
    return original()


@MUTATIONS.override("problems", breaks(Driver, 2))
def return_problems_as_text(driver, original):
    """Return one text instead of a tuple."""
    return "there is no switch"
