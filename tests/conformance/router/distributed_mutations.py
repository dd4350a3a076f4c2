"""Mutations of the fake router driver that concern distributed routers."""

from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import RouterPart, RouterState
from tests.conformance.common.mutations import Mutations, breaks
from tests.conformance.router.fake_parts import CentralPart, LocalState
from tests.conformance.router.forwarding_mutations import full_of

MUTATIONS = Mutations()


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def route_inside_by_the_central_part(driver, original, backend):
    """Send what is for another interface to the central part."""
    original(backend)

    def forward_inside(router, inward, packet):
        own = packet.target in [each.ip for each in inward.addresses]
        way = type(backend).forward_inside if own else type(backend).forward_outside
        return way(backend, router, inward, packet)

    backend.forward_inside = forward_inside


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def route_one_family_inside(driver, original, backend):
    """Route IPv4 alone between interfaces."""
    original(backend)
    forward_inside = type(backend).forward_inside
    backend.forward_inside = lambda router, inward, packet: (
        forward_inside(backend, router, inward, packet) if packet.target.version == 4 else None
    )


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def use_one_central_address_for_all_subnets(driver, original, backend):
    """Send everything to the central part's address on the first subnet."""
    original(backend)

    def snat_address(router, inward, version):
        addresses = backend.local_part(router).snat_addresses.values()
        return next(each for each in addresses if each.version == version)

    backend.snat_address = snat_address


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def send_no_ipv6_to_the_central_part(driver, original, backend):
    """Have a default route for IPv4 alone."""
    original(backend)
    snat_address = type(backend).snat_address
    backend.snat_address = lambda router, inward, version: (
        snat_address(backend, router, inward, version) if version == 4 else None
    )


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def translate_in_the_local_part(driver, original, backend):
    """Send to the central part with the address of the interface."""
    original(backend)
    forward_outside = type(backend).forward_outside

    def translated(router, inward, packet):
        own = (each.ip for each in inward.addresses)
        source = next(each for each in own if each.version == packet.source.version)
        if backend.nat_of(router, packet.source) is None:
            packet = evolve(packet, source=source)
        return forward_outside(backend, router, inward, packet)

    backend.forward_outside = translated


@MUTATIONS.override("__init__", breaks(RouterDriver, 14))
def translate_inside(driver, original, backend):
    """Give what a port with a floating IP sends inside its floating IP as source."""
    original(backend)
    forward_inside = type(backend).forward_inside

    def translated(router, inward, packet):
        nat = backend.nat_of(router, packet.source)
        seen = packet if nat is None else evolve(packet, source=nat.floating_address)
        return forward_inside(backend, router, inward, seen)

    backend.forward_inside = translated


@MUTATIONS.override("__init__", breaks(RouterDriver, 15))
def run_the_central_part_beside_a_local_one_only(driver, original, backend):
    """Forward in the central part only while the local part is on the host."""
    original(backend)
    forward = type(backend).forward

    def beside(router, inward, packet):
        alone = isinstance(router, CentralPart) and router.router not in backend.routers
        return None if alone else forward(backend, router, inward, packet)

    backend.forward = beside


@MUTATIONS.override("write_router", breaks(RouterDriver, 15))
def translate_nothing_in_the_central_part(driver, original, router, state):
    """Leave SNAT to nobody."""
    if isinstance(router, CentralPart):
        state = full_of(state, gateway=evolve(state.full.gateway, snat=False))
    original(router, state)


@MUTATIONS.override("write_router", breaks(RouterDriver, 15))
def forget_contributions_of_distributed_routers(driver, original, router, state):
    """Apply contributions to full routers alone."""
    if isinstance(router, CentralPart):
        state = evolve(state, contributions=())
    original(router, state)


@MUTATIONS.override("write_router", breaks(RouterDriver, 15))
def forget_rules_of_local_parts(driver, original, router, state):
    """Apply contributions to central parts alone."""
    if isinstance(state, LocalState):
        state = evolve(state, contributions=())
    original(router, state)


@MUTATIONS.override("plan", breaks(RouterDriver, 15))
def have_all_rules_at_local_parts(driver, original, update, observed):
    """Apply rules to local parts whether or not these want them."""
    put = {key: want_local_rules(value) for key, value in update.put.items()}
    return original(evolve(update, put=put), observed)


def want_local_rules(value):
    """Return a state whose rules are all wanted at the local part."""
    if not isinstance(value, RouterState):
        return value
    contributions = tuple(
        evolve(each, rules=tuple(evolve(rule, local=True) for rule in each.rules))
        for each in value.contributions
    )
    return evolve(value, contributions=contributions)


@MUTATIONS.override("write_router", breaks(RouterDriver, 11, 15))
def redirect_no_metadata_in_the_local_part(driver, original, router, state):
    """Redirect metadata requests in full routers alone."""
    if isinstance(state, LocalState):
        state = evolve(state, metadata_port=None)
    original(router, state)


