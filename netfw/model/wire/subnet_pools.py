"""Subnet pools and address scopes as the API writes them."""

from __future__ import annotations

from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.common import IDENTITY, NAMED
from netfw.model.wire.object_codec import Attribute, Derived, ObjectCodec
from netfw.model.wire.scalars import BOOLEAN, CIDR, ID, IP_VERSION, NUMBER, integer

PREFIX_LENGTH = integer(0, 128)

ADDRESS_SCOPE = ObjectCodec(
    AddressScope,
    (IDENTITY, *NAMED, Attribute("ip_version", IP_VERSION), Attribute("shared", BOOLEAN)),
)
SUBNET_POOL = ObjectCodec(
    SubnetPool,
    (
        IDENTITY,
        *NAMED,
        Attribute("prefixes", Listed(CIDR)),
        Attribute("min_prefixlen", PREFIX_LENGTH),
        Attribute("default_prefixlen", PREFIX_LENGTH),
        Attribute("max_prefixlen", PREFIX_LENGTH),
        Attribute("default_quota", Nullable(NUMBER)),
        Attribute("address_scope_id", Nullable(ID)),
        Attribute("is_default", BOOLEAN),
        Attribute("shared", BOOLEAN),
    ),
    derived=(Derived("ip_version", IP_VERSION, lambda pool: pool.ip_version),),
)
