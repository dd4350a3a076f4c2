"""The routes that people add to routers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netfw.errors import InvalidInput
from netfw.model.route import Route
from netfw.model.subnet import Subnet
from netfw.server.l3.router_ports import RouterInterfaces


def check_routes(new: Sequence[Route], legs: RouterInterfaces, most: int) -> None:
    """Accept the routes of a router.

    :raises InvalidInput: naming each next hop that the router does not reach, or is itself.
    """
    if len(new) > most:
        raise InvalidInput(
            {"routes": f"{len(new)} are more than the {most} that a router can have"}
        )
    own, faults = legs.addresses, {}
    for at, route in enumerate(new):
        if route.nexthop in own:
            faults[f"routes[{at}].nexthop"] = f"{route.nexthop} is the router's own address"
        elif not reaches(legs.subnets.values(), route):
            faults[f"routes[{at}].nexthop"] = (
                f"{route.nexthop} is on no subnet that the router is connected to"
            )
    if faults:
        raise InvalidInput(faults)


def reaches(subnets: Iterable[Subnet], route: Route) -> bool:
    """Whether the next hop of *route* is on one of *subnets*."""
    return any(route.nexthop in subnet.cidr for subnet in subnets)


def added(present: Sequence[Route], new: Iterable[Route]) -> tuple[Route, ...]:
    """*present*, and those of *new* that are not among them."""
    return tuple(dict.fromkeys((*present, *new)))


def removed(present: Sequence[Route], gone: Iterable[Route]) -> tuple[Route, ...]:
    """*present* without *gone*; what is gone already is no matter."""
    without = set(gone)
    return tuple(route for route in present if route not in without)
