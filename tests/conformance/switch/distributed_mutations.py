"""Mutations of the fake switch driver that concern distributed routers."""

from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.keys import HostKey
from netfw.drivers.values.switch_values import HostMac, LocalNetwork
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("__init__", breaks(SwitchDriver, 10))
def send_from_the_mac_of_a_router(driver, original, *arguments):
    """Leave the MAC address of a router interface in frames for other hosts."""
    original(*arguments)
    driver.backend.faults.add("exposed")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 10))
def deliver_from_the_mac_of_a_host(driver, original, *arguments):
    """Deliver routed frames of other hosts as they come."""
    original(*arguments)
    driver.backend.faults.add("unrestored")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 11))
def announce_routers_to_all_hosts(driver, original, *arguments):
    """Let announcements of a router interface leave the host."""
    original(*arguments)
    driver.backend.faults.add("announcing")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 11))
def request_routers_on_all_hosts(driver, original, *arguments):
    """Let requests for the address of a router interface leave the host."""
    original(*arguments)
    driver.backend.faults.add("asking")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 11))
def take_frames_of_other_hosts_to_a_router(driver, original, *arguments):
    """Deliver to a router interface what another host sends to its MAC address."""
    original(*arguments)
    driver.backend.faults.add("entering")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 11))
def teach_others_the_address_of_a_router(driver, original, *arguments):
    """Send requests of a router interface with its address as sender."""
    original(*arguments)
    driver.backend.faults.add("teaching")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 11))
def lose_answers_to_a_router(driver, original, *arguments):
    """Deliver no answer of another host to a router interface."""
    original(*arguments)
    driver.backend.faults.add("unanswered")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 12))
def let_instances_send_as_anyone(driver, original, *arguments):
    """Let an instance send from the MAC address of a host."""
    original(*arguments)
    driver.backend.faults.add("forged")


@MUTATIONS.override("__init__", breaks(SwitchDriver, 12))
def let_instances_send_as_a_router(driver, original, *arguments):
    """Let an instance send to other hosts from the MAC address of a router interface."""
    original(*arguments)
    driver.backend.faults.add("forged gateway")


@MUTATIONS.override("execute", breaks(SwitchDriver, 4, 12))
def keep_macs_of_former_hosts(driver, original, verb, key, value):
    """Leave the MAC address of a host that has no distributed routers any more."""
    if verb != "drop" or not isinstance(key, HostKey):
        original(verb, key, value)


@MUTATIONS.override("execute", breaks(SwitchDriver, 4, 10))
def keep_former_routers(driver, original, verb, key, value):
    """Leave the router interfaces of a network that has none any more."""
    had = driver.backend.values.get(key)
    if verb == "put" and isinstance(value, LocalNetwork) and isinstance(had, LocalNetwork):
        value = evolve(value, router_interfaces=value.router_interfaces or had.router_interfaces)
    original(verb, key, value)


@MUTATIONS.override("differs", breaks(SwitchDriver, 5))
def replace_macs_of_hosts_each_time(driver, original, key, value, observed):
    """Write the MAC addresses of hosts again with each update."""
    return isinstance(value, HostMac) or original(key, value, observed)
