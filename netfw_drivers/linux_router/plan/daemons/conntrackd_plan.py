"""The conntrackd that a highly available router should have, and the steps to it.  Pure.

It is the last step of a router: without it, all is in force but that established connections
survive a failover.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

from netfw.linux.process.supervised_program import Program
from netfw_drivers.linux_router.config.conntrackd import ConntrackdInstance, render_conntrackd
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.desired_netns import DesiredRouter
from netfw_drivers.linux_router.plan.names import PartId, config_path, router_namespace
from netfw_drivers.linux_router.plan.observed import FoundRouter

SERVICE = "conntrackd"


def make_program(router: PartId, settings: RouterSettings) -> Program:
    """Return the program that shares the connections of *router*."""
    path = config_path(settings.directory, SERVICE, router)
    return Program(
        argv=("conntrackd", "-C", str(path)),
        namespace=router_namespace(router),
        on_death=settings.on_death,
    )


def plan_conntrackd(
    router: DesiredRouter, found: FoundRouter, settings: RouterSettings
) -> Iterator[DaemonStep]:
    """Plan the conntrackd of a router; only a highly available one has it, if the option is on.

    It requests all connections when it starts: before the switch has admitted the port on the HA
    network, the request would be lost.

    :raises InvalidInput: a configuration that cannot be.
    """
    path = config_path(settings.directory, SERVICE, router.id)
    instance = _make_instance(router, path, settings)
    if instance is None:
        if not found.conntrackd.is_absent:
            yield StopDaemon(SERVICE, router.id)
        return
    text, present = render_conntrackd(instance), found.conntrackd
    program = make_program(router.id, settings) if found.can_elect else None
    if present.text != text or (program and present.digest != program.digest()):
        yield RunDaemon(SERVICE, router.id, text, program)


def _make_instance(
    router: DesiredRouter, path: Path, settings: RouterSettings
) -> ConntrackdInstance | None:
    ha = router.ha
    if ha is None or settings.conntrackd is None:
        return None
    source = next(each.ip for each in ha.port.addresses if isinstance(each.ip, IPv4Address))
    return ConntrackdInstance(
        vrid=ha.vrid,
        device=router.ha_device(ha),
        source=source,
        path=path,
        settings=settings.conntrackd,
    )
