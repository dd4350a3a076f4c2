"""Planner of router namespaces: steps that turn the observed into the desired one.  Pure.

The order makes each state after a crash one that is safe, and a difference like any other to the
next plan: single addresses (floating IPs) are added after their rules, and removed after them
together with their connections; a device has no address before the filters are in force, and what
replaces an address or a route is there before the old one is removed.  Only an old IPv6 route that
hides the next hop of a desired one is removed first: the kernel would refuse the desired one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from itertools import groupby, takewhile

from attrs import evolve

from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    AddVeth,
    DelAddress,
    DelLink,
    DelRoute,
    NetworkOperation,
    SetMtu,
    SetUp,
    needs_ipv6,
)
from netfw.linux.ip.plan import by_hand, plan_neighbours, plan_routes, plan_rules, plan_sysctl
from netfw.linux.ip.values import (
    DEFAULT_TABLE,
    LOCAL_TABLE,
    MAIN_TABLE,
    PROTOCOL_KERNEL,
    PROTOCOL_RA,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
)
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.plan import plan_chains
from netfw.linux.router_netns.address_plan import (
    AddressChanges,
    is_to_be_made,
    plan_address_changes,
    plan_departures,
)
from netfw.linux.router_netns.values import NetnsDevice, NetnsLink, NetnsPort, RouterNetns
from netfw.linux.service_netns.device_plan import (
    LOOPBACK,
    can_be_set,
    clear_devices,
    forgotten_address,
    lacks_link_local,
    remove_namespace,
    renew_link_local,
    without_lost,
)
from netfw.linux.service_netns.steps import (
    ChangeNetwork,
    MakeNamespace,
    PlugPort,
    RestoreTables,
    Step,
)
from netfw.linux.service_netns.values import ObservedNetns, why_without_ipv6
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId
from netfw.plan import Operation, Stage, Update

SETTINGS = {"net.ipv4.conf.all.promote_secondaries": "1"}
"""Kernel parameters of every router: without it, addresses are removed with the first one."""
KERNEL_RULES = tuple(
    IpRule(priority=priority, version=version, table=table, protocol=PROTOCOL_KERNEL)
    for version, priority, table in (
        *((4, 0, LOCAL_TABLE), (4, 32766, MAIN_TABLE), (4, 32767, DEFAULT_TABLE)),
        *((6, 0, LOCAL_TABLE), (6, 32766, MAIN_TABLE)),
    )
)
"""Policy rules of a new namespace: without them, nothing is routed."""

_ACCEPT_RA = "ipv6/accept_ra"


def plan_router_netns(
    owner: Hashable, wanted: RouterNetns, found: ObservedNetns, chain_owner: str
) -> tuple[Stage, ...]:
    """Plan the steps that turn *found* into *wanted*, on behalf of *owner*; none if they agree.

    :param chain_owner: the prefix of the router's chains.
    :raises ValueError: *found* is of another namespace.
    :raises InvalidInput: a chain that its table or family cannot have.
    :raises Conflict: a jump to a chain that will not exist.
    """
    if wanted.netns != found.netns:
        raise ValueError(f"{wanted.netns} is wanted, and {found.netns} was observed")
    return _stages(owner, wanted, _steps(wanted, found, chain_owner))


def plan_router_removal(
    owner: Hashable, found: ObservedNetns, ports: Iterable[PortId] = ()
) -> tuple[Stage, ...]:
    """Plan the removal of a router namespace with all that is in it; no steps if it is gone.

    :param ports: its ports, as far as they are known, so that they are found even if another
        program removed their devices or the whole namespace.
    """
    steps = remove_namespace(found, ports)
    return tuple(Stage((_operation(owner, step),)) for step in steps)


def make_update(wanted: RouterNetns) -> Update[ChainKey, Chain]:
    """Return the desired chains: they are complete."""
    return Update(wanted.chains, complete=True)


def _stages(owner: Hashable, wanted: RouterNetns, steps: Iterable[Step]) -> tuple[Stage, ...]:
    """Make stages; changes of the network that follow each other are one, others one each."""
    ports = {port.device: port for port in wanted.devices}

    def owner_of(step: Step) -> Hashable:
        if isinstance(step, ChangeNetwork) and isinstance(step.operation, AddAddress):
            address = step.operation.address
            port = ports.get(address.device)
            return owner if port is None else port.owners.get(address.interface, owner)
        return owner

    stages: list[Stage] = []
    for netns, group in groupby(steps, _changed_netns):
        operations = [_operation(owner_of(step), step) for step in group]
        if netns is not None:
            stages.append(Stage(operations))
        else:
            stages += [Stage((operation,)) for operation in operations]
    return tuple(stages)


def _changed_netns(step: Step) -> str | None:
    """Return the namespace whose network a step changes; None if it is another step."""
    return step.netns if isinstance(step, ChangeNetwork) else None


def _operation(owner: Hashable, step: Step) -> Operation:
    return Operation(step.backend, step.text, frozenset({owner}), step)


def _steps(wanted: RouterNetns, found: ObservedNetns, chain_owner: str) -> Iterator[Step]:
    if not found.exists:
        yield MakeNamespace(wanted.netns)
    yield from _in(wanted, _settings(wanted, found))
    changes = plan_address_changes(wanted, without_lost(found))
    rules, update = found.rules or ChainMirror(), make_update(wanted)
    tables = plan_chains(update, rules, chain_owner, found.spelling, sole_owner=True)
    if tables:
        yield RestoreTables(wanted.netns, chain_owner, tables)
    # With the rules gone, no new connection is translated to an address.
    yield from _in(wanted, changes.floating)
    devices = {port.device for port in wanted.devices}
    keep = devices | set(filter(wanted.keeps, found.links))
    # With a device gone, the kernel would no longer recognise a route of several hops.
    yield from _in(wanted, (each for each in _stale(wanted, found) if not _is_on(each, devices)))
    # Addresses go before their device, so that a crash in between leaves none with connections.
    yield from _in(wanted, plan_departures(found, keep))
    yield from clear_devices(found, keep=keep)
    found = without_lost(found)
    made = [each for each in wanted.devices if is_to_be_made(each, found)]
    for each in made:
        yield from _make(each, wanted, found)
    yield from _in(wanted, _devices(wanted, found, made))
    yield from _in(wanted, changes.new)
    again = {each.device for each in made} | changes.devices
    yield from _in(wanted, _routing(wanted, found, changes, again))
    yield from _in(wanted, _proxies(wanted, found, {each.device for each in made}))


def _make(device: NetnsDevice, wanted: RouterNetns, found: ObservedNetns) -> Iterator[Step]:
    """Plug a port, or make a pair; a broken one is removed first, with what is left of it."""
    if isinstance(device, NetnsPort):
        yield PlugPort(device.port, device.attachment(wanted.netns))
    elif isinstance(device, NetnsLink):
        if device.is_broken:
            yield ChangeNetwork(netns=device.peer_netns, operation=DelLink(device.peer))
        name, there = device.device, device.peer_netns
        old = [DelLink(name)] if name in found.links else []
        new = AddVeth(name=name, peer=device.peer, peer_namespace=there)
        yield from _in(wanted, (*old, new, SetMtu(name, device.mtu)))


def _in(wanted: RouterNetns, operations: Iterable[NetworkOperation]) -> Iterator[Step]:
    for operation in operations:
        forget = _forgotten(wanted, operation)
        yield ChangeNetwork(netns=wanted.netns, operation=operation, forget=forget)


def _forgotten(wanted: RouterNetns, operation: NetworkOperation) -> IpAddress | None:
    if not isinstance(operation, DelAddress):
        return None
    kept = {
        interface.ip
        for port in wanted.devices
        for interface in (*port.addresses, *port.virtual_addresses)
    } | wanted.moved_addresses
    return forgotten_address(operation, kept) if wanted.forget_connections else None


def _settings(wanted: RouterNetns, found: ObservedNetns) -> Iterator[NetworkOperation]:
    settings = {**SETTINGS, **wanted.sysctls}
    if found.exists:
        settings = {name: value for name, value in settings.items() if can_be_set(name, found)}
    yield from plan_sysctl(settings, found.sysctls)
    loopback = found.links.get(LOOPBACK)
    if loopback is not None and not loopback.up:
        yield SetUp(LOOPBACK)


def _devices(
    wanted: RouterNetns, found: ObservedNetns, made: list[NetnsDevice]
) -> Iterator[NetworkOperation]:
    """Plan parameters and link state; a device that is made now gets all parameters."""
    for port in wanted.devices:
        settings = port.sysctls
        if port in made:
            without = why_without_ipv6(port, found)
            yield from (
                each for each in plan_sysctl(settings, {}) if not (without and needs_ipv6(each))
            )
            if isinstance(port, NetnsLink):
                yield SetUp(port.device)
            continue
        known = {name: value for name, value in settings.items() if can_be_set(name, found)}
        yield from plan_sysctl(known, found.sysctls)
        link = found.links[port.device]
        if link.mtu != port.mtu:  # that of a port is wrong: it is plugged again
            yield SetMtu(port.device, port.mtu)
        if not link.up:
            yield SetUp(port.device)
        if lacks_link_local(port, settings, found):
            yield from renew_link_local(port.device, found)


def _proxies(
    wanted: RouterNetns, found: ObservedNetns, made: Container[str]
) -> Iterator[NetworkOperation]:
    """Plan the addresses that devices answer for; those *made* now have none yet."""
    named = {each.device for each in wanted.devices}
    entries = [
        Neighbour(device=each.device, address=address, proxy=True)
        for each in wanted.devices
        if why_without_ipv6(each, found) is None
        for address in sorted(each.proxied)
    ]
    present = (each for each in found.proxies if each.device in named and each.device not in made)
    yield from plan_neighbours(entries, present)


def _routing(
    wanted: RouterNetns, found: ObservedNetns, changes: AddressChanges, again: Container[str]
) -> Iterator[NetworkOperation]:
    """Plan routes and policy rules; those of the devices *again* are added in any case."""
    routes = _routes(wanted, found)
    hiding = tuple(_hiding(wanted, found))
    yield from map(DelRoute, hiding)
    found = evolve(found, routes=tuple(each for each in found.routes if each not in hiding))
    planned = plan_routes(routes, found.routes, _owned(wanted))
    added = tuple(takewhile(lambda each: isinstance(each, AddRoute), planned))
    yield from added
    yield from changes.old
    changed = {each.route.key for each in added if isinstance(each, AddRoute)}
    for route in routes:
        if any(hop.device in again for hop in route.hops) and (
            changes.devices or route.key not in changed
        ):
            yield AddRoute(route, replace=True)
    devices = {port.device for port in wanted.devices}
    for each in planned[len(added) :]:
        if not isinstance(each, DelRoute) or _is_on(each, devices):
            yield each
    rules = [rule for rule in wanted.policy_rules if _is_possible(rule, wanted, found)]
    yield from plan_rules([*_kernel_rules(found), *rules], found.policy_rules)


def _kernel_rules(found: ObservedNetns) -> list[IpRule]:
    """Return the rules that the kernel adds to a new namespace, by the families that have any."""
    versions = {rule.version for rule in found.policy_rules}
    return [rule for rule in KERNEL_RULES if rule.version in versions]


def _routes(wanted: RouterNetns, found: ObservedNetns) -> tuple[IpRoute, ...]:
    return tuple(route for route in wanted.routes if _is_possible(route, wanted, found))


def _owned(wanted: RouterNetns) -> Callable[[IpRoute], bool]:
    """Return which routes are netfw's: not those of the kernel, of daemons or of advertisements.

    A learnt route of a device that no longer accepts advertisements is, too.
    """
    ignoring = {port.device for port in wanted.devices if port.settings.get(_ACCEPT_RA) == "0"}

    def owned(route: IpRoute) -> bool:
        if route.protocol == PROTOCOL_RA:
            return bool(route.hops) and all(hop.device in ignoring for hop in route.hops)
        if route.hops and all(wanted.keeps(hop.device) for hop in route.hops):
            return False
        return by_hand(route) or route.protocol in wanted.removed_protocols

    return owned


def _stale(wanted: RouterNetns, found: ObservedNetns) -> Iterator[DelRoute]:
    planned = plan_routes(_routes(wanted, found), found.routes, _owned(wanted))
    return (each for each in planned if isinstance(each, DelRoute))


def _hiding(wanted: RouterNetns, found: ObservedNetns) -> Iterator[IpRoute]:
    """Yield the IPv6 routes that change or go, and hide a next hop of a desired route."""
    routes, owned = _routes(wanted, found), _owned(wanted)
    changed = {
        each.route.key
        for each in plan_routes(routes, found.routes, owned)
        if isinstance(each, AddRoute | DelRoute)
    }
    devices = {port.device for port in wanted.devices}
    old = [
        route
        for route in found.routes
        if route.destination.version == 6 and route.key in changed and owned(route)
    ]
    hops = dict.fromkeys(hop for route in routes for hop in route.hops) if old else {}
    for route in old:
        if _is_on(DelRoute(route), devices) and any(_is_hidden(hop, route, wanted) for hop in hops):
            yield route


def _is_hidden(hop: NextHop, by: IpRoute, wanted: RouterNetns) -> bool:
    """Return whether a route is preferred to the connected network that *hop* is on."""
    if hop.via is None or hop.via not in by.destination:
        return False
    networks = [
        interface.network
        for port in wanted.devices
        if port.device == hop.device
        for interface in port.addresses
    ]
    networks += [
        route.destination
        for route in wanted.routes
        if any(each.via is None and each.device == hop.device for each in route.hops)
    ]
    near = max((each.prefixlen for each in networks if hop.via in each), default=0)
    return near < by.destination.prefixlen


def _is_on(removal: DelRoute, devices: Container[str | None]) -> bool:
    return all(hop.device in devices for hop in removal.route.hops)


def _is_possible(value: IpRoute | IpRule, wanted: RouterNetns, found: ObservedNetns) -> bool:
    """Return whether the namespace, and the devices of an IPv6 route, have IPv6."""
    if isinstance(value, IpRule):
        return value.version == 4 or found.no_ipv6 is None
    if value.destination.version == 4:
        return True
    devices = {hop.device for hop in value.hops}
    without = (why_without_ipv6(port, found) for port in wanted.devices if port.device in devices)
    return found.no_ipv6 is None and not any(without)
