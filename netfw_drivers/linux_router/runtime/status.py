"""Status of a router: the namespaces of its parts, its devices and its role."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.drivers.values.router_values import RouterPart, RouterStatus
from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.router_netns import RouterNetnsExecutor
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from netfw_drivers.linux_router.distributed.local_routing import is_local
from netfw_drivers.linux_router.plan.ha_role import decide_role
from netfw_drivers.linux_router.plan.names import CentralPart, PartId, router_namespace
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner


def read_status(
    router: RouterId, executor: RouterNetnsExecutor, keepalived: KeepalivedRunner
) -> RouterStatus:
    """Read the status of a router; errors as of ``RouterDriver.status``."""
    found = dict(_observe(router, executor))
    if not found:
        name = router_namespace(router)
        raise NotFound(f"router {router} is not on this host: there is no {name}")
    links = {name for each in found.values() for name in each.links}
    return RouterStatus(
        namespaces={_part(part, each): each.netns for part, each in found.items()},
        devices={
            port: device.name for port, device in executor.devices().items() if device.name in links
        },
        role=_role(found, keepalived),
    )


def _observe(
    router: RouterId, executor: RouterNetnsExecutor
) -> Iterator[tuple[PartId, ObservedNetns]]:
    for part in (router, CentralPart(router)):
        name = router_namespace(part)
        if netns.exists(name):
            yield part, executor.observe(name, mirrored=True)


def _part(part: PartId, found: ObservedNetns) -> RouterPart:
    if isinstance(part, CentralPart):
        return RouterPart.CENTRAL
    return RouterPart.LOCAL if is_local(found.policy_rules) else RouterPart.FULL


def _role(found: dict[PartId, ObservedNetns], keepalived: KeepalivedRunner) -> HaRole | None:
    """Return the role of the part that is elected, if there is one."""
    roles = (
        decide_role(
            each.links,
            (entry.address for entry in each.addresses),
            running=keepalived.is_running(part),
        )
        for part, each in found.items()
    )
    return next((role for role in roles if role is not None), None)
