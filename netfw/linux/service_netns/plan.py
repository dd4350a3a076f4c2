"""Planner of service namespaces: steps that turn the observed into the desired one.  Pure.

Every stage is one step, so that each is done or not; the state that a crash leaves between two of
them is a difference like any other to the next plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    DelAddress,
    NetworkOperation,
    SetUp,
)
from netfw.linux.ip.plan import by_hand, plan_addresses, plan_routes, plan_sysctl
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import Address, IpRoute, RouteKind, route
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.plan import plan_chains
from netfw.linux.iptables.rule import Family, IptablesRule, match, target
from netfw.linux.service_netns.device_plan import (
    LOOPBACK,
    MAKES_LINK_LOCAL,
    can_be_set,
    clear_devices,
    forgotten_address,
    in_netns,
    is_to_be_plugged,
    lacks_link_local,
    make_stages,
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
from netfw.linux.service_netns.values import ObservedNetns, ServiceNetns, why_without_ipv6
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId
from netfw.plan import Stage, Update

CHAIN_OWNER = "station"
DEVICE_SETTINGS = {
    "disable_ipv6": "0",
    "accept_ra": "0",
    "accept_dad": "0",
    MAKES_LINK_LOCAL: "0",
}
"""IPv6 parameters of each device: a link-local address from its MAC address, no addresses or routes
from router advertisements, and no duplicate detection to wait for: a server listens at once."""
SETTINGS = {
    "net.ipv4.conf.all.promote_secondaries": "1",
    **{f"net.ipv6.conf.default.{name}": value for name, value in DEVICE_SETTINGS.items()},
}

CHECKSUMS = ChainKey(family=Family.IPV4, table="mangle", name="checksums")
_FILLING = Chain(
    rules=(
        IptablesRule(
            protocol="udp",
            matches=(match("udp", dport=68),),
            target=target("CHECKSUM", checksum_fill=True),
        ),
    ),
    hooks=frozenset({"POSTROUTING"}),
)


def plan_service_netns(
    owner: Hashable, wanted: ServiceNetns, found: ObservedNetns
) -> tuple[Stage, ...]:
    """Plan the steps that turn *found* into *wanted*, on behalf of *owner*; none if they agree.

    :raises ValueError: *found* is of another namespace.
    """
    if wanted.netns != found.netns:
        raise ValueError(f"{wanted.netns} is wanted, and {found.netns} was looked at")
    return make_stages(owner, _steps(wanted, found))


def plan_removal(
    owner: Hashable, found: ObservedNetns, port: PortId | None = None
) -> tuple[Stage, ...]:
    """Plan the removal of a service namespace with all that is in it; no steps if it is gone.

    :param port: its port, if the caller knows it, so that it is found even if another program
        removed its device or the whole namespace.
    """
    return make_stages(owner, remove_namespace(found, () if port is None else (port,)))


def device_settings(device: str) -> dict[str, str]:
    """Return the kernel parameters of a device in a service namespace."""
    return {
        device_parameter("ipv6", device, name): value for name, value in DEVICE_SETTINGS.items()
    }


def _steps(wanted: ServiceNetns, found: ObservedNetns) -> Iterator[Step]:
    if not found.exists:
        yield MakeNamespace(wanted.netns)
    yield from in_netns(wanted.netns, _settings(wanted, found))
    yield from clear_devices(found, keep={wanted.device})
    found = without_lost(found)
    plugging = is_to_be_plugged(wanted, found)
    if plugging:
        yield PlugPort(wanted.port, wanted.attachment)
    elif not found.links[wanted.device].up:
        yield from in_netns(wanted.netns, [SetUp(wanted.device)])
    addressing = _addresses(wanted, found, plugging)
    kept = {interface.ip for interface in wanted.addresses}
    for operation in addressing:
        yield ChangeNetwork(
            netns=wanted.netns,
            operation=operation,
            forget=forgotten_address(operation, kept) if wanted.forget_connections else None,
        )
    reinstall = plugging or bool(addressing)
    yield from in_netns(wanted.netns, _routes(wanted, found, reinstall=reinstall))
    yield from _rules(wanted, found)


def _settings(wanted: ServiceNetns, found: ObservedNetns) -> Iterator[NetworkOperation]:
    """Plan the parameters, before the device is added; those that the kernel lacks are omitted."""
    settings = SETTINGS
    if found.exists:
        both = {**SETTINGS, **device_settings(wanted.device)}
        settings = {name: value for name, value in both.items() if can_be_set(name, found)}
    yield from plan_sysctl(settings, found.sysctls)
    if lacks_link_local(wanted, device_settings(wanted.device), found):
        yield from renew_link_local(wanted.device, found)
    loopback = found.links.get(LOOPBACK)
    if loopback is not None and not loopback.up:
        yield SetUp(LOOPBACK)


def _addresses(
    wanted: ServiceNetns, found: ObservedNetns, plugging: bool
) -> tuple[NetworkOperation, ...]:
    without = why_without_ipv6(wanted, found)
    want = [
        Address(device=wanted.device, interface=interface, nodad=interface.version == 6)
        for interface in wanted.addresses
        if interface.version == 4 or without is None
    ]
    have = [entry for entry in found.addresses if entry.address.device == wanted.device]
    operations = plan_addresses(want, have)
    if not plugging:
        return operations
    # The device may be repaired or made anew: its later addresses are unknown here.
    removals = (operation for operation in operations if isinstance(operation, DelAddress))
    return (*removals, *(AddAddress(address, replace=True) for address in want))


def _routes(
    wanted: ServiceNetns, found: ObservedNetns, *, reinstall: bool
) -> Iterator[NetworkOperation]:
    """Plan the routes; *reinstall* all if addresses or the device, and so routes, were removed."""

    def owned(route: IpRoute) -> bool:
        return _is_default(route) or (by_hand(route) and _is_on_link(route, wanted.device))

    want = tuple(_wanted_routes(wanted, found))
    if reinstall:
        yield from (AddRoute(route, replace=True) for route in want)
    for operation in plan_routes(want, found.routes, owned):
        if not (reinstall and isinstance(operation, AddRoute)):
            yield operation


def _wanted_routes(wanted: ServiceNetns, found: ObservedNetns) -> Iterator[IpRoute]:
    without = why_without_ipv6(wanted, found)
    for gateway in wanted.gateways:
        if gateway.version == 6 and without is not None:
            continue
        if any(gateway == interface.ip for interface in wanted.addresses):
            continue
        if not _is_near(gateway, wanted):
            yield route(f"{gateway}/{gateway.max_prefixlen}", device=wanted.device)
        yield route("default", via=gateway, device=wanted.device)


def _is_near(gateway: IpAddress, wanted: ServiceNetns) -> bool:
    if gateway.version == 6 and gateway.is_link_local:
        return True
    return any(gateway in interface.network for interface in wanted.addresses)


def _is_default(route: IpRoute) -> bool:
    return route.destination.prefixlen == 0 and route.kind is RouteKind.UNICAST


def _is_on_link(route: IpRoute, device: str) -> bool:
    alone = route.destination.prefixlen == route.destination.max_prefixlen
    return alone and [(hop.via, hop.device) for hop in route.hops] == [(None, device)]


def _rules(wanted: ServiceNetns, found: ObservedNetns) -> Iterator[Step]:
    if found.devices_only or (found.rules is None and found.exists and not wanted.fill_checksums):
        return
    update: Update[ChainKey, Chain] = (
        Update(put={CHECKSUMS: _FILLING})
        if wanted.fill_checksums
        else Update(drop=frozenset({CHECKSUMS}))
    )
    changes = plan_chains(update, found.rules or ChainMirror(), CHAIN_OWNER, {})
    if changes:
        yield RestoreTables(wanted.netns, CHAIN_OWNER, changes)
