"""Mutations of the fake switch driver that concern sub-ports of trunks."""

from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Wiring
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("execute", breaks(SwitchDriver, 14))
def wire_parent_anew_with_each_sub_port(driver, original, verb, key, value):
    """Lose frames of the parent while a sub-port is added."""
    subport = value.subport if isinstance(value, Wiring) else None
    where = None if subport is None else driver.backend.live.get(subport.parent)
    if where is None:
        original(verb, key, value)
        return
    parent = PortKey(subport.parent)
    original("shut", parent, None)
    original(verb, key, value)
    original("admit", parent, where)


@MUTATIONS.override("remove_device", breaks(SwitchDriver, 14))
def keep_devices_of_dropped_sub_ports(driver, original, key):
    """Leave the device of a sub-port behind."""


@MUTATIONS.override("make_device", breaks(SwitchDriver, 14))
def make_no_device(driver, original, key):
    """Wait for a device that nobody plugs."""


@MUTATIONS.override("__init__", breaks(SwitchDriver, 14))
def accept_nested_tags(driver, original, *arguments):
    """Deliver frames with a tag behind the tag."""
    original(*arguments)
    driver.backend.faults.add("nested")


@MUTATIONS.override("differs", breaks(SwitchDriver, 14))
def keep_tag_and_parent(driver, original, key, value, observed):
    """Ignore that a sub-port gets another tag or another parent."""
    have = observed.values.get(key)
    if isinstance(have, Wiring) and isinstance(value, Wiring):
        value = evolve(value, subport=have.subport)
    return original(key, value, observed)


@MUTATIONS.override("problem", breaks(SwitchDriver, 14))
def accept_impossible_sub_ports(driver, original, key, value, observed):
    """Accept a port that is its own parent, or that has no possible tag."""
    plain = evolve(value, subport=None) if isinstance(value, Wiring) else value
    return original(key, plain, observed)
