"""Mutations of the fake DHCP driver: what clients receive (promise 1)."""

import threading
from ipaddress import ip_interface

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver
from netfw.errors import NetfwError
from netfw.plan import Outcome
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


@MUTATIONS.override("entry", breaks(DhcpDriver, 1))
def lease_address_of_first_port(driver, original, port, network):
    """Give every port of a network the address of the first."""
    entry = original(port, network)
    peers = [p for p in driver.backend.ports.values() if p.network == port.network]
    first = original(peers[0], network).leases if peers else ()
    return evolve(entry, leases=first if entry.leases and first else entry.leases)


@MUTATIONS.override("__init__", breaks(DhcpDriver, 1))
def answer_unknown_clients(driver, original, backend):
    """Answer clients that are not known."""
    original(backend)
    backend.faults.add("unknown clients")


@MUTATIONS.override("__init__", breaks(DhcpDriver, 1))
def answer_clients_of_other_networks(driver, original, backend):
    """Answer the clients of all networks."""
    original(backend)
    backend.faults.add("networks")


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def omit_mtu(driver, original, port, network, *target):
    """Leave the MTU out."""
    return evolve(original(port, network, *target), mtu=None)


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def omit_gateway(driver, original, port, network, *target):
    """Leave the gateway out."""
    return evolve(original(port, network, *target), gateways=())


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def send_server_as_gateway(driver, original, port, network, *target):
    """Send the server as gateway if there is none."""
    lease = original(port, network, *target)
    return evolve(lease, gateways=lease.gateways or (lease.server,))


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def send_server_as_dns(driver, original, port, network, *target):
    """Send the server as the only name server."""
    lease = original(port, network, *target)
    return evolve(lease, dns=(lease.server,))


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def ignore_peer_servers(driver, original, port, network, *target):
    """Ignore the other servers of the network."""
    return original(port, evolve(network, peers=()), *target)


@MUTATIONS.override("routes", breaks(DhcpDriver, 1))
def omit_routes(driver, _, network, subnet, own):
    """Leave the routes out."""
    return []


@MUTATIONS.override("routes", breaks(DhcpDriver, 1))
def omit_default_route_among_routes(driver, original, network, subnet, own):
    """Leave the default route out of the classless routes."""
    return (r for r in original(network, subnet, own) if r.destination.prefixlen)


@MUTATIONS.override("routes", breaks(DhcpDriver, 1))
def route_other_subnets_through_gateway(driver, original, network, subnet, own):
    """Route the other subnets of the network through the gateway."""
    return original(evolve(network, subnets=(subnet,)), subnet, own)


@MUTATIONS.override("routes", breaks(DhcpDriver, 1))
def omit_metadata_route(driver, original, network, subnet, own):
    """Leave the metadata route out."""
    return original(evolve(network, metadata_for=frozenset()), subnet, own)


@MUTATIONS.override("routes", breaks(DhcpDriver, 1))
def send_metadata_route_to_all_subnets(driver, original, network, subnet, own):
    """Send the metadata route to all subnets."""
    known = frozenset({subnet.id}) if network.metadata_for else frozenset()
    return original(evolve(network, metadata_for=known), subnet, own)


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def ignore_hostname(driver, original, port, network, *target):
    """Ignore the host name of a port."""
    return original(evolve(port, hostname=""), network, *target)


@MUTATIONS.override("lease", breaks(DhcpDriver, 1))
def ignore_port_domain(driver, original, port, network, *target):
    """Ignore the domain of a port."""
    return original(evolve(port, domain=""), network, *target)


@MUTATIONS.override("options", breaks(DhcpDriver, 1))
def ignore_port_options(driver, original, port, network, version):
    """Ignore the options of a port."""
    return original(evolve(port, options=()), network, version)


@MUTATIONS.override("options", breaks(DhcpDriver, 1))
def prefer_network_options(driver, original, port, network, version):
    """Let options of the network win over those of the port."""
    own = original(port, network, version)
    return {**own, **original(evolve(port, options=()), network, version)}


@MUTATIONS.override("options", breaks(DhcpDriver, 1))
def ignore_numbered_options(driver, original, port, network, version):
    """Ignore options that are given by number."""

    def named(options):
        return tuple(option for option in options if not option.name.isdigit())

    plain = evolve(network, options=named(network.options))
    return original(evolve(port, options=named(port.options)), plain, version)


