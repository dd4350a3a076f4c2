"""The keepalived that a highly available router should have, and the steps to it.  Pure.

keepalived has the addresses of the interfaces and of the gateway, and the routes.  It gives up the
active role when another program removes one of them, so that the order of a change is:

1. what is on a device that is removed or plugged again leaves the configuration first;
2. then come rules and devices, as for every router;
3. then the whole configuration, which keepalived reads without losing its role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Address
from pathlib import Path

from attrs import evolve, frozen

from netfw.drivers.values.router_values import HighAvailability
from netfw.errors import InvalidInput
from netfw.linux.ip.values import PROTOCOL_KEEPALIVED, IpRoute
from netfw.linux.process.supervised_program import Program
from netfw.linux.router_netns.values import RouterNetns
from netfw.linux.service_netns.device_plan import is_to_be_plugged
from netfw.linux.service_netns.values import ObservedNetns, why_without_ipv6
from netfw.model.router import HaRole
from netfw.model.values.address import IpInterface
from netfw_drivers.linux_router.config.keepalived import (
    VirtualAddress,
    VrrpInstance,
    change_addresses,
    render_keepalived,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import SERVICE as CONNTRACKD
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter
from netfw_drivers.linux_router.plan.floating_ip_rules import Translations
from netfw_drivers.linux_router.plan.names import PartId, config_path, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter

SERVICE = "keepalived"


@frozen(kw_only=True)
class KeepalivedPlan:
    """The steps of keepalived before and after those of the namespace, and the namespace itself."""

    before: tuple[DaemonStep, ...] = ()
    wanted: RouterNetns
    found: ObservedNetns
    """The namespace after the steps before."""
    after: tuple[DaemonStep, ...] = ()


def make_program(router: PartId, settings: RouterSettings) -> Program:
    """Return the program that elects the active instance of *router*."""
    path = config_path(settings.directory, SERVICE, router)
    argv = ("keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", str(path))
    return Program(
        argv=(*argv, "--pid", f"{path}.pid", "--vrrp_pid", f"{path}.vrrp.pid"),
        own_pid_files=(Path(f"{path}.pid"), Path(f"{path}.vrrp.pid")),
        namespace=router_namespace(router),
        on_death=settings.on_death,
    )


def plan_keepalived(
    router: DesiredRouter,
    wanted: RouterNetns,
    translations: Translations,
    found: FoundRouter,
    settings: RouterSettings,
) -> KeepalivedPlan:
    """Plan the keepalived of a router; a plain one has none.

    :raises InvalidInput: a configuration that cannot be.
    """
    if router.ha is None:
        return _plan_plain(router.id, wanted, found)
    without = {port.device for port in wanted.ports if why_without_ipv6(port, found.netns)}
    instance = _make_instance(router, router.ha, translations, without, settings)
    running = found.keepalived.digest is not None
    program = make_program(router.id, settings) if running or found.can_elect else None
    text = render_keepalived(instance)
    before: list[DaemonStep] = []
    present = found.keepalived.text or ""
    remaining = _remaining_devices(wanted, found.netns)
    if running and any(each.device not in remaining for each in found.virtual_addresses):
        present = render_keepalived(instance.restricted_to(remaining, present))
        before.append(RunDaemon(SERVICE, router.id, present, program))
    after: list[DaemonStep] = []
    if present != text or (program and found.keepalived.digest != program.digest()):
        after.append(RunDaemon(SERVICE, router.id, text, program))
    return KeepalivedPlan(
        before=tuple(before),
        wanted=_with_virtual(wanted, found.virtual_addresses, found.role, running=running),
        found=found.netns,
        after=tuple(after),
    )


def watched_netns(wanted: RouterNetns, role: HaRole | None, *, running: bool) -> RouterNetns:
    """Return what the namespace of a highly available router may have while it has this role.

    Only a running keepalived has addresses, and only an active instance has routes: one that was
    killed leaves those of IPv6 behind.
    """
    return _with_virtual(wanted, (), role, running=running)


def plan_virtual_addresses(
    router: PartId,
    added: Iterable[IpInterface],
    removed: Iterable[IpInterface],
    found: FoundRouter,
    settings: RouterSettings,
) -> RunDaemon | None:
    """Plan a change of the addresses of the gateway; None if it has no configuration to change."""
    device, present = found.gateway_device, found.keepalived.text
    if device is None or present is None:
        return None
    text = change_addresses(
        present,
        [VirtualAddress(device, each) for each in added],
        {VirtualAddress(device, each) for each in removed},
    )
    running = found.keepalived.digest is not None
    program = make_program(router, settings) if running else None
    return RunDaemon(SERVICE, router, text, program) if text != present else None


def _make_instance(
    router: DesiredRouter,
    ha: HighAvailability,
    translations: Translations,
    without: Collection[str],
    settings: RouterSettings,
) -> VrrpInstance:
    """Return the instance of a router, without IPv6 on the devices *without* it.

    :raises InvalidInput: a name or address that cannot be, or more of them than fit.
    """
    own = [each.ip for each in ha.port.addresses if isinstance(each.ip, IPv4Address)]
    if not own:
        raise InvalidInput({f"HA port {ha.port.id}": "VRRP needs an IPv4 address there"})
    addresses = (VirtualAddress(*each) for each in router.virtual_addresses(translations))
    path = config_path(settings.directory, CONNTRACKD, router.id)
    return VrrpInstance(
        vrid=ha.vrid,
        priority=ha.priority,
        device=router.ha_device(ha),
        source=own[0],
        peers=tuple(each for each in ha.peers if isinstance(each, IPv4Address)),
        addresses=tuple(
            each for each in addresses if each.interface.version == 4 or each.device not in without
        ),
        routes=tuple(_ordered(router.routes().routes.values(), without)),
        settings=settings.vrrp,
        conntrackd=path if settings.conntrackd is not None else None,
    )


def _plan_plain(router: PartId, wanted: RouterNetns, found: FoundRouter) -> KeepalivedPlan:
    if found.keepalived.is_absent:
        return KeepalivedPlan(wanted=wanted, found=found.netns)
    netns = found.netns
    if found.keepalived.digest is not None:  # it removes its addresses and routes when it stops
        virtual = frozenset(found.virtual_addresses)
        netns = evolve(
            netns,
            addresses=tuple(
                each
                for each in netns.addresses
                if VirtualAddress(each.address.device, each.address.interface) not in virtual
            ),
            routes=tuple(each for each in netns.routes if each.protocol != PROTOCOL_KEEPALIVED),
        )
    return KeepalivedPlan(
        before=(StopDaemon(SERVICE, router),),
        wanted=evolve(wanted, removed_protocols=frozenset({PROTOCOL_KEEPALIVED})),
        found=netns,
    )


def _with_virtual(
    wanted: RouterNetns,
    present: Collection[VirtualAddress],
    role: HaRole | None,
    *,
    running: bool,
) -> RouterNetns:
    ports = []
    moved = () if running else (each for port in wanted.ports for each in port.virtual_addresses)
    for port in wanted.ports:
        there = (each.interface for each in present if each.device == port.device)
        virtual = port.virtual_addresses.union(there) if running else frozenset[IpInterface]()
        ports.append(evolve(port, virtual_addresses=virtual))
    stale = {PROTOCOL_KEEPALIVED} if role is not HaRole.ACTIVE or not running else ()
    return evolve(
        wanted,
        ports=tuple(ports),
        removed_protocols=frozenset(stale),
        moved_addresses=frozenset(each.ip for each in moved),
    )


def _remaining_devices(wanted: RouterNetns, found: ObservedNetns) -> frozenset[str]:
    return frozenset(
        port.device
        for port in wanted.ports
        if port.device in found.links and not is_to_be_plugged(port, found)
    )


def _ordered(routes: Iterable[IpRoute], without_ipv6: Collection[str]) -> Iterator[IpRoute]:
    """Yield the routes that can be: those without a gateway first, as others may need them."""
    possible = (
        route
        for route in routes
        if route.destination.version == 4
        or not any(hop.device in without_ipv6 for hop in route.hops)
    )
    yield from sorted(possible, key=lambda each: any(hop.via is not None for hop in each.hops))
