"""Codecs of every resource of the OpenStack Networking API v2: a name, a codec, a field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.model.wire.codec import Nullable
from netfw.model.wire.common import ADMIN_STATE, IDENTITY
from netfw.model.wire.networks import NETWORK, SEGMENT, SUBNET
from netfw.model.wire.object_codec import NamedField, ObjectCodec
from netfw.model.wire.policies import (
    ADDRESS_GROUP,
    DEFAULT_SECURITY_GROUP_RULE,
    PACKET_LOG,
    QOS_POLICY,
    RBAC_POLICY,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
)
from netfw.model.wire.ports import PORT, TRUNK
from netfw.model.wire.routers import FLOATING_IP, NDP_PROXY, PORT_FORWARDING, ROUTER
from netfw.model.wire.scalars import BOOLEAN, DOCUMENT, HOST, REVISION, TEXT, TIME, TOKEN
from netfw.model.wire.subnet_pools import ADDRESS_SCOPE, SUBNET_POOL

AGENT = ObjectCodec(
    Agent,
    (
        IDENTITY,
        NamedField("agent_type", TEXT),
        NamedField("binary", TOKEN),
        NamedField("host", HOST),
        NamedField("topic", TOKEN),
        NamedField("description", Nullable(TEXT, instead="")),
        NamedField("revision_number", REVISION, "revision"),
        ADMIN_STATE,
        NamedField("alive", BOOLEAN),
        NamedField("availability_zone", Nullable(HOST)),
        NamedField("configurations", DOCUMENT),
        NamedField("resources_synced", Nullable(BOOLEAN)),
        NamedField("created_at", Nullable(TIME, silent=True)),
        NamedField("started_at", Nullable(TIME, silent=True)),
        NamedField("heartbeat_timestamp", Nullable(TIME, silent=True), "heartbeat_at"),
    ),
)

CODECS: Mapping[Kind, ObjectCodec[Any]] = MappingProxyType(
    {
        Kind.NETWORK: NETWORK,
        Kind.SEGMENT: SEGMENT,
        Kind.SUBNET: SUBNET,
        Kind.SUBNET_POOL: SUBNET_POOL,
        Kind.ADDRESS_SCOPE: ADDRESS_SCOPE,
        Kind.PORT: PORT,
        Kind.ROUTER: ROUTER,
        Kind.FLOATING_IP: FLOATING_IP,
        Kind.PORT_FORWARDING: PORT_FORWARDING,
        Kind.NDP_PROXY: NDP_PROXY,
        Kind.SECURITY_GROUP: SECURITY_GROUP,
        Kind.SECURITY_GROUP_RULE: SECURITY_GROUP_RULE,
        Kind.DEFAULT_SECURITY_GROUP_RULE: DEFAULT_SECURITY_GROUP_RULE,
        Kind.ADDRESS_GROUP: ADDRESS_GROUP,
        Kind.PACKET_LOG: PACKET_LOG,
        Kind.QOS_POLICY: QOS_POLICY,
        Kind.RBAC_POLICY: RBAC_POLICY,
        Kind.TRUNK: TRUNK,
        Kind.AGENT: AGENT,
    }
)
