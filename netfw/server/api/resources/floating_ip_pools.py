"""The subnets that floating IPs can be taken from."""

from __future__ import annotations

from netfw.model.wire.scalars import CIDR, ID, TEXT
from netfw.server.api.resources.common import read_only
from netfw.server.api.schema.resource_schema import READ, REGULAR_USER, ApiResource, Verb

FLOATING_IP_POOL = ApiResource(
    name="floatingip_pool",
    collection="floatingip-pools",
    identity="subnet_id",
    verbs=READ,
    member_shown=False,
    checks={Verb.SHOW: REGULAR_USER},
    attributes=(
        read_only("subnet_id", ID, filterable=True, sortable=True),
        read_only("subnet_name", TEXT, filterable=True, sortable=True),
        read_only("network_id", ID, filterable=True, sortable=True),
        read_only("cidr", CIDR, filterable=True, sortable=True),
        read_only("project_id", TEXT, note="The project that asks."),
        read_only("tenant_id", TEXT),
    ),
)
