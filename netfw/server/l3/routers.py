"""RouterHandler, and the service plugin for routers and floating IPs."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput
from netfw.errors.agents import AvailabilityZoneNotFound
from netfw.errors.requests import BadRequest
from netfw.errors.routers import InvalidRoutes, RouterInUse
from netfw.model.resource import Kind, ref
from netfw.model.router import Router
from netfw.model.values.route import Route
from netfw.model.wire import parse, render
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Act, Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.flavors.flavors import FlavorHandler
from netfw.server.flavors.providers import RouterKind
from netfw.server.l3 import central_ports, prefix_delegation
from netfw.server.l3.conntrack_helpers import show_helpers
from netfw.server.l3.floating_ips import floating_ip_hosts
from netfw.server.l3.floating_ips.floating_ip_pools import FloatingIpPoolHandler
from netfw.server.l3.floating_ips.floating_ips import FloatingIpHandler
from netfw.server.l3.ha import router_roles
from netfw.server.l3.ha.ha_network_checks import check_ha_network_change
from netfw.server.l3.ha.ha_networks import acquire_vrid, release_vrid
from netfw.server.l3.ha.ha_prefix_checks import check_ha_prefixes
from netfw.server.l3.ha.router_roles import RouterRoles
from netfw.server.l3.ha.split_detection import SplitDetector
from netfw.server.l3.interface_limit import check_interface_count
from netfw.server.l3.ndp_proxy_state import ATTRIBUTE as NDP_PROXY
from netfw.server.l3.ndp_proxy_state import decide_ndp_proxy
from netfw.server.l3.port_hooks import release_floating_ips_or_refuse
from netfw.server.l3.qos_policy_checks import check_policies
from netfw.server.l3.router_gateway import GATEWAY_INFO, Info, update_gateway
from netfw.server.l3.router_interfaces import (
    add_interface,
    add_routes,
    check_routes,
    remove_interface,
    remove_routes,
)
from netfw.server.l3.router_port_binding import (
    VridAllocator,
    bind_changed_router_ports,
    follow_agents,
)
from netfw.server.l3.router_ports import (
    change_port,
    drop_port,
    interface_owner,
    quote_ids,
    read_router_ports,
)
from netfw.server.l3.router_status import L3Statuses, add_status_reasons
from netfw.server.scheduling.assignments import add_zones

ACTION_ATTRIBUTES = frozenset({GATEWAY_INFO, "routes", NDP_PROXY})
"""Attributes that request an action instead of being stored as they are."""


class RouterHandler(StoredResourceHandler[Router]):
    """Routers; their interfaces and gateways are ports, created in the same transaction."""

    name: ClassVar[str] = "router"
    kind: ClassVar[Kind] = Kind.ROUTER
    quota: ClassVar[str | None] = "router"

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Router, ...]:
        return tuple(self._new(unit, body) for body in bodies)

    def do_update(self, unit: UnitOfWork, before: Router, body: Body) -> Router:
        plain = {name: value for name, value in body.items() if name not in ACTION_ATTRIBUTES}
        after = cast(Router, parse(self.kind, {**render(before), **plain}))
        _check_conversion(before, after)
        _check_flavor(before, after)
        _check_zones(unit, after, before)
        after = _with_vrid(unit, before, after)
        if interface_owner(after) != interface_owner(before):
            for port in read_router_ports(unit.tx, before.id).interfaces:
                change_port(unit, port.id, {"device_owner": interface_owner(after)})
        if GATEWAY_INFO in body:
            gateway = update_gateway(unit, before, cast("Info | None", body[GATEWAY_INFO]))
            after = evolve(after, gateway=gateway)
        after = evolve(after, enable_ndp_proxy=decide_ndp_proxy(unit, before, after, body))
        if "routes" in body:
            after = self._routed(unit, after, _routes(body))
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: Router) -> None:
        attached = read_router_ports(unit.tx, before.id)
        if attached.interfaces:
            ports = [port.id for port in attached.interfaces]
            raise RouterInUse(
                f"router {before.id} has interfaces ({quote_ids(ports)}); remove them first"
            )
        if attached.gateway is not None:
            drop_port(unit, attached.gateway)
        if before.ha:
            release_vrid(unit, before)
        unit.tx.statuses.delete([ref(before)])
        unit.delete(before)

    def render_all(self, unit: UnitOfWork, resources: Sequence[Router]) -> tuple[Body, ...]:
        """Return *resources* with the statuses that follow from their assignment by hooks."""
        unit.run_hooks()
        return super().render_all(unit, resources)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        for body in bodies:
            body.pop("firewall_groups", None)  # what the API has of them are firewall groups
        add_zones(reader, L3_AGENT, bodies)
        add_status_reasons(reader, self.kind, bodies)
        for body in bodies:
            body["conntrack_helpers"] = show_helpers(body.get("conntrack_helpers", ()))

    def actions(self) -> Mapping[str, Act[Any]]:
        return {
            "add_router_interface": add_interface,
            "remove_router_interface": remove_interface,
            "add_extraroutes": self._add_routes,
            "remove_extraroutes": self._remove_routes,
        }

    def _new(self, unit: UnitOfWork, body: Body) -> Router:
        plain = {name: value for name, value in body.items() if name not in ACTION_ATTRIBUTES}
        settings = unit.context.settings
        kind = {"ha": settings.l3_ha, "distributed": settings.router_distributed}
        if plain.get("flavor_id") is not None:
            kind = _kind_of_flavor(unit, plain)
        attributes = {**kind, **plain, "id": str(uuid4())}
        router = cast(Router, parse(self.kind, attributes))
        _check_zones(unit, router)
        (router,) = unit.insert(_with_vrid(unit, None, router))
        info = cast("Info | None", body.get(GATEWAY_INFO))
        if info:
            gateway = update_gateway(unit, router, info)
            router = unit.update(router, evolve(router, gateway=gateway))
        if decide_ndp_proxy(unit, None, router, body):
            router = unit.update(router, evolve(router, enable_ndp_proxy=True))
        if routes := _routes(body):
            router = unit.update(router, self._routed(unit, router, routes))
        return router

    def _routed(self, unit: UnitOfWork, router: Router, routes: Sequence[Route]) -> Router:
        new = [route for route in routes if route not in router.routes]
        if new or len(routes) > len(router.routes):
            check_routes(
                routes, read_router_ports(unit.tx, router.id), unit.context.settings.max_routes
            )
        return evolve(router, routes=tuple(routes))

    def _add_routes(self, unit: UnitOfWork, before: Router, body: Body) -> Body:
        after = self._routed(unit, before, add_routes(before.routes, _routes(body)))
        return self.render_all(unit, (unit.update(before, after),))[0]

    def _remove_routes(self, unit: UnitOfWork, before: Router, body: Body) -> Body:
        after = evolve(before, routes=remove_routes(before.routes, _routes(body)))
        return self.render_all(unit, (unit.update(before, after),))[0]


class RouterPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for routers and floating IPs; it also checks changes of their ports."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (RouterHandler(), FloatingIpHandler(), FloatingIpPoolHandler()))
        statuses, splits = L3Statuses(context), SplitDetector(context)
        context.precommit_hooks += [
            release_floating_ips_or_refuse,
            check_interface_count,
            prefix_delegation.withdraw_delegated_prefixes,
            central_ports.update_central_ports,
            bind_changed_router_ports,
            floating_ip_hosts.update_floating_ip_hosts,
            statuses.follow_ports,
            statuses.follow_conversions,
            router_roles.update_roles_and_bindings,
            check_ha_network_change,
            check_ha_prefixes,
        ]
        context.prestore_hooks.append(check_policies)
        context.prefix_handler = prefix_delegation.set_prefix
        context.reassignment_hooks += [follow_agents, router_roles.follow_agents]
        context.reassignment_hooks.append(statuses.follow_agents)
        context.report_handlers += [statuses, RouterRoles(context, splits)]
        vrids = VridAllocator(context)
        context.reconcilers += [vrids.reconcile, statuses.reconcile, splits.reconcile]

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("router")


def _routes(body: Body) -> tuple[Route, ...]:
    """Parse the routes of a request.

    :raises InvalidRoutes: one is invalid, or occurs twice.
    """
    probe = {"id": str(uuid4()), "routes": body.get("routes") or []}
    try:
        return cast(Router, parse(Kind.ROUTER, probe)).routes
    except InvalidInput as exc:
        raise InvalidRoutes(exc.problems) from exc


def _check_conversion(before: Router, after: Router) -> None:
    """Validate a change of kind, which recreates the router: it must be down meanwhile.

    :raises BadRequest: it is up.
    """
    changed = [
        each for each in ("ha", "distributed") if getattr(before, each) != getattr(after, each)
    ]
    if changed and after.admin_up:
        text = "changes only while the router is down: set admin_state_up to false first"
        raise BadRequest(dict.fromkeys(changed, text))


def _kind_of_flavor(unit: UnitOfWork, body: Body) -> dict[str, bool]:
    """Return the attributes that the flavor of a new router decides.

    :raises InvalidInput: the request has one of them, too.
    """
    given = [name for name in RouterKind._fields if name in body]
    if given:
        raise InvalidInput(dict.fromkeys(given, "follows from the flavor; leave out one of them"))
    flavors = cast(FlavorHandler, unit.context.handler("flavor"))
    return flavors.find_router_kind(unit, str(body["flavor_id"]))._asdict()


def _check_flavor(before: Router, after: Router) -> None:
    """Refuse another kind of a router whose flavor decides it.

    :raises InvalidInput: names the attributes.
    """
    if before.flavor_id is not None:
        changed = [
            each for each in RouterKind._fields if getattr(before, each) != getattr(after, each)
        ]
        if changed:
            raise InvalidInput(dict.fromkeys(changed, "follows from the flavor of the router"))


def _with_vrid(unit: UnitOfWork, before: Router | None, after: Router) -> Router:
    """Return *after* with a virtual router id if it is highly available, and without otherwise."""
    was_ha = before is not None and before.ha
    if after.ha and not was_ha:
        return evolve(after, vrid=acquire_vrid(unit, after))
    if was_ha and not after.ha:
        release_vrid(unit, after)
        return evolve(after, vrid=None)
    return after


def _check_zones(unit: UnitOfWork, router: Router, before: Router | None = None) -> None:
    wanted = set(router.availability_zone_hints)
    wanted -= set(before.availability_zone_hints if before else ())
    if not wanted:
        return
    query = Query(filters={"availability_zone": tuple(sorted(wanted))})
    known = {row.body["availability_zone"] for row in unit.tx.resources.find(Kind.AGENT, query)}
    if missing := sorted(wanted - known):
        raise AvailabilityZoneNotFound(f"no agent is in availability zone {', '.join(missing)}")
