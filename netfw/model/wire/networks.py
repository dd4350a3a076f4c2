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
from netfw.model.wire.object_codec import Attribute, Derived, Inline, ObjectCodec
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
            Attribute(f"{prefix}network_type", NETWORK_TYPE, "network_type"),
            Attribute(f"{prefix}physical_network", Nullable(PHYSICAL_NETWORK), "physical_network"),
            Attribute(f"{prefix}segmentation_id", Nullable(NUMBER), "segmentation_id"),
        ),
    )


SEGMENT = ObjectCodec(
    Segment,
    (
        IDENTITY,
        Attribute("network_id", ID),
        Attribute("name", Nullable(TEXT, instead="")),
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
        Attribute("segments", Several(Listed(_provider("provider:")))),
        Attribute("subnets", IDS, "subnet_ids"),
        Attribute("mtu", NUMBER),
        ADMIN_STATE,
        Attribute("status", STATUS),
        Attribute("shared", BOOLEAN),
        Attribute("router:external", BOOLEAN, "external"),
        Attribute("is_default", BOOLEAN),
        Attribute("port_security_enabled", BOOLEAN, "port_security"),
        Attribute("vlan_transparent", Nullable(BOOLEAN)),
        Attribute("dns_domain", DNS_NAME),
        QOS_POLICY_ID,
        Attribute("extra_dhcp_opts", Listed(DHCP_OPTION), "dhcp_options"),
        Attribute("availability_zone_hints", ZONES),
        Attribute("availability_zones", ZONES),
        Attribute("ipv4_address_scope", Nullable(ID)),
        Attribute("ipv6_address_scope", Nullable(ID)),
    ),
)
SUBNET = ObjectCodec(
    Subnet,
    (
        IDENTITY,
        *NAMED,
        Attribute("network_id", ID),
        Attribute("cidr", CIDR),
        Attribute("gateway_ip", Nullable(ADDRESS), "gateway"),
        Attribute(
            "allocation_pools",
            Listed(
                ObjectCodec(
                    AllocationPool, (Attribute("start", ADDRESS), Attribute("end", ADDRESS))
                )
            ),
        ),
        Attribute("dns_nameservers", Listed(ADDRESS)),
        Attribute("host_routes", Listed(ROUTE)),
        Attribute("enable_dhcp", BOOLEAN),
        Attribute("ipv6_ra_mode", Nullable(choice(Ipv6Mode))),
        Attribute("ipv6_address_mode", Nullable(choice(Ipv6Mode))),
        Attribute("segment_id", Nullable(ID)),
        Attribute("subnetpool_id", Nullable(SUBNET_POOL), "subnet_pool_id"),
        Attribute("service_types", Listed(TOKEN)),
        Attribute("dns_publish_fixed_ip", BOOLEAN),
    ),
    derived=(Derived("ip_version", IP_VERSION, lambda subnet: subnet.ip_version),),
)
