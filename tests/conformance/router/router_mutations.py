"""Mutations of the fake router driver, except those of forwarding: each breaks one promise."""

from attrs import evolve

from netfw.drivers.base import DriverInfo
from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import FloatingIpNat, RouterStatus
from netfw.errors import (
    BackendUnavailable,
    ConfigError,
    NetfwError,
    NotFound,
    NotSupported,
    OperationRefused,
)
from netfw.plan import Outcome
from tests.conformance.common.mutations import Mutations, breaks, breaks_raise
from tests.conformance.router.forwarding_mutations import full_of

MUTATIONS = Mutations()


@MUTATIONS.override("put_nat", breaks(RouterDriver, 1, 2))
def translate_one_way(driver, original, operation, id, value):
    """Translate to the fixed address, and not from it."""
    original(operation, id, value)
    driver.backend.source = lambda router, out, inward, packet, translated: type(
        driver.backend
    ).source(evolve_nat(driver.backend), router, out, inward, packet, translated)


def evolve_nat(backend):
    """Return a view of *backend* without floating IPs."""
    view = type(backend)()
    view.routers = backend.routers
    return view


@MUTATIONS.override("put_nat", breaks(RouterDriver, 2))
def announce_before_the_rules(driver, original, operation, id, value):
    """Announce a floating IP before it works."""
    driver.announce(value.router, value.floating_address)
    original(operation, id, value)


@MUTATIONS.override("announce", breaks(RouterDriver, 2))
def announce_nothing(driver, original, router, address):
    """Announce no address."""


@MUTATIONS.override("end_connections", breaks(RouterDriver, 2))
def leave_connections(driver, original, router, addresses):
    """Leave the tracked connections of addresses that are gone."""


@MUTATIONS.override("removed", breaks(RouterDriver, 2))
def keep_floating_ip_of_taken_address(driver, original, update, observed):
    """Leave a dropped floating IP whose address another one takes over."""
    taken = {
        value.floating_address for value in update.put.values() if isinstance(value, FloatingIpNat)
    }
    return [
        key
        for key in original(update, observed)
        if not isinstance(key, FloatingIpKey)
        or observed.nat[key.floating_ip].floating_address not in taken
    ]


@MUTATIONS.override("plan", breaks(RouterDriver, 2))
def ignore_another_router(driver, original, update, observed):
    """Leave a floating IP at its first router."""
    put = {
        key: evolve(value, router=observed.nat[key.floating_ip].router)
        if isinstance(key, FloatingIpKey) and key.floating_ip in observed.nat
        else value
        for key, value in update.put.items()
    }
    return original(evolve(update, put=put), observed)


@MUTATIONS.override("put_nat", breaks(RouterDriver, 2))
def translate_from_outside_only(driver, original, operation, id, value):
    """Leave out the hairpin: translate only what comes by the gateway."""
    original(operation, id, value)
    backend = driver.backend
    forward = type(backend).forward

    def outside_only(router, inward, packet):
        if inward is not backend.gateway_port(router):
            hit = [nat for nat in backend.nat.values() if nat.floating_address == packet.target]
            if hit:
                return None
        return forward(backend, router, inward, packet)

    backend.forward = outside_only


@MUTATIONS.override("converge", breaks(RouterDriver, 3))
def fail_the_router_for_one_floating_ip(driver, original, update):
    """Fail every key of the router when one floating IP is refused."""
    outcome = original(update)
    if any(isinstance(key, FloatingIpKey) for key in outcome.failed):
        error = next(iter(outcome.failed.values()))
        return Outcome(failed=dict.fromkeys(update, error))
    return outcome


@MUTATIONS.override("write_router", breaks(RouterDriver, 2))
def answer_for_no_proxied_address(driver, original, router, state):
    """Leave proxied addresses to others."""
    original(router, state)
    driver.backend.proxied = lambda router: ()


@MUTATIONS.override("refused_subjects", breaks(RouterDriver, 3))
def fail_the_router_for_a_rule_with_a_subject(driver, original, state):
    """Fail the router when a rule is refused that can be left out."""
    return []


@MUTATIONS.override("check_rules", breaks(RouterDriver, 3))
def fail_the_router_for_a_rule_of_an_extension(driver, original, operation, router, state):
    """Fail the router when a rule of one of its floating IPs is refused."""
    try:
        original(operation, router, state)
    except OperationRefused as refusal:
        raise OperationRefused(dict.fromkeys([operation], str(refusal))) from refusal


