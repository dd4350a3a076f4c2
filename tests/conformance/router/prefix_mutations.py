"""Mutations of the fake router driver that concern delegated prefixes."""

from ipaddress import IPv6Network, ip_interface

from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import ProcessDied
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import PrefixDelegated
from netfw.testing.conformance.router.prefix_delegation import PRINTABLE
from tests.conformance.common.mutations import Mutations, breaks
from tests.conformance.router.fake_parts import CentralPart, LocalState
from tests.conformance.router.fake_prefixes import PrefixRequests
from tests.conformance.router.forwarding_mutations import full_of

MUTATIONS = Mutations()
DELEGATION = breaks(RouterDriver, 17)


@MUTATIONS.override("requested", DELEGATION)
def request_nothing(driver, original, state):
    """Declare the capability, and request nothing."""
    return frozenset()


@MUTATIONS.override("requested", DELEGATION)
def request_one_prefix(driver, original, state):
    """Request the prefix of one subnet alone."""
    return frozenset(sorted(original(state))[:1])


@MUTATIONS.override("requested", DELEGATION)
def overlook_prefixes_of_a_client_with_a_printable_identity(driver, original, state):
    """Misread what a client writes whose identity, of the MAC address, is printable."""
    gateway = state.full.gateway
    if gateway is not None and gateway.port.mac == PRINTABLE:
        return frozenset()
    return original(state)


@MUTATIONS.override("identity", DELEGATION)
def request_one_prefix_for_all_subnets(driver, original, router, subnet, wanted):
    """Request all prefixes with one identity."""
    return original(router, None, wanted)


@MUTATIONS.override("identity", DELEGATION)
def number_subnets_by_their_order(driver, original, router, subnet, wanted):
    """Identify a subnet by its place among those of the moment."""
    return original(router, sorted(wanted).index(subnet), wanted)


@MUTATIONS.override("identity", DELEGATION)
def request_as_another_client_on_each_host(driver, original, router, subnet, wanted):
    """Identify the client by its host."""
    return original(router, subnet, wanted), id(driver.backend)


@MUTATIONS.override("__init__", DELEGATION)
def request_anew_on_restart(driver, original, backend):
    """Start the client as another one when the driver starts."""
    original(backend)
    for router, requests in backend.prefix_requests.items():
        anew = {subnet: (identity, object()) for subnet, identity in requests.identities.items()}
        backend.prefix_requests[router] = PrefixRequests(requests.network, anew)
    backend.fabric.renew()


@MUTATIONS.override("watch_prefixes", DELEGATION)
def report_nothing_after_restart(driver, original, sink):
    """Report what changes after the start alone."""
    driver.reported = dict(driver.backend.leases)
    original(sink)


@MUTATIONS.override("report_prefixes", DELEGATION)
def report_at_every_update(driver, original):
    """Report each prefix again at each update."""
    driver.reported.clear()
    original()


@MUTATIONS.override("send", DELEGATION)
def report_no_change(driver, original, router, subnet, prefix):
    """Report the first prefix alone."""
    known = driver.__dict__.setdefault("known", set())
    if subnet not in known:
        known.add(subnet)
        original(router, subnet, prefix)


@MUTATIONS.override("send", DELEGATION)
def report_no_expiry(driver, original, router, subnet, prefix):
    """Keep a prefix for ever."""
    if prefix is not None:
        original(router, subnet, prefix)


@MUTATIONS.override("send", DELEGATION)
def report_a_shorter_prefix(driver, original, router, subnet, prefix):
    """Report more than a subnet can have."""
    original(router, subnet, None if prefix is None else prefix.supernet(new_prefix=60))


@MUTATIONS.override("send", DELEGATION)
def report_for_another_router(driver, original, router, subnet, prefix):
    """Report the part of a router in place of the router."""
    part = router if isinstance(router, CentralPart) else CentralPart(router)
    for sink in driver.prefix_sinks:
        sink(PrefixDelegated("the provider", part, subnet, prefix))


@MUTATIONS.override("send", DELEGATION)
def renumber_without_the_agent(driver, original, router, subnet, prefix):
    """Give the interface an address of the prefix at once."""
    original(router, subnet, prefix)
    state = driver.backend.routers[router]
    if isinstance(prefix, IPv6Network):
        ports = tuple(
            evolve(port, addresses=(*port.addresses, ip_interface((prefix[1], 64))))
            if subnet in port.delegated
            else port
            for port in state.full.interfaces
        )
        driver.backend.routers[router] = full_of(state, interfaces=ports)


@MUTATIONS.override("request_prefixes", DELEGATION)
def keep_the_client_without_gateway(driver, original, router, state):
    """Go on requesting when the gateway is gone."""
    if state is None or state.full.gateway is not None:
        original(router, state)


@MUTATIONS.override("request_prefixes", DELEGATION)
def keep_the_client_without_interface(driver, original, router, state):
    """Go on requesting when the interface is gone."""
    if state is None or state.full.interfaces:
        original(router, state)


@MUTATIONS.override("__init__", DELEGATION)
def request_as_standby(driver, original, backend):
    """Run the client on each host."""
    original(backend)
    backend.requests_prefixes = lambda router: True


@MUTATIONS.override("request_prefixes", DELEGATION)
def request_at_local_parts(driver, original, router, state):
    """Request prefixes at each part of a distributed router."""
    if not isinstance(state, LocalState):
        original(router, state)
        return
    wanted = {id for port in state.full.interfaces for id in port.delegated}
    identities = {subnet: driver.identity(router, subnet, wanted) for subnet in wanted}
    requests = PrefixRequests(state.part.external_network, identities)
    driver.backend.prefix_requests[router] = requests


@MUTATIONS.override("request_prefixes", DELEGATION)
def request_nothing_at_central_parts(driver, original, router, state):
    """Request prefixes for plain routers alone."""
    original(router, None if isinstance(router, CentralPart) else state)


@MUTATIONS.override("handle_event", DELEGATION)
def never_restart_the_client(driver, original, event):
    """Leave a client that died."""
    original(event)
    if isinstance(event, ProcessDied):
        for key in event.keys:
            if isinstance(key, RouterKey):
                driver.backend.prefix_requests.pop(key.router, None)
