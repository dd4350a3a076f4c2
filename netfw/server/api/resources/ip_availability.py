"""How many addresses of networks are used."""

from __future__ import annotations

from netfw.model.wire.codec import Listed
from netfw.model.wire.scalars import CIDR, ID, IP_VERSION, TEXT, integer
from netfw.server.api.resources.common import read_only
from netfw.server.api.schema.request_codecs import Record
from netfw.server.api.schema.resource_schema import ADMIN, READ, ApiAttribute, ApiResource, Verb

_COUNT = integer(0, 2**128)
_SUBNET = Record(
    {
        "subnet_id": ID,
        "subnet_name": TEXT,
        "cidr": CIDR,
        "ip_version": IP_VERSION,
        "total_ips": _COUNT,
        "used_ips": _COUNT,
    }
)

IP_AVAILABILITY = ApiResource(
    name="network_ip_availability",
    collection="network-ip-availabilities",
    identity="network_id",
    verbs=READ,
    checks={Verb.SHOW: ADMIN},
    attributes=(
        read_only("network_id", ID, filterable=True, sortable=True),
        read_only("network_name", TEXT, filterable=True, sortable=True),
        read_only("project_id", TEXT, filterable=True, sortable=True),
        read_only("tenant_id", TEXT, filterable=True),
        ApiAttribute(
            name="ip_version",
            codec=IP_VERSION,
            create=False,
            update=False,
            shown=False,
            note="Only a filter: count the subnets of this version.",
        ),
        read_only("total_ips", _COUNT, sortable=True, note="Addresses of allocation pools."),
        read_only("used_ips", _COUNT, sortable=True, note="Addresses that ports have."),
        read_only("subnet_ip_availability", Listed(_SUBNET)),
    ),
)
