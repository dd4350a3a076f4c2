"""Parts that the declarations of several resources share."""

from __future__ import annotations

from typing import Any

from netfw.model.values.common_fields import MAX_TAGS
from netfw.model.wire.codec import Codec, Listed, Nullable
from netfw.model.wire.common import STATUS, ZONES
from netfw.model.wire.scalars import (
    ADDRESS,
    DHCP_OPTION_NAME,
    DHCP_OPTION_VALUE,
    HOST,
    ID,
    IP_VERSION,
    PREFIX,
    REVISION,
    TAG,
    TEXT,
    TIME,
)
from netfw.server.api.schema.request_codecs import FLAG, NAME, Null, Record
from netfw.server.api.schema.resource_schema import ADMIN, MEMBER, READER, ApiAttribute, Verb

MAX_ITEMS = 64
"""Items of a list that no option bounds."""
OWN = {
    Verb.CREATE: MEMBER,
    Verb.SHOW: READER,
    Verb.UPDATE: MEMBER,
    Verb.DELETE: MEMBER,
}
"""Members work in their project, readers read in it."""
FOR_ADMINS = {Verb.CREATE: ADMIN, Verb.UPDATE: ADMIN}
"""Checks of an attribute that administrators set and all requesters see."""
ONLY_ADMINS = {Verb.CREATE: ADMIN, Verb.UPDATE: ADMIN, Verb.SHOW: ADMIN}


def read_only(
    name: str, codec: Codec[Any], *, filterable: bool = False, sortable: bool = False, **more: Any
) -> ApiAttribute:
    """Return an attribute that clients cannot set."""
    return ApiAttribute(
        name=name,
        codec=codec,
        create=False,
        update=False,
        filterable=filterable,
        sortable=sortable,
        **more,
    )


IDENTITY = read_only("id", ID, filterable=True, sortable=True)
DESCRIPTION = ApiAttribute(name="description", codec=NAME, default="", sortable=True)
TAGS = ApiAttribute(name="tags", codec=Listed(TAG, frozenset, MAX_TAGS), update=False, default=[])
REVISION_NUMBER = read_only("revision_number", REVISION, filterable=True, sortable=True)
TIMES = (
    read_only("created_at", TIME, filterable=True, sortable=True),
    read_only("updated_at", TIME, filterable=True, sortable=True),
)
PROJECT = (
    ApiAttribute(name="project_id", codec=TEXT, update=False, sortable=True),
    ApiAttribute(name="tenant_id", codec=TEXT, update=False, sortable=True),
)
"""One attribute under two names; a project other than one's own is for administrators."""
NAMED = ApiAttribute(name="name", codec=NAME, default="", sortable=True)
ADMIN_STATE = ApiAttribute(name="admin_state_up", codec=FLAG, default=True, sortable=True)
STATUS_SHOWN = read_only("status", STATUS, filterable=True, sortable=True)
STATUS_REASON = read_only("status_reason", Nullable(TEXT), checks={Verb.SHOW: ADMIN})
"""What hosts report of a resource that is not ACTIVE, for administrators."""
ZONE_HINTS = ApiAttribute(
    name="availability_zone_hints",
    codec=Listed(HOST, limit=MAX_ITEMS),
    default=[],
    update=False,
    filterable=False,
)
ZONES_SHOWN = read_only("availability_zones", ZONES)

STANDARD = (IDENTITY, *PROJECT, DESCRIPTION, TAGS, REVISION_NUMBER, *TIMES)
"""Attributes of every resource that a project owns."""

FIXED_IP = Record(
    {"subnet_id": ID, "ip_address": ADDRESS},
    any_of=("subnet_id", "ip_address"),
)
DHCP_OPTION = Record(
    {
        "opt_name": DHCP_OPTION_NAME,
        "opt_value": Nullable(DHCP_OPTION_VALUE),
        "ip_version": IP_VERSION,
    },
    required=("opt_name", "opt_value"),
)
"""A value of null takes an option away from a port."""
ROUTE = Record({"destination": PREFIX, "nexthop": ADDRESS}, required=("destination", "nexthop"))
FIXED_IPS = Listed(FIXED_IP, limit=MAX_ITEMS)
DHCP_OPTIONS = Null(Listed(DHCP_OPTION, limit=MAX_ITEMS), [])
