"""The client for delegated prefixes that a router should have, and the steps to it.  Pure.

It runs while the router has a gateway and an interface on a subnet with a delegated prefix, on the
active host of a highly available router alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netfw.linux.process.supervised_program import Program
from netfw.model.router import HaRole
from netfw.model.values.ids import SubnetId
from netfw_drivers.linux_router.config.dhclient import (
    MAX_PREFIXES,
    PREFIX_LENGTH,
    PrefixClient,
    parse_client,
    render_client,
)
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter
from netfw_drivers.linux_router.plan.names import PartId, config_path, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter

SERVICE = "dhclient"
LEASES = ".leases"
"""End of the name of the lease file, beside the configuration."""
_NO_SCRIPT = "/bin/true"
"""Run by the client for each change: nothing but its lease file is used."""


def make_program(router: PartId, client: PrefixClient, settings: RouterSettings) -> Program:
    """Return the program that requests the prefixes of *router*."""
    path = config_path(settings.directory, SERVICE, router)
    files = ("-cf", str(path), "-lf", f"{path}{LEASES}", "--no-pid", "-sf", _NO_SCRIPT)
    prefixes = (*["-P"] * client.count, "--prefix-len-hint", str(PREFIX_LENGTH))
    return Program(
        argv=("dhclient", "-6", "-d", *prefixes, *files, client.device),
        namespace=router_namespace(router),
        on_death=settings.on_death,
    )


def plan_delegation(
    router: DesiredRouter, found: FoundRouter, settings: RouterSettings
) -> Iterator[DaemonStep]:
    """Plan the client of a router.  One that is to end comes before the gateway's device goes."""
    present = found.dhclient
    client = make_client(router, present.text or "")
    if client is None:
        if not present.is_absent:
            yield StopDaemon(SERVICE, router.id)
        return
    text = render_client(client)
    is_active = router.ha is None or found.role is HaRole.ACTIVE
    program = make_program(router.id, client, settings) if is_active else None
    if present.text != text or present.digest != (None if program is None else program.digest()):
        yield RunDaemon(SERVICE, router.id, text, program)


def make_client(router: DesiredRouter, present: str) -> PrefixClient | None:
    """Return the client of a router; None: it needs none.

    :param present: its present configuration, in which subnets have their numbers already.
    """
    gateway, device = router.full.gateway, router.gateway_device
    wanted = _delegated(router)
    if gateway is None or device is None or not wanted:
        return None
    former = parse_client(present)
    numbers = _number(wanted, {} if former is None else former.subnets)
    return PrefixClient(device=device, mac=gateway.port.mac, subnets=numbers)


def left_out_prefixes(router: DesiredRouter) -> dict[str, str]:
    """Return the subnets for which no prefix can be requested, each with the reason."""
    if router.full.gateway is None:
        return {}
    why = f"a router requests at most {MAX_PREFIXES} prefixes"
    return {f"prefix of subnet {id}": why for id in _delegated(router)[MAX_PREFIXES:]}


def _delegated(router: DesiredRouter) -> list[SubnetId]:
    return sorted({id for port in router.full.interfaces for id in port.delegated})


def _number(wanted: list[SubnetId], former: Mapping[int, SubnetId]) -> dict[int, SubnetId]:
    """Return *wanted* by number; those that have one keep it, others get the lowest free one."""
    chosen = wanted[:MAX_PREFIXES]
    numbers = {number: id for number, id in former.items() if id in chosen}
    free = (number for number in range(MAX_PREFIXES) if number not in numbers)
    known = set(numbers.values())
    return numbers | {next(free): id for id in chosen if id not in known}
