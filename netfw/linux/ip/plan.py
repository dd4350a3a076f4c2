"""Planner: operations that turn the present network into the desired one.  Pure.

Objects of other origin are not touched: routes and rules of the kernel, of routing daemons and of
router advertisements, addresses with a lifetime, the link-local address of a device.  Those of an
operator are, whatever attributes they have that netfw does not model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import evolve

from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    AddRule,
    DelAddress,
    DelNeighbour,
    DelRoute,
    DelRule,
    NetworkOperation,
    SetNeighbour,
    SetSysctl,
)
from netfw.linux.ip.values import (
    PROTOCOL_BOOT,
    PROTOCOL_STATIC,
    PROTOCOL_UNSPEC,
    Address,
    FoundAddress,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    RouteKey,
)

Operations = tuple[NetworkOperation, ...]

BY_HAND = frozenset({PROTOCOL_UNSPEC, PROTOCOL_BOOT, PROTOCOL_STATIC})
"""Origins of routes and rules that netfw or an operator added."""


def plan_addresses(wanted: Iterable[Address], found: Iterable[FoundAddress]) -> Operations:
    """Make the addresses of devices equal to *wanted*; *found* are their present addresses.

    Removals come first, so that an address can change its prefix length.  IPv4 addresses that
    the kernel may remove together with the first one of their network are added again at once.
    """
    want = {address.key: address for address in wanted}
    have = {entry.address.key: entry for entry in found}
    stale = [entry for key, entry in have.items() if _is_stale(entry, want.get(key))]
    removed = {entry.address.key for entry in stale}
    operations: list[NetworkOperation] = [DelAddress(entry.address) for entry in stale]
    for key, address in want.items():
        there = have.get(key)
        if there is None or key in removed:
            operations.append(AddAddress(address))
        elif not _is_as_wanted(there, address) or _goes_with(there, stale):
            operations.append(AddAddress(address, replace=True))
    return tuple(operations)


def _is_stale(entry: FoundAddress, wanted: Address | None) -> bool:
    if wanted is None:
        return entry.permanent and not entry.automatic
    # An address that failed duplicate detection, or lost its route, stays unusable until it is
    # added anew.
    is_unusable = entry.duplicate or entry.unrouted
    return is_unusable or not _can_be_changed(entry.address, wanted)


def _can_be_changed(found: Address, wanted: Address) -> bool:
    """Return whether it can be changed in place: IPv4 keeps scope and flags, IPv6 takes flags."""
    if wanted.interface.version == 6:
        return True
    scope = found.scope if wanted.scope is None else wanted.scope
    return (found.scope, found.noprefixroute) == (scope, wanted.noprefixroute)


def _is_as_wanted(entry: FoundAddress, wanted: Address) -> bool:
    return entry.permanent and entry.address.noprefixroute == wanted.noprefixroute


def _goes_with(entry: FoundAddress, stale: Iterable[FoundAddress]) -> bool:
    address = entry.address
    return entry.secondary and any(
        not gone.secondary
        and gone.address.device == address.device
        and gone.address.network == address.network
        for gone in stale
    )


def by_hand(thing: IpRoute | IpRule) -> bool:
    """Return whether netfw or an operator added it, not the kernel or a routing daemon."""
    return thing.protocol in BY_HAND


def plan_routes(
    wanted: Iterable[IpRoute],
    found: Iterable[IpRoute],
    owned: Callable[[IpRoute], bool] = by_hand,
) -> Operations:
    """Make the routes that are *owned* equal to *wanted*: first add and change, then remove.

    Routes without a gateway come first: others may need them to reach theirs.  Of several routes of
    one key, in the order of the kernel, one is kept or replaced.
    """
    want = {route.key: route for route in wanted}
    have: dict[RouteKey, list[IpRoute]] = {}
    for route in found:
        have.setdefault(route.key, []).append(route)
    operations: list[NetworkOperation] = []
    stale: list[NetworkOperation] = []
    for key, route in sorted(want.items(), key=lambda item: _needs_others(item[1])):
        there = have.pop(key, [])
        own = [other for other in there if owned(other)]
        agreeing = [other for other in there if _agrees(route, other)]
        if not agreeing:
            operations.append(AddRoute(route, replace=bool(own)))
        stale += _plan_rivals(route, own, agreeing[0] if agreeing else _replaced(route, own))
    stale += [DelRoute(each) for there in have.values() for each in there if owned(each)]
    return (*operations, *stale)


def _plan_rivals(route: IpRoute, own: Iterable[IpRoute], kept: IpRoute | None) -> Operations:
    """Plan the removal of all routes of one key but the one that is kept or replaced.

    The kernel may take a removal of an IPv6 route without a gateway for one of the kept route,
    which is therefore added once more.
    """
    rivals = tuple(DelRoute(each) for each in own if each is not kept)
    again = rivals and route.destination.version == 6
    return (*rivals, AddRoute(route, replace=True)) if again else rivals


def _replaced(route: IpRoute, own: Sequence[IpRoute]) -> IpRoute | None:
    """Return the route that the kernel replaces: the first, in IPv6 the first of the same form."""
    alike = (each for each in own if _has_gateway(each) == _has_gateway(route))
    first = next(iter(own), None)
    return next(alike, first) if route.destination.version == 6 else first


def _has_gateway(route: IpRoute) -> bool:
    return any(hop.via is not None for hop in route.hops)


def _needs_others(route: IpRoute) -> bool:
    return any(hop.via is not None and not hop.onlink for hop in route.hops)


def _agrees(wanted: IpRoute, found: IpRoute) -> bool:
    """Return whether a route is as wanted, where the kernel filled in unspecified values."""
    if wanted.scope is None or wanted.destination.version == 6:
        found = evolve(found, scope=wanted.scope)
    if len(wanted.hops) != len(found.hops):
        return False
    rest = list(found.hops)
    for hop in wanted.hops:
        match = next((other for other in rest if _hop_agrees(hop, other)), None)
        if match is None:
            return False
        rest.remove(match)
    return evolve(found, hops=()) == evolve(wanted, hops=())


def _hop_agrees(wanted: NextHop, found: NextHop) -> bool:
    if wanted.device is None:
        found = evolve(found, device=None)
    return found == wanted


def plan_rules(
    wanted: Iterable[IpRule], found: Iterable[IpRule], owned: Callable[[IpRule], bool] = by_hand
) -> Operations:
    """Make the rules that are *owned* equal to *wanted*: first add, then remove."""
    want, have = tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(found))
    there, kept = frozenset(have), frozenset(want)
    return (
        *(AddRule(rule) for rule in want if rule not in there),
        *(DelRule(rule) for rule in have if rule not in kept and owned(rule)),
    )


def plan_neighbours(wanted: Iterable[Neighbour], found: Iterable[Neighbour]) -> Operations:
    """Make the permanent and the proxy entries of devices equal to *wanted*."""
    want = {(entry.device, entry.address, entry.proxy): entry for entry in wanted}
    have = {(entry.device, entry.address, entry.proxy): entry for entry in found}
    return (
        *(SetNeighbour(entry) for key, entry in want.items() if have.get(key) != entry),
        *(DelNeighbour(entry) for key, entry in have.items() if key not in want),
    )


def plan_sysctl(wanted: Mapping[str, str], found: Mapping[str, str]) -> Operations:
    """Set the parameters whose value differs; white space between words does not matter."""
    return tuple(
        SetSysctl(name, value)
        for name, value in wanted.items()
        if found.get(name, "").split() != value.split()
    )
