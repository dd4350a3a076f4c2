"""FloatingIpPoolHandler: the subnets that floating IPs can be taken from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import NotSupported
from netfw.model.resource import Kind
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query
from netfw.server.db.resources.rows import AT_ONCE


class FloatingIpPoolHandler(ResourceHandler):
    """The IPv4 subnets of the external networks that the requester sees."""

    name: ClassVar[str] = "floatingip_pool"

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        return apply_query(_pools(reader, requester), query, identity="subnet_id")

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        raise NotSupported("floating IP pools are listed only")


def _pools(reader: Reader, requester: RequestContext) -> Iterator[dict[str, Any]]:
    external = Query(filters={"router:external": (True,)})
    networks = reader.resources.find(Kind.NETWORK, external, project=requester.sees)
    ids = [row.body["id"] for row in networks]
    for at in range(0, len(ids), AT_ONCE):
        subnets = Query(filters={"network_id": tuple(ids[at : at + AT_ONCE]), "ip_version": (4,)})
        for row in reader.resources.find(Kind.SUBNET, subnets):
            yield {
                "subnet_id": row.body["id"],
                "subnet_name": row.body["name"],
                "network_id": row.body["network_id"],
                "cidr": row.body["cidr"],
                "project_id": requester.project_id,
                "tenant_id": requester.project_id,
            }
