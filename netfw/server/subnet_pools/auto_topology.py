"""Auto-allocated topologies: a network, subnets and a router for a project, on first request.

All of it is one transaction: a project has the whole topology or nothing, and one topology however
many requests there are at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput, NotFound, NotSupported
from netfw.errors.subnet_pools import AutoAllocationFailure, SubnetAllocationError
from netfw.model.resource import Kind
from netfw.model.subnet_pool import SubnetPool
from netfw.model.values.ids import NetworkId, RouterId
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, ResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.auto_topologies import AutoTopologies, AutoTopology
from netfw.server.subnet_pools.subnet_allocation import find_default_pool

DRY_RUN: Final = "dry-run"
PASSED: Final = "dry-run=pass"
"""The id that tells a client that the cloud has what a topology needs."""
NAME: Final = "auto_allocated"


class AutoTopologyHandler(ResourceHandler):
    """Auto-allocated topologies; the id in a request is that of the project."""

    name: ClassVar[str] = "auto_allocated_topology"

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        raise NotSupported("topologies are not listed; name a project")

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        _check_project(requester, id)
        found = AutoTopologies(reader.connection).of(id)
        if found is None:
            raise NotFound(f"there is no auto_allocated_topology of project {id[:80]}")
        return _render(found)

    def provide(self, unit: UnitOfWork, project: str) -> Body:
        """Return the topology of *project*; build it on first use.

        :raises AutoAllocationFailure: the cloud lacks what it needs; the text says what.
        :raises OverQuota: the project may not have one more of something.
        """
        _check_project(unit.requester, project)
        found = AutoTopologies(unit.tx.connection).of(project)
        if found is None:
            pools, external = _find_requirements(unit)
            try:
                found = _build(unit, project, pools, external)
            except (SubnetAllocationError, InvalidInput) as exc:
                raise AutoAllocationFailure(f"no topology can be allocated: {exc}") from exc
        return _render(found)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        """Delete the topology of project *id*, if there is one.

        :raises Conflict: something else uses its network or router; all of it stays.
        """
        _check_project(unit.requester, id)
        topologies = AutoTopologies(unit.tx.connection)
        found = topologies.of(id)
        if found is None:
            return
        topologies.remove(id)
        routers, router = unit.context.handler("router"), str(found.router_id)
        for subnet in _connected(unit, found):
            routers.act(unit, router, "remove_router_interface", {"subnet_id": subnet})
        if _exists(unit, Kind.ROUTER, router):
            routers.delete(unit, router)
        unit.context.handler("network").delete(unit, str(found.network_id))

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        if action != DRY_RUN:
            return super().act(unit, id, action, body)
        _check_project(unit.requester, id)
        _find_requirements(unit)
        return {"id": PASSED, "project_id": id, "tenant_id": id}


class AutoAllocatePlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for auto-allocated topologies; it needs those for routers and pools."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        self._topologies = AutoTopologyHandler()
        super().__init__(context, (self._topologies,))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("auto_allocate")

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        """Return the topology of project *id*; it is built on first use."""
        try:
            return super().show(requester, name, id)
        except NotFound:
            return self.context.run(requester, self._topologies.provide, id)


def _check_project(requester: RequestContext, project: str) -> None:
    """Hide the topology of a project from requesters of other projects."""
    if requester.sees not in (None, project) or not project:
        raise NotFound(f"there is no auto_allocated_topology of project {project[:80]!r}")


def _find_requirements(unit: UnitOfWork) -> tuple[Sequence[SubnetPool], str]:
    """Return the default pools that the requester sees, and the default external network.

    :raises AutoAllocationFailure: there is none.
    """
    default = Query(filters={"is_default": (True,), "router:external": (True,)}, limit=1)
    networks = unit.tx.resources.find(Kind.NETWORK, default)
    if not networks:
        raise AutoAllocationFailure("no external network is the default one (is_default)")
    pools = [find_default_pool(unit, version) for version in (4, 6)]
    if not any(pools):
        raise AutoAllocationFailure("there is no default subnet pool (is_default) that is shared")
    return [pool for pool in pools if pool is not None], str(networks[0].ref.id)


def _build(
    unit: UnitOfWork, project: str, pools: Sequence[SubnetPool], external: str
) -> AutoTopology:
    handler = unit.context.handler
    common: Body = {"project_id": project, "admin_state_up": True}
    (network,) = handler("network").create(unit, [{**common, "name": f"{NAME}_network"}])
    gateway = {"external_gateway_info": {"network_id": external}}
    (router,) = handler("router").create(unit, [{**common, **gateway, "name": f"{NAME}_router"}])
    made = AutoTopology(
        project_id=project,
        network_id=NetworkId(UUID(str(network["id"]))),
        router_id=RouterId(UUID(str(router["id"]))),
    )
    AutoTopologies(unit.tx.connection).add(made)
    for pool in pools:
        body = {
            "name": f"{NAME}_subnet_v{pool.ip_version}",
            "network_id": str(made.network_id),
            "project_id": project,
            "subnetpool_id": str(pool.id),
        }
        (subnet,) = handler("subnet").create(unit, [body])
        interface = {"subnet_id": str(subnet["id"])}
        handler("router").act(unit, str(made.router_id), "add_router_interface", interface)
    return made


def _connected(unit: UnitOfWork, topology: AutoTopology) -> list[str]:
    """Return the subnets by which the router is connected to the network."""
    query = Query(
        filters={
            "device_id": (str(topology.router_id),),
            "network_id": (str(topology.network_id),),
        }
    )
    ports = unit.tx.resources.find(Kind.PORT, query)
    return [fixed["subnet_id"] for row in ports for fixed in row.body["fixed_ips"]]


def _exists(unit: UnitOfWork, kind: Kind, id: str) -> bool:
    return bool(unit.tx.resources.count(kind, Query(filters={"id": (id,)})))


def _render(topology: AutoTopology) -> Body:
    project = topology.project_id
    return {"id": str(topology.network_id), "project_id": project, "tenant_id": project}