@MUTATIONS.override("put_nat", breaks(RouterDriver, 3))
def lose_rules_when_one_is_refused(driver, original, operation, id, value):
    """Remove the former rules when a new one is refused."""
    try:
        original(operation, id, value)
    except NetfwError:
        driver.backend.nat.clear()
        driver.backend.probe()
        raise


@MUTATIONS.override("write_router", breaks(RouterDriver, 3))
def end_rules_at_a_word(driver, original, router, state):
    """Read a word of a rule as the end of all rules."""
    words = {word for each in state.contributions for rule in each.rules for word in rule.words}
    if "COMMIT" in words:
        raise BackendUnavailable("no rule is left")
    original(router, state)


@MUTATIONS.override("__init__", breaks(RouterDriver, 3))
def ignore_the_ports_of_rules(driver, original, backend):
    """Apply rules that name ports to all packets."""
    original(backend)
    backend.matches = lambda rule, inward, out: True


@MUTATIONS.override("__init__", breaks(RouterDriver, 3))
def ignore_subchains(driver, original, backend):
    """Apply the rules of subchains to all packets."""
    original(backend)
    backend.chain_drops = lambda rules, chain, *ports: any(
        "DROP" in rule.words and backend.matches(rule, *ports) for rule in rules
    )


@MUTATIONS.override("__init__", breaks(RouterDriver, 3))
def ignore_the_port_by_which_packets_leave(driver, original, backend):
    """Apply rules by the port alone by which packets come in."""
    original(backend)
    backend.matches = lambda rule, inward, out: rule.in_port in (None, inward)


@MUTATIONS.override("__init__", breaks(RouterDriver, 4))
def forget_nat_on_restart(driver, original, backend):
    """Remove the floating IPs of the former process at the start."""
    original(backend)
    backend.nat.clear()
    backend.probe()


@MUTATIONS.override("apply", breaks(RouterDriver, 4))
def rebuild_on_every_update(driver, original, plan, checkpoint):
    """Remove the translations of all floating IPs for a moment, with every update."""
    kept = dict(driver.backend.nat)
    driver.backend.nat.clear()
    driver.backend.probe()
    driver.backend.nat.update(kept)
    original(plan, checkpoint)


@MUTATIONS.override("write_router", breaks(RouterDriver, 5))
def rebuild_router_on_change(driver, original, router, state):
    """Remove a router, and make it again, for any change."""
    if router in driver.backend.routers:
        del driver.backend.routers[router]
        driver.backend.probe()
    original(router, state)


@MUTATIONS.override("put_router", breaks(RouterDriver, 6))
def leave_namespace(driver, original, operation, router, state):
    """Leave the namespace of a dropped router."""
    original(operation, router, state)
    if state is None:
        driver.backend.junk.add(f"namespace {router}")


@MUTATIONS.override("status", breaks(RouterDriver, 6))
def report_no_devices(driver, original, router):
    """Report no devices of a router."""
    return evolve(original(router), devices={})


@MUTATIONS.override("watch", breaks(RouterDriver, 8, 10))
def watch_nothing(driver, original, sink):
    """Restart no processes, and report no changes."""


@MUTATIONS.override("supports", breaks(RouterDriver, 9))
def accept_agent_gateways(driver, original, value):
    """Report as done what the driver does not implement."""
    return original(value) or not hasattr(value, "full")


@accept_agent_gateways.also("describe")
def _(driver, original):
    return without_capability(original(), RouterCapability.DISTRIBUTED)


@MUTATIONS.override("describe", breaks(RouterDriver, 9))
def run_parts_that_are_not_declared(driver, original):
    """Run the parts of distributed routers without declaring them."""
    return without_capability(original(), RouterCapability.DISTRIBUTED)


@run_parts_that_are_not_declared.also("supports")
def _(driver, original, value):
    return True


def without_capability(info, capability):
    """Return what a driver says of itself, without a capability."""
    return DriverInfo(info.name, info.capabilities - {capability})


