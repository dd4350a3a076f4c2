"""FirewallGroupHandler, and the service plugin of router firewalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import NotFound
from netfw.errors.firewalls import (
    FirewallGroupInUse,
    FirewallGroupPortInvalid,
    FirewallGroupPortInvalidProject,
    FirewallGroupPortNotSupported,
    FirewallPolicyConflict,
    FirewallPolicyNotFound,
)
from netfw.errors.ports import PortNotFound
from netfw.model.l3_extensions import ROUTER_FIREWALL
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.values.device_owner import is_compute, is_router_interface
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.firewalls.handler import FirewallDocumentHandler
from netfw.server.firewalls.references import (
    DIRECTIONS,
    GROUP,
    POLICY,
    find_all,
    is_own,
    is_visible,
    rewrite,
    update_users,
)
from netfw.server.firewalls.router_groups import ROUTERS, store_in_routers
from netfw.server.firewalls.rules import FirewallPolicyHandler, FirewallRuleHandler
from netfw.server.scheduling.missing_l3_extensions import find_without_extension

PORTS = "ports"
NOT_FILTERED = "it does not filter; add it to extensions in [agent] of the agent"


class FirewallGroupHandler(FirewallDocumentHandler):
    """Firewall groups: interfaces of routers, with a policy for each direction."""

    def __init__(self) -> None:
        super().__init__(GROUP, ROUTERS)

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple(self._create(unit, body) for body in bodies)

    def _create(self, unit: UnitOfWork, body: Body) -> Body:
        project = body.get("project_id") or unit.requester.project_id
        owned = {**body, "project_id": project}
        self._check_policies(unit, owned)
        routers = _routers(unit, owned)
        full = {**body, PORTS: _listed(body), ROUTERS: routers, "status": find_status(body)}
        (made,) = super().do_create(unit, [full])
        self._relink(unit, None, made)
        store_in_routers(unit, None, made)
        return made

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        wanted = {**before, **body}
        self._check_policies(unit, wanted)
        routers = _routers(unit, wanted) if PORTS in body else before[ROUTERS]
        derived = {PORTS: _listed(wanted), ROUTERS: routers, "status": find_status(wanted)}
        after = super().do_update(unit, before, {**body, **derived})
        self._relink(unit, before, after)
        store_in_routers(unit, before, after)
        return after

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        if ports := cast("list[str]", before[PORTS]):
            raise FirewallGroupInUse(
                f"firewall group {before['id']} has port {ports[0]}; remove its ports first"
            )
        super().do_delete(unit, before)
        self._relink(unit, before, None)

    def _derived(self, reader: Reader, bodies: Sequence[Body]) -> Sequence[Body]:
        """Return *bodies* with status ERROR where a host routes and does not filter."""
        routers = {UUID(id) for each in bodies for id in cast("Mapping[str, Any]", each[ROUTERS])}
        without = (
            find_without_extension(reader, routers, ROUTER_FIREWALL) if routers else frozenset()
        )
        return [_with_reason(each, without) for each in bodies]

    def _check_policies(self, unit: UnitOfWork, group: Body) -> None:
        named = [str(group[name]) for name in DIRECTIONS if group.get(name) is not None]
        found = find_all(unit, POLICY, named)
        for id in named:
            policy = found.get(id)
            if policy is None or not is_visible(unit.requester, policy):
                raise FirewallPolicyNotFound(f"there is no firewall policy {id}")
            if not is_own(group, policy):
                raise FirewallPolicyConflict(f"policy {id} is of another project, and not shared")

    def _relink(self, unit: UnitOfWork, before: Body | None, after: Body | None) -> None:
        """Have the policies of a group name it."""
        former, wanted = (
            {str(each[name]) for name in DIRECTIONS if each[name] is not None} if each else set()
            for each in (before, after)
        )
        group = (after or before or {})["id"]
        update_users(unit, POLICY, group, gained=wanted - former, lost=former - wanted)


class FirewallPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin of firewall groups, policies and rules."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        handlers = (FirewallRuleHandler(), FirewallPolicyHandler(), FirewallGroupHandler())
        super().__init__(context, handlers)
        context.precommit_hooks.append(release_port)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("firewall")


def _with_reason(group: Body, without: Set[UUID]) -> Body:
    routers = cast("Mapping[str, Any]", group[ROUTERS])
    unfiltered = sorted(id for id in routers if UUID(id) in without)
    if not unfiltered:
        return {**group, "status_reason": None}
    reason = (
        f"an L3 agent of router {unfiltered[0]} lacks the extension {ROUTER_FIREWALL}: "
        f"{NOT_FILTERED}"
    )
    return {**group, "status": "ERROR", "status_reason": reason}


def find_status(group: Body) -> str:
    """Return the status of a group, which follows from what is wanted of it."""
    if not group["admin_state_up"]:
        return "DOWN"
    return "ACTIVE" if group[PORTS] else "INACTIVE"


def release_port(unit: UnitOfWork, change: Change) -> None:
    """Take a port that leaves its router out of its group; a pre-commit hook."""
    before, after = change.before, change.after
    if not isinstance(before, Port) or not is_router_interface(before.device_owner):
        return
    if isinstance(after, Port) and after.device_id == before.device_id:
        return
    try:
        router = cast(Router, unit.tx.resources.get(Kind.ROUTER, UUID(before.device_id)).resource())
    except (ValueError, NotFound):
        return
    ids = [str(each.id) for each in router.firewall_groups if before.id in each.ports]
    for group in find_all(unit, GROUP, ids).values():
        gone = str(before.id)
        ports = [each for each in group[PORTS] if each != gone]
        routers = {
            id: left
            for id, own in group[ROUTERS].items()
            if (left := [each for each in own if each != gone])
        }
        status = find_status({**group, PORTS: ports})
        rewrite(unit, GROUP, group, ports=ports, routers=routers, status=status)
        store_in_routers(unit, group, {**group, PORTS: ports, ROUTERS: routers})


def _listed(group: Body) -> list[str]:
    return list(dict.fromkeys(cast("list[str]", group[PORTS])))


def _routers(unit: UnitOfWork, group: Body) -> dict[str, list[str]]:
    """Return the ports of a group by router.

    :raises RequestError: the group cannot have one of them.
    """
    wanted = _listed(group)
    refs = [Ref(Kind.PORT, UUID(each)) for each in wanted]
    rows = unit.tx.resources.present(refs)
    found = {str(row.ref.id): cast(Port, row.resource()) for row in rows}
    routers: dict[str, list[str]] = {}
    for id in wanted:
        port = found.get(id)
        if port is None or unit.requester.sees not in (None, port.project_id):
            raise PortNotFound(f"there is no port {id}")
        _check_port(port, str(group["project_id"]))
        routers.setdefault(port.device_id, []).append(id)
    return routers


def _check_port(port: Port, project: str) -> None:
    if is_compute(port.device_owner):
        raise FirewallGroupPortNotSupported(
            f"port {port.id} is of an instance; use security groups there"
        )
    if not is_router_interface(port.device_owner):
        raise FirewallGroupPortInvalid(f"port {port.id} is no interface of a router")
    if port.project_id != project:
        raise FirewallGroupPortInvalidProject(
            f"port {port.id} is of project {port.project_id or 'none'}, the group of {project}"
        )