@MUTATIONS.override("status", breaks(RouterDriver, 6))
def call_each_part_a_full_router(driver, original, router):
    """Name one namespace, as of a full router."""
    found = original(router)
    names = [*found.namespaces.values()]
    return evolve(found, namespaces={RouterPart.FULL: names[0]})


@MUTATIONS.override("removed", breaks(RouterDriver, 6))
def keep_a_part_that_is_elsewhere_now(driver, original, update, observed):
    """Remove the central part with the router only."""
    return [
        key
        for key in original(update, observed)
        if not isinstance(getattr(key, "router", None), CentralPart)
        or RouterKey(key.router.router) not in update.put
    ]


@MUTATIONS.override("remove_agent_gateway", breaks(RouterDriver, 6))
def leave_the_namespace_of_an_agent_gateway(driver, original, network):
    """Leave the namespace of an agent gateway."""
    original(network)
    driver.backend.junk.add(f"namespace fip-{network}")


@MUTATIONS.override("remove_nat", breaks(RouterDriver, 6))
def leave_the_link_to_the_agent_gateway(driver, original, id):
    """Leave the devices between a router and the agent gateway."""
    gone = driver.backend.nat[id]
    original(id)
    if gone.part is RouterPart.LOCAL:
        driver.backend.junk.add(f"device rfp-{gone.router}")


@MUTATIONS.override("waiting", breaks(RouterDriver, 10))
def wait_for_no_agent_gateway(driver, original, nat, routers, observed):
    """Report a floating IP of a local part as done without an agent gateway."""
    found = original(nat, routers, observed)
    return {key: why for key, why in found.items() if nat[key].part is not RouterPart.LOCAL}


@MUTATIONS.override("plan", breaks(RouterDriver, 10))
def ignore_what_the_agent_gateway_brings(driver, original, update, observed):
    """Leave a floating IP waiting that once waited for the agent gateway."""
    planned = original(update, observed)
    driver.backend.waited = getattr(driver.backend, "waited", set()) | planned.waiting.keys()
    again = {key: "it waited" for key in update.put if key in driver.backend.waited}
    return evolve(planned, waiting={**planned.waiting, **again})


@MUTATIONS.override("__init__", breaks(RouterDriver, 14, 16))
def send_by_the_central_part_alone(driver, original, backend):
    """Take floating IPs in by the agent gateway, and send their answers by the central part."""
    original(backend)
    backend.nat_of = lambda router, fixed: None


@MUTATIONS.override("__init__", breaks(RouterDriver, 16))
def need_the_central_part_for_floating_ips(driver, original, backend):
    """Let floating IPs in only while the central part is on the host."""
    original(backend)
    enter = type(backend).enter
    backend.enter = lambda router, packet: (
        enter(backend, router, packet) if CentralPart(router) in backend.routers else None
    )


@MUTATIONS.override("__init__", breaks(RouterDriver, 16))
def give_the_agent_gateway_to_one_router(driver, original, backend):
    """Link one router with the agent gateway, and no other one."""
    original(backend)
    agent_gateway = type(backend).agent_gateway
    backend.agent_gateway = lambda router: (
        agent_gateway(backend, router) if router == next(iter(backend.routers), None) else None
    )


@MUTATIONS.override("put_nat", breaks(RouterDriver, 16))
def rebuild_the_agent_gateway(driver, original, operation, id, value):
    """Make the agent gateway again for each floating IP that comes."""
    kept = dict(driver.backend.agent_gateways)
    driver.backend.agent_gateways.clear()
    driver.backend.probe()
    driver.backend.agent_gateways.update(kept)
    original(operation, id, value)


@MUTATIONS.override("put_router", breaks(RouterDriver, 16))
def remove_the_agent_gateway_with_a_router(driver, original, operation, router, state):
    """Remove the agent gateway with a router that used it, although another one does."""
    local = driver.backend.local_part(router)
    original(operation, router, state)
    if state is None and local is not None:
        driver.backend.agent_gateways.pop(local.external_network, None)


@MUTATIONS.override("__init__", breaks(RouterDriver, 4))
def forget_agent_gateways_on_restart(driver, original, backend):
    """Make agent gateways again after a restart."""
    original(backend)
    kept = dict(backend.agent_gateways)
    backend.agent_gateways.clear()
    backend.probe()
    backend.agent_gateways.update(kept)


@MUTATIONS.override("announce", breaks(RouterDriver, 2))
def announce_nothing_from_agent_gateways(driver, original, router, address):
    """Announce what is on gateways alone."""
    if driver.backend.local_part(router) is None:
        original(router, address)


@MUTATIONS.override("__init__", breaks(RouterDriver, 16))
def answer_for_prepared_floating_ips(driver, original, backend):
    """Let floating IPs in before they are active."""
    original(backend)
    backend.is_active_nat = lambda nat: True


@MUTATIONS.override("put_nat", breaks(RouterDriver, 16))
def announce_prepared_floating_ips(driver, original, operation, id, value):
    """Announce floating IPs when they are prepared."""
    original(operation, id, value)
    if value.prepared:
        driver.announce(value.router, value.floating_address)
