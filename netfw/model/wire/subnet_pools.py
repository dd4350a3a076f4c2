"""Subnet pools and address scopes as the API writes them."""

from __future__ import annotations

from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.wire.codec import Listed, Nullable
from netfw.model.wire.common import IDENTITY, NAMED
from netfw.model.wire.object_codec import Derived, NamedField, ObjectCodec
from netfw.model.wire.scalars import BOOLEAN, CIDR, ID, IP_VERSION, NUMBER, integer

PREFIX_LENGTH = integer(0, 128)

ADDRESS_SCOPE = ObjectCodec(
    AddressScope,
    (IDENTITY, *NAMED, NamedField("ip_version", IP_VERSION), NamedField("shared", BOOLEAN)),
)
SUBNET_POOL = ObjectCodec(
    SubnetPool,
    (
        IDENTITY,
        *NAMED,
        NamedField("prefixes", Listed(CIDR)),
        NamedField("min_prefixlen", PREFIX_LENGTH),
        NamedField("default_prefixlen", PREFIX_LENGTH),
        NamedField("max_prefixlen", PREFIX_LENGTH),
        NamedField("default_quota", Nullable(NUMBER)),
        NamedField("address_scope_id", Nullable(ID)),
        NamedField("is_default", BOOLEAN),
        NamedField("shared", BOOLEAN),
    ),
    derived=(Derived("ip_version", IP_VERSION, lambda pool: pool.ip_version),),
)
