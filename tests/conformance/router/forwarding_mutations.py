"""Mutations of the fake router driver that forward or translate otherwise than desired."""

from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.keys import RouterKey
from netfw.errors import PartlyInvalid
from tests.conformance.common.mutations import Mutations, breaks

MUTATIONS = Mutations()


def full_of(state, **changes):
    """Return *state* with another full part."""
    return evolve(state, full=evolve(state.full, **changes))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def forget_routes(driver, original, router, state):
    """Apply no routes."""
    original(router, evolve(state, routes=()))


@MUTATIONS.override("refusals", breaks(RouterDriver, 13))
def refuse_a_router_with_an_impossible_route(driver, original, update, observed):
    """Refuse the whole router for one route."""
    refused = original(update, observed)
    for key, value in update.put.items():
        if key not in refused and isinstance(key, RouterKey) and driver.impossible_routes(value):
            refused[key] = PartlyInvalid({"route": "192.0.2.1 cannot be reached"})
    return refused


@MUTATIONS.override("impossible_routes", breaks(RouterDriver, 13))
def keep_impossible_routes(driver, original, state):
    """Report a route as done that cannot be."""
    return []


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def use_first_next_hop_only(driver, original, router, state):
    """Use one of several next hops of a destination."""
    first = {route.destination: route for route in reversed(state.routes)}
    original(router, evolve(state, routes=tuple(first.values())))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1, 5))
def keep_removed_interfaces(driver, original, router, state):
    """Leave an interface that is no longer desired."""
    have = driver.backend.routers.get(router)
    stay = () if have is None else have.full.interfaces
    wanted = {port.id for port in state.full.interfaces}
    kept = tuple(port for port in stay if port.id not in wanted)
    original(router, full_of(state, interfaces=(*state.full.interfaces, *kept)))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def serve_first_address_of_a_family(driver, original, router, state):
    """Give an interface one address of each family."""
    ports = tuple(
        evolve(port, addresses=tuple({a.version: a for a in reversed(port.addresses)}.values()))
        for port in state.full.interfaces
    )
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def ignore_mtu(driver, original, router, state):
    """Give every device the default MTU."""
    ports = tuple(evolve(port, mtu=1500) for port in state.full.interfaces)
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def always_translate(driver, original, router, state):
    """Translate although SNAT is off."""
    gateway = state.full.gateway
    original(
        router, full_of(state, gateway=None if gateway is None else evolve(gateway, snat=True))
    )


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def never_translate(driver, original, router, state):
    """Translate nothing without a floating IP."""
    gateway = state.full.gateway
    original(
        router, full_of(state, gateway=None if gateway is None else evolve(gateway, snat=False))
    )


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def refuse_next_hop_outside_subnets(driver, original, router, state):
    """Leave out a next hop that is in no subnet of the gateway."""
    gateway = state.full.gateway
    if gateway is not None:
        near = [
            hop
            for hop in gateway.next_hops
            if any(hop in face.network for face in gateway.port.addresses)
        ]
        gateway = evolve(gateway, next_hops=tuple(near))
    original(router, full_of(state, gateway=gateway))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def ignore_advertised_default_routes(driver, original, router, state):
    """Take no default route from router advertisements."""
    gateway = state.full.gateway
    gateway = None if gateway is None else evolve(gateway, ipv6_from_ra=False)
    original(router, full_of(state, gateway=gateway))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def forget_onlink_subnets(driver, original, router, state):
    """Reach the other subnets of the external network by no route of their own."""
    gateway = state.full.gateway
    gateway = None if gateway is None else evolve(gateway, onlink_subnets=())
    original(router, full_of(state, gateway=gateway))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def use_one_mark_for_all_scopes(driver, original, router, state):
    """Mark all scopes alike, so that nothing is between two of them."""
    ports = tuple(evolve(port, scopes={}) for port in state.full.interfaces)
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def share_networks_of_equal_cidr(driver, original, router, state):
    """Connect an interface to the network of another router with that address."""
    known = {
        port.addresses: port.network
        for other in driver.backend.routers
        if other != router
        for port in driver.backend.routers[other].full.interfaces
    }
    ports = tuple(
        evolve(port, network=known.get(port.addresses, port.network))
        for port in state.full.interfaces
    )
    original(router, full_of(state, interfaces=ports))


@MUTATIONS.override("write_router", breaks(RouterDriver, 1))
def need_a_second_converge(driver, original, router, state):
    """Translate nothing in a router that was not there before."""
    gateway = state.full.gateway
    if router not in driver.backend.routers and gateway is not None:
        state = full_of(state, gateway=evolve(gateway, snat=False))
    original(router, state)
