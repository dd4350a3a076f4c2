"""Networks, segments and subnets as the API writes them."""

from __future__ import annotations

from netfw.model.network import Network
from netfw.model.segment import Provider, Segment
from netfw.model.subnet import AllocationPool, Ipv6Mode, Subnet
from netfw.model.wire.codec import Listed, Nullable, Several
from netfw.model.wire.common import (
    ADMIN_STATE,
    DHCP_OPTION,
    IDENTITY,
    IDS,
    NAMED,
    QOS_POLICY_ID,
    ROUTE,
    STANDARD,
    STATUS,
    ZONES,
)
from netfw.model.wire.object_codec import Derived, Inline, NamedField, ObjectCodec
from netfw.model.wire.scalars import (
    ADDRESS,
    BOOLEAN,
    CIDR,
    DNS_NAME,
    ID,
    IP_VERSION,
    NETWORK_TYPE,
    NUMBER,
    PHYSICAL_NETWORK,
    SUBNET_POOL,
    TEXT,
    TOKEN,
    choice,
)


def _provider(prefix: str) -> ObjectCodec[Provider]:
    return ObjectCodec(
        Provider,
        (
            NamedField(f"{prefix}network_type", NETWORK_TYPE, "network_type"),
            NamedField(f"{prefix}physical_network", Nullable(PHYSICAL_NETWORK), "physical_network"),
            NamedField(f"{prefix}segmentation_id", Nullable(NUMBER), "segmentation_id"),
        ),
    )


SEGMENT = ObjectCodec(
    Segment,
    (
        IDENTITY,
        NamedField("network_id", ID),
        NamedField("name", Nullable(TEXT, instead="")),
        Inline("provider", _provider("")),
        *STANDARD,
    ),
)
NETWORK = ObjectCodec(
    Network,
    (
        IDENTITY,
        *NAMED,
        Inline(
            "segments",
            _provider("provider:"),
            wrap=lambda provider: (provider,),
            unwrap=lambda segments: segments[0] if len(segments) == 1 else None,
        ),
        NamedField("segments", Several(Listed(_provider("provider:")))),
        NamedField("subnets", IDS, "subnet_ids"),
        NamedField("mtu", NUMBER),
        ADMIN_STATE,
        NamedField("status", STATUS),
        NamedField("shared", BOOLEAN),
        NamedField("router:external", BOOLEAN, "external"),
        NamedField("is_default", BOOLEAN),
        NamedField("port_security_enabled", BOOLEAN, "port_security"),
        NamedField("vlan_transparent", Nullable(BOOLEAN)),
        NamedField("dns_domain", DNS_NAME),
        QOS_POLICY_ID,
        NamedField("extra_dhcp_opts", Listed(DHCP_OPTION), "dhcp_options"),
        NamedField("availability_zone_hints", ZONES),
        NamedField("availability_zones", ZONES),
        NamedField("ipv4_address_scope", Nullable(ID)),
        NamedField("ipv6_address_scope", Nullable(ID)),
    ),
)
SUBNET = ObjectCodec(
    Subnet,
    (
        IDENTITY,
        *NAMED,
        NamedField("network_id", ID),
        NamedField("cidr", CIDR),
        NamedField("gateway_ip", Nullable(ADDRESS), "gateway"),
        NamedField(
            "allocation_pools",
            Listed(
                ObjectCodec(
                    AllocationPool, (NamedField("start", ADDRESS), NamedField("end", ADDRESS))
                )
            ),
        ),
        NamedField("dns_nameservers", Listed(ADDRESS)),
        NamedField("host_routes", Listed(ROUTE)),
        NamedField("enable_dhcp", BOOLEAN),
        NamedField("ipv6_ra_mode", Nullable(choice(Ipv6Mode))),
        NamedField("ipv6_address_mode", Nullable(choice(Ipv6Mode))),
        NamedField("segment_id", Nullable(ID)),
        NamedField("subnetpool_id", Nullable(SUBNET_POOL), "subnet_pool_id"),
        NamedField("service_types", Listed(TOKEN)),
        NamedField("dns_publish_fixed_ip", BOOLEAN),
    ),
    derived=(Derived("ip_version", IP_VERSION, lambda subnet: subnet.ip_version),),
)
