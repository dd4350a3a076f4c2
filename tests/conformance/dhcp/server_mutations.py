"""Mutations of the fake DHCP driver: servers, leases over time, validation and IPv6."""

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver, DhcpLocation, DhcpNetwork, DhcpPort
from netfw.drivers.support.unsupported_dhcp import UnsupportedFields
from netfw.errors import InvalidInput
from netfw.plan import Outcome
from tests.conformance.common.mutations import Mutations, breaks
from tests.conformance.dhcp.fake_dhcp import FakeDhcpDriver

MUTATIONS = Mutations()


@MUTATIONS.override("put_port", breaks(DhcpDriver, 2))
def restart_server_for_each_port(driver, original, id, value):
    """Restart the server with each port."""
    serving = driver.backend.nets.get(value.network)
    if serving is not None:
        serving.process = next(driver.backend.pids)
    return original(id, value)


@MUTATIONS.override("put_port", breaks(DhcpDriver, 2))
def rewrite_all_ports_for_each(driver, original, id, value):
    """Write all ports with each one."""
    done = original(id, value)
    for port in driver.backend.ports:
        driver.serve(port)
    return done


@MUTATIONS.override("release", breaks(DhcpDriver, 3))
def keep_lease_of_removed_port(driver, _, before, after):
    """Keep the lease of a port that is gone."""


@MUTATIONS.override("start", breaks(DhcpDriver, 4))
def lose_leases_on_restart(driver, original, id, value):
    """Start a server without leases, which refuses clients that have one."""
    driver.backend.stored[id] = {}
    return original(id, value)


@lose_leases_on_restart.also("__init__")
def _(driver, original, backend):
    original(backend)
    backend.faults.add("forgetful")


@MUTATIONS.override("__init__", breaks(DhcpDriver, 4))
def refuse_leases_of_other_servers(driver, original, backend):
    """Refuse leases that another server gave."""
    original(backend)
    backend.faults.add("forgetful")


@MUTATIONS.override("put_network", breaks(DhcpDriver, 4))
def restart_servers_on_new_driver(driver, original, id, value):
    """Restart every server with a new driver."""
    if id not in driver.started and id in driver.backend.nets:
        driver.backend.nets[id].process = next(driver.backend.pids)
    driver.started.add(id)
    original(id, value)


@restart_servers_on_new_driver.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.started = set()


@MUTATIONS.override("close", breaks(DhcpDriver, 4))
def stop_servers_on_close(driver, original):
    """Stop all servers when the driver is closed."""
    original()
    for serving in driver.backend.nets.values():
        serving.alive = False


@MUTATIONS.override("watch", breaks(DhcpDriver, 5))
def emit_no_events(driver, _, sink):
    """Emit no event when a server dies."""


@MUTATIONS.override("put_network", breaks(DhcpDriver, 5))
def leave_dead_server(driver, original, id, value):
    """Leave a dead server dead."""
    before = driver.backend.nets.get(id)
    original(id, value)
    if before is not None and not before.alive:
        driver.backend.nets[id].alive = False
        driver.backend.nets[id].process = 0


@MUTATIONS.override("addresses", breaks(DhcpDriver, 6))
def keep_old_addresses(driver, original, value, before):
    """Keep addresses of the device that are no longer desired."""
    return {*original(value, before), *before.addresses}


@MUTATIONS.override("gateways", breaks(DhcpDriver, 6))
def omit_default_route(driver, _, value):
    """Create no default route in the server's namespace."""
    return []


@MUTATIONS.override("addresses", breaks(DhcpDriver, 6))
def omit_metadata_address(driver, _, value, before):
    """Leave the metadata address out."""
    return value.server.addresses


@MUTATIONS.override("location", breaks(DhcpDriver, 6))
def report_wrong_location(driver, _, network, server):
    """Report a namespace and a device that do not exist."""
    return DhcpLocation(netns="elsewhere", device="eth0")


@MUTATIONS.override("drop_network", breaks(DhcpDriver, 7))
def leave_namespace(driver, original, id):
    """Leave the namespace of a dropped network."""
    if id in driver.backend.nets:
        driver.backend.left.add(f"namespace qdhcp-{id}")
    original(id)


@MUTATIONS.override("drop_network", breaks(DhcpDriver, 7))
def leave_lease_file(driver, original, id):
    """Leave the lease file of a dropped network."""
    if id in driver.backend.stored:
        driver.backend.left.add(f"file {id}/leases")
    original(id)


@MUTATIONS.override("put_network", breaks(DhcpDriver, 7))
def drop_own_networks_only(driver, original, id, value):
    """Drop only the networks that this driver object put."""
    driver.own.add(id)
    original(id, value)


