"""Mutations of the fake switch driver that concern MAC addresses of several hosts."""

from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.switch_values import Forwarding, Wiring
from tests.conformance.common.mutations import breaks
from tests.conformance.switch.switch_mutations import MUTATIONS

__all__ = ["MUTATIONS"]


@MUTATIONS.override("execute", breaks(SwitchDriver, 9))
def deliver_shared_mac_on_this_host_only(driver, original, verb, key, value):
    """Ignore ``shared_mac``."""
    original(verb, key, with_own_mac(value))


@deliver_shared_mac_on_this_host_only.also("differs")
def _(driver, original, key, value, observed):
    return original(key, with_own_mac(value), observed)


def with_own_mac(value):
    return evolve(value, shared_mac=False) if isinstance(value, Wiring) else value


@MUTATIONS.override("__init__", breaks(SwitchDriver, 9))
def deliver_shared_mac_on_other_hosts_only(driver, original, *arguments):
    """Send frames for a shared MAC to other hosts, and not to the port of this host."""
    original(*arguments)
    driver.backend.faults.add("bypass")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 9))
def send_frames_from_outside_back(driver, original, *arguments):
    """Send frames of other hosts for a shared MAC on to other hosts."""
    original(*arguments)
    driver.backend.faults.add("loop")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 9))
def pass_group_reports_of_standby(driver, original, *arguments):
    """Let a router without addresses report its multicast groups."""
    original(*arguments)
    driver.backend.faults.add("reports")


@MUTATIONS.override("execute", breaks(SwitchDriver, 9))
def forward_to_one_endpoint(driver, original, verb, key, value):
    """Send to the last of several endpoints only."""
    original(verb, key, with_one_endpoint(value))


@forward_to_one_endpoint.also("differs")
def _(driver, original, key, value, observed):
    return original(key, with_one_endpoint(value), observed)


def with_one_endpoint(value):
    if not isinstance(value, Forwarding):
        return value
    return evolve(value, endpoints=frozenset({max(value.endpoints, key=str)}))


@MUTATIONS.override("execute", breaks(SwitchDriver, 9))
def replace_changed_entry(driver, original, verb, key, value):
    """Remove a forwarding entry before the changed one is made."""
    if verb == "put" and isinstance(value, Forwarding):
        original("drop", key, None)
    original(verb, key, value)


@MUTATIONS.override("execute", breaks(SwitchDriver, 9))
def interrupt_port_whose_mac_becomes_shared(driver, original, verb, key, value):
    """Cut a port off for a moment when ``shared_mac`` changes."""
    where = driver.backend.live.get(getattr(key, "port", None))
    if verb == "put" and isinstance(value, Wiring) and where is not None:
        original("shut", key, None)
        original("admit", key, where)
    original(verb, key, value)