@MUTATIONS.override("options", breaks(DhcpDriver, 1))
def ignore_empty_options(driver, original, port, network, version):
    """Send the default of an option that is set to an empty value."""
    known = original(port, network, version)
    return {number: value for number, value in known.items() if value}


@MUTATIONS.override("options", breaks(DhcpDriver, 1))
def treat_name_and_number_as_two_options(driver, original, port, network, version):
    """Treat the name and the number of an option as two options."""
    names = {option.name for option in port.options}
    known = original(port, network, version)
    common = original(evolve(port, options=()), network, version)
    kept = original(evolve(port, options=()), _without(network, names), version)
    return {**known, **{n: common[n] for n in kept}}


@MUTATIONS.override("name_servers", breaks(DhcpDriver, 1))
def send_address_zero_as_dns(driver, _, subnet, ours):
    """Send 0.0.0.0 as name server, instead of none."""
    return subnet.dns_nameservers or ours


@MUTATIONS.override("booting", breaks(DhcpDriver, 1))
def ignore_ipxe_tags(driver, _, port, network, pairs):
    """Send all clients the same boot options."""
    driver.boots = "!ipxe"
    return driver.entry_leases(port, network, pairs)


@MUTATIONS.override("__init__", breaks(DhcpDriver, 1, 4))
def identify_clients_by_client_id(driver, original, backend):
    """Identify clients by the client id, instead of the MAC."""
    original(backend)
    backend.faults.add("ids")


@MUTATIONS.override("entry", breaks(DhcpDriver, 1))
def serve_disabled_subnets(driver, original, port, network):
    """Serve subnets whose DHCP is disabled."""
    served = tuple(evolve(subnet, enable_dhcp=True) for subnet in network.subnets)
    extra = tuple(f"{s.cidr[2]}/{s.cidr.prefixlen}" for s in network.subnets if not s.enable_dhcp)
    own = evolve(network.server, addresses=(*network.server.addresses, *map(ip_interface, extra)))
    return original(port, evolve(network, subnets=served, server=own))


@MUTATIONS.override("entry", breaks(DhcpDriver, 1))
def serve_first_subnet_only(driver, original, port, network):
    """Serve the first subnet only."""
    return original(port, evolve(network, subnets=network.subnets[:1]))


@MUTATIONS.override("put_network", breaks(DhcpDriver, 1))
def keep_entries_of_changed_network(driver, original, id, value):
    """Keep the leases of existing ports when their network changes."""
    before = driver.backend.nets.get(id)
    kept = dict(before.entries) if before else {}
    original(id, value)
    driver.backend.nets[id].entries.update(kept)


@MUTATIONS.override("put_port", breaks(DhcpDriver, 1))
def keep_old_mac(driver, original, id, value):
    """Keep answering the previous MAC of a port."""
    serving = driver.backend.nets.get(value.network)
    before = serving.entries.get(id) if serving else None
    done = original(id, value)
    if done and before is not None and before.mac != value.mac:
        serving.entries[type(id)(int=id.int ^ 1)] = before
    return done


@MUTATIONS.override("drop_port", breaks(DhcpDriver, 1))
def answer_dropped_port(driver, original, id):
    """Keep answering a dropped port."""
    value = driver.backend.ports.get(id)
    serving = driver.backend.nets.get(value.network) if value else None
    entry = serving.entries.get(id) if serving else None
    original(id)
    if entry is not None:
        serving.entries[id] = entry


@MUTATIONS.override("put_port", breaks(DhcpDriver, 1))
def ignore_missing_network(driver, original, id, value):
    """Report a port without its network as done."""
    return original(id, value) or True


@MUTATIONS.override("converge", breaks(DhcpDriver, 1))
def fail_in_other_threads(driver, original, update):
    """Fail all keys in any thread but that of the constructor."""
    if threading.get_ident() != driver.thread:
        return Outcome(failed={key: NetfwError("another thread") for key in update})
    return original(update)


@fail_in_other_threads.also("__init__")
def _(driver, original, backend):
    original(backend)
    driver.thread = threading.get_ident()


def _without(network, names):
    return evolve(network, options=tuple(o for o in network.options if o.name not in names))
