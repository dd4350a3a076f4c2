"""Agents, their assignments, and availability zones."""

from __future__ import annotations

from netfw.model.wire.codec import Nullable, Scalar
from netfw.model.wire.scalars import DOCUMENT, HOST, ID, TEXT, TIME, TOKEN
from netfw.server.api.resources.common import IDENTITY, REVISION_NUMBER, read_only
from netfw.server.api.schema.request_codecs import FLAG, NAME
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    READ,
    REGULAR_USER,
    ApiAttribute,
    ApiResource,
    Verb,
)

_TYPES = {name.casefold(): name for name in ("DHCP agent", "L3 agent", "Open vSwitch agent")}
_TYPE = Scalar(
    lambda raw: _TYPES.get(str(raw).casefold(), TEXT.parse(raw)), TEXT.render, TEXT.schema
)
"""Clients ask for a ``DHCP Agent``, and databases that others use find it."""
_FOR_ADMINS = dict.fromkeys(Verb, ADMIN)
_HEARTBEAT_TIME = Nullable(
    Scalar(
        TIME.parse,
        TIME.render,
        {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$"},
    )
)
"""A time in UTC as clients of agents parse it: with a blank, and without a zone."""

AGENT = ApiResource(
    name="agent",
    collection="agents",
    checks=_FOR_ADMINS,
    verbs=frozenset({Verb.SHOW, Verb.UPDATE, Verb.DELETE}),
    attributes=(
        IDENTITY,
        read_only("agent_type", _TYPE, filterable=True, sortable=True),
        read_only("binary", TOKEN, filterable=True, sortable=True),
        read_only("host", HOST, filterable=True, sortable=True),
        read_only("topic", TOKEN, filterable=True, sortable=True),
        read_only("availability_zone", Nullable(HOST), filterable=True, sortable=True),
        ApiAttribute(name="admin_state_up", codec=FLAG, create=False, sortable=True),
        ApiAttribute(name="description", codec=NAME, create=False),
        read_only("alive", FLAG, filterable=True),
        read_only("configurations", DOCUMENT),
        read_only("resources_synced", Nullable(FLAG)),
        read_only("created_at", TIME, filterable=True, sortable=True),
        read_only("started_at", _HEARTBEAT_TIME),
        read_only("heartbeat_timestamp", _HEARTBEAT_TIME),
        REVISION_NUMBER,
    ),
)


def _scheduled(collection: str, parent: str, member: str) -> ApiResource:
    """Declare an assignment of an agent: the body of a request has the id of the member."""
    return ApiResource(
        name=collection.removesuffix("s").replace("-", "_"),
        collection=collection,
        parent=parent,
        parent_attribute=f"{parent}_id",
        identity=f"{member}_id",
        plural=f"{member}s",
        singular=member,
        shows_as=member,
        enveloped=False,
        bulk=False,
        verbs=frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE}),
        member_shown=False,
        checks=_FOR_ADMINS,
        attributes=(ApiAttribute(name=f"{member}_id", codec=ID, required=True, filterable=False),),
    )


def _schedulers(collection: str, parent: str, *more: ApiAttribute) -> ApiResource:
    """Return the resource of the agents that serve a *parent*; *more*: what they show beside it."""
    return ApiResource(
        name=collection.removesuffix("s").replace("-", "_"),
        collection=collection,
        parent=parent,
        parent_attribute=f"{parent}_id",
        plural="agents",
        singular="agent",
        shows_as="agent",
        verbs=READ,
        member_shown=False,
        checks=_FOR_ADMINS,
        attributes=(IDENTITY, *more),
    )


_HA_STATE = read_only(
    "ha_state",
    Nullable(TOKEN),
    note="Of a highly available router: active, standby, or unknown if the agent is dead.",
)

AVAILABILITY_ZONE = ApiResource(
    name="availability_zone",
    collection="availability_zones",
    verbs=READ,
    member_shown=False,
    checks={Verb.SHOW: REGULAR_USER},
    identity="name",
    attributes=(
        read_only("name", HOST, filterable=True),
        read_only("resource", TOKEN, filterable=True),
        read_only("state", TOKEN, filterable=True),
    ),
)

AGENT_RESOURCES = (
    AGENT,
    _scheduled("dhcp-networks", "agent", "network"),
    _scheduled("l3-routers", "agent", "router"),
    _schedulers("dhcp-agents", "network"),
    _schedulers("l3-agents", "router", _HA_STATE),
    AVAILABILITY_ZONE,
)
