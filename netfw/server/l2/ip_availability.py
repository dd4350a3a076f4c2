"""IpAvailabilityHandler, and the service plugin that counts the used addresses of networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors.networks import NetworkNotFound
from netfw.model.resource import Kind
from netfw.model.subnet import Subnet
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.db.resources.row import Row
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.resources.used_addresses import count_used_addresses

NETWORK = "network_id"
VERSION = "ip_version"
_NETWORK_FILTERS: Mapping[str, str] = {
    NETWORK: "id",
    "network_name": "name",
    "project_id": "project_id",
    "tenant_id": "project_id",
}


class IpAvailabilityHandler(ResourceHandler):
    """Counts of a network: the addresses of its allocation pools, and those that ports use.

    The number of statements does not depend on the number of networks, but for thousands of them.
    """

    name: ClassVar[str] = "network_ip_availability"

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        filters = {
            _NETWORK_FILTERS[name]: values
            for name, values in query.filters.items()
            if name in _NETWORK_FILTERS
        }
        networks = reader.resources.find(
            Kind.NETWORK, Query(filters=filters), project=requester.sees
        )
        versions = {str(each) for each in query.filters.get(VERSION, ())}
        found = _availability(reader, networks, versions)
        return apply_query(found, evolve(query, filters={}), identity=NETWORK)

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        network = reader.resources.find(
            Kind.NETWORK, Query(filters={"id": (id.lower(),)}), project=requester.sees
        )
        if not network:
            raise NetworkNotFound(f"there is no network {id[:80]!r}")
        return next(iter(_availability(reader, network, set())))


class IpAvailabilityPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for the resource ``network_ip_availability``."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (IpAvailabilityHandler(),))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("network_ip_availability")


def _availability(
    reader: Reader, networks: Sequence[Row], versions: set[str]
) -> Iterable[dict[str, Any]]:
    """Yield the counts of *networks*, in subnets of *versions*; empty: of both."""
    ids = [row.body["id"] for row in networks]
    subnets = [
        cast(Subnet, row.resource())
        for at in range(0, len(ids), AT_ONCE)
        for row in reader.resources.find(
            Kind.SUBNET, Query(filters={NETWORK: tuple(ids[at : at + AT_ONCE])})
        )
    ]
    chosen = [each for each in subnets if not versions or str(each.ip_version) in versions]
    used = count_used_addresses(reader.connection, [str(each.id) for each in chosen])
    parts: dict[str, list[dict[str, Any]]] = {id: [] for id in ids}
    for each in chosen:
        parts[str(each.network_id)].append(_count(each, used.get(str(each.id), 0)))
    for row in networks:
        own = parts[row.body["id"]]
        yield {
            NETWORK: row.body["id"],
            "network_name": row.body["name"],
            "project_id": row.body["project_id"],
            "tenant_id": row.body["project_id"],
            "total_ips": sum(each["total_ips"] for each in own),
            "used_ips": sum(each["used_ips"] for each in own),
            "subnet_ip_availability": own,
        }


def _count(subnet: Subnet, used: int) -> dict[str, Any]:
    return {
        "subnet_id": str(subnet.id),
        "subnet_name": subnet.name,
        "cidr": str(subnet.cidr),
        VERSION: subnet.ip_version,
        "total_ips": sum(int(pool.end) - int(pool.start) + 1 for pool in subnet.allocation_pools),
        "used_ips": used,
    }