@drop_own_networks_only.also("drop_network")
def _(driver, original, id):
    if id in driver.own:
        original(id)


@drop_own_networks_only.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.own = set()


@MUTATIONS.override("check", breaks(DhcpDriver, 8))
def validate_nothing(driver, _, texts):
    """Accept any text."""


@MUTATIONS.override("check", breaks(DhcpDriver, 8))
def validate_option_names_only(driver, original, texts):
    """Accept any text as the value of an option."""
    original({path: text for path, text in texts.items() if "value" not in path})


@MUTATIONS.override("check", breaks(DhcpDriver, 8))
def validate_newlines_only(driver, original, texts):
    """Refuse line feeds only."""
    if any("\n" in text for _, text in texts.values()):
        original(texts)


@MUTATIONS.override("put_port", breaks(DhcpDriver, 8))
def write_before_validation(driver, original, id, value):
    """Write the host name before it is validated."""
    if value.network in driver.backend.nets:
        driver.backend.texts[id] = value.hostname
    return original(id, value)


@MUTATIONS.override("execute", breaks(DhcpDriver, 8))
def fail_all_keys_for_one(driver, original, update):
    """Fail the whole update for one key."""
    outcome = original(update)
    if outcome.failed:
        why = next(iter(outcome.failed.values()))
        return Outcome(failed={key: outcome.failed.get(key, why) for key in update})
    return outcome


@MUTATIONS.override("entry", breaks(DhcpDriver, 9))
def omit_lease_if_ipv6_is_first(driver, original, port, network):
    """Give no lease to a port whose first address is IPv6."""
    first = port.fixed_ips[0].address.version if port.fixed_ips else 4
    made = original(port, network)
    return made if first == 4 else evolve(made, leases=())


omit_lease_if_ipv6_is_first.values["CAPABILITIES"] = tuple(
    c for c in FakeDhcpDriver.CAPABILITIES if c != "dhcpv6"
)


@MUTATIONS.override("announcement", breaks(DhcpDriver, 9))
def send_no_router_advertisements(driver, _, value):
    """Send no router advertisements."""
    return


@MUTATIONS.override("announcement", breaks(DhcpDriver, 9))
def advertise_without_ra_mode(driver, original, value):
    """Advertise although ``ipv6_ra_mode`` is not set."""
    modes = {s.id: s.ipv6_ra_mode or s.ipv6_address_mode for s in value.subnets}
    subnets = tuple(evolve(s, ipv6_ra_mode=modes[s.id]) for s in value.subnets)
    return original(evolve(value, subnets=subnets))


@MUTATIONS.override("announcement", breaks(DhcpDriver, 9))
def advertise_all_prefixes_as_managed(driver, original, value):
    """Advertise every prefix as managed."""
    announcement = original(value)
    none = dict.fromkeys(announcement.prefixes, False) if announcement else {}
    return evolve(announcement, managed=True, prefixes=none) if announcement else None


@MUTATIONS.override("options", breaks(DhcpDriver, 9))
def omit_dhcpv6_options(driver, original, port, network, version):
    """Send no DHCPv6 options."""
    return original(port, network, version) if version == 4 else {}


def _refusing(served, unsupported):
    if unsupported.error is not None:
        raise InvalidInput(unsupported.problems)
    return served, unsupported


@MUTATIONS.override("restrict", breaks(DhcpDriver, 10))
def refuse_network_for_one_part(driver, original, value):
    """Refuse a whole network for a subnet, a gateway or an option."""
    found = original(value)
    return _refusing(*found) if isinstance(value, DhcpNetwork) else found


@MUTATIONS.override("restrict", breaks(DhcpDriver, 10))
def refuse_port_for_one_option(driver, original, value):
    """Refuse a whole port for an option."""
    found = original(value)
    return _refusing(*found) if isinstance(value, DhcpPort) else found


@MUTATIONS.override("restrict", breaks(DhcpDriver, 10))
def leave_out_silently(driver, original, value):
    """Report a port or network as done that lacks an option."""
    return original(value)[0], UnsupportedFields()


@MUTATIONS.override("restrict", breaks(DhcpDriver, 10))
def leave_out_all_options_for_one(driver, original, value):
    """Leave out all options for one that cannot be sent."""
    served, unsupported = original(value)
    return (evolve(served, options=()) if unsupported.problems else served), unsupported


@MUTATIONS.override("restrict", breaks(DhcpDriver, 10))
def name_no_part_that_is_left_out(driver, original, value):
    """Report that something is left out, and not what."""
    served, unsupported = original(value)
    if unsupported.problems:
        unsupported.problems = {"something": "is left out"}
    return served, unsupported