@MUTATIONS.override("refusals", breaks(RouterDriver, 9))
def raise_for_a_wrong_value(driver, original, update, observed):
    """Raise for a value that does not fit its key, instead of refusing it."""
    refused = original(update, observed)
    for key, value in update.put.items():
        if isinstance(key, RouterKey) and isinstance(value, FloatingIpNat):
            raise ValueError(f"{key} is no floating IP")
    return refused


@MUTATIONS.override("grant", breaks(RouterDriver, 9))
def grant_one_mark_to_all(driver, original, request):
    """Grant every extension the same bits."""
    grant = original(request)
    marks = {name: evolve(mark, first=0) for name, mark in grant.marks.items()}
    return evolve(grant, marks=marks)


@MUTATIONS.override("waiting", breaks(RouterDriver, 10))
def wait_for_nothing(driver, original, nat, routers, observed):
    """Report a floating IP as done before its gateway is wired."""
    return {key: why for key, why in original(nat, routers, observed).items() if "wired" not in why}


@MUTATIONS.override("unwired_ports", breaks(RouterDriver, 10))
def report_every_port_as_wired(driver, original, router):
    """Name no port that the switch has not admitted."""
    return frozenset()


@MUTATIONS.override("observe")
def raise_connection_error(driver, original, scope):
    """Raise the backend's own error in an outage."""
    if not driver.backend.online:
        raise ConnectionError("the switch is gone")
    return original(scope)


@MUTATIONS.override("write_router", breaks(RouterDriver, 11))
def redirect_no_metadata(driver, original, router, state):
    """Redirect no metadata request."""
    original(router, evolve(state, metadata_port=None))


@MUTATIONS.override("write_router", breaks(RouterDriver, 11))
def use_another_metadata_port(driver, original, router, state):
    """Redirect to another port than desired, without metadata too, and guard that one alone."""
    original(router, evolve(state, metadata_port=9000))


@MUTATIONS.override("write_router", breaks(RouterDriver, 12))
def advertise_nothing(driver, original, router, state):
    """Advertise no subnet."""
    ports = tuple(
        evolve(port, subnets=tuple(evolve(s, ipv6_ra_mode=None) for s in port.subnets))
        for port in state.full.interfaces
    )
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("write_router", breaks(RouterDriver, 12))
def never_withdraw_a_prefix(driver, original, router, state):
    """Go on advertising the subnets of the first state."""
    have = driver.backend.routers.get(router)
    known = {} if have is None else {port.id: port for port in have.full.interfaces}
    ports = tuple(
        evolve(port, subnets=known[port.id].subnets) if port.id in known else port
        for port in state.full.interfaces
    )
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("withdraw", breaks(RouterDriver, 12))
def stop_advertising_silently(driver, original, router, state):
    """Stop advertising a prefix without withdrawing it."""


@MUTATIONS.override("source", breaks(RouterDriver, 12))
def advertise_from_the_metadata_address(driver, original, port):
    """Advertise from the address that each router with a metadata proxy has."""
    return METADATA_ADDRESSES[6].ip


@MUTATIONS.override("handle_event", breaks(RouterDriver, 10))
def announce_at_the_next_converge(driver, original, event):
    """Announce nothing when a gateway is wired."""


@MUTATIONS.override("write_router", breaks(RouterDriver, 2))
def keep_rules_of_dropped_extension(driver, original, router, state):
    """Keep the contributions of an extension that is gone."""
    have = driver.backend.routers.get(router)
    former = () if have is None else have.contributions
    original(router, evolve(state, contributions=state.contributions or former))


@MUTATIONS.override("status", breaks_raise(RouterDriver, "status", NotFound))
def invent_status(driver, original, router):
    """Return an empty status of an unknown router."""
    try:
        return original(router)
    except NotFound:
        return RouterStatus()


@MUTATIONS.override("status", breaks_raise(RouterDriver, "status", BackendUnavailable))
def status_from_cache(driver, original, router):
    """Return a status while the backend is unreachable."""
    online, driver.backend.online = driver.backend.online, True
    try:
        return original(router)
    finally:
        driver.backend.online = online


@MUTATIONS.override("grant", breaks_raise(RouterDriver, "grant", NotSupported, ConfigError))
def grant_everything(driver, original, request):
    """Grant meters, and more marks than there are."""
    try:
        return original(request)
    except NetfwError:
        return next(iter(driver.grants.values()), None)
