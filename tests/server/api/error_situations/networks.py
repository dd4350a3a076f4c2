"""Refusals of networks, segments and subnets."""

from __future__ import annotations

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, VXLANS, Cloud, situation

PHYSICAL = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
POOL = {"start": "10.0.0.10", "end": "10.0.0.20"}


@situation("NetworkNotFound", 404)
def absent_network(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"networks/{NOWHERE}")


@situation("NetworkNotFound", 404)
def network_of_another_project(cloud: Cloud) -> Reply:
    return cloud.alice.delete(f"networks/{cloud.network()}")


@situation("NetworkNotFound", 404)
def port_of_an_absent_network(cloud: Cloud) -> Reply:
    return cloud.create("port", network_id=NOWHERE)


@situation("NetworkNotFound", 404)
def subnet_of_an_absent_network(cloud: Cloud) -> Reply:
    return cloud.create("subnet", network_id=NOWHERE, cidr="10.0.0.0/24")


@situation("NetworkInUse", 409)
def network_with_ports(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.port(network)
    return cloud.admin.delete(f"networks/{network}")


@situation("SegmentNotFound", 404)
def absent_segment(cloud: Cloud) -> Reply:
    return cloud.admin.get(f"segments/{NOWHERE}")


@situation("VlanIdInUse", 409)
def vlan_of_another_network(cloud: Cloud) -> Reply:
    vlan = {**PHYSICAL, "provider__segmentation_id": 7}
    cloud.network(**vlan)
    return cloud.create("network", **vlan)


@situation("TunnelIdInUse", 409)
def tunnel_id_of_another_network(cloud: Cloud) -> Reply:
    tunnel = {"provider__network_type": "vxlan", "provider__segmentation_id": 7}
    cloud.network(**tunnel)
    return cloud.create("network", **tunnel)


@situation("FlatNetworkInUse", 409)
def second_flat_network(cloud: Cloud) -> Reply:
    flat = {"provider__network_type": "flat", "provider__physical_network": "physnet1"}
    cloud.network(**flat)
    return cloud.create("network", **flat)


@situation("NoNetworkAvailable", 503)
def no_tunnel_id_left(cloud: Cloud) -> Reply:
    for _ in VXLANS:
        cloud.network()
    return cloud.create("network")


@situation("NoNetworkAvailable", 503)
def no_vlan_left(cloud: Cloud) -> Reply:
    cloud.network(**PHYSICAL)
    return cloud.create("network", **PHYSICAL)


@situation("InvalidInput", 400)
def unknown_network_type(cloud: Cloud) -> Reply:
    return cloud.create("network", provider__network_type="gre")


@situation("SegmentsSetInConjunctionWithProviders", 400)
def segments_and_provider_attributes(cloud: Cloud) -> Reply:
    segments = [{"provider:network_type": "vxlan"}]
    return cloud.create("network", segments=segments, provider__network_type="vxlan")


@situation("SegmentsContainDuplicateEntry", 400)
def same_segment_twice(cloud: Cloud) -> Reply:
    segment = {"provider:network_type": "vxlan", "provider:segmentation_id": 7}
    return cloud.create("network", segments=[segment, segment])


@situation("DefaultExternalNetworkExists", 409)
def second_default_network(cloud: Cloud) -> Reply:
    cloud.network(router__external=True, is_default=True)
    return cloud.create("network", router__external=True, is_default=True)


@situation("ExternalNetworkInUse", 409)
def external_network_of_a_router(cloud: Cloud) -> Reply:
    outside = cloud.outside()
    cloud.router(outside=outside)
    return cloud.change("networks", outside, router__external=False)


@situation("InvalidSharedSetting", 409)
def shared_network_with_foreign_ports(cloud: Cloud) -> Reply:
    network = cloud.network(shared=True)
    cloud.alice.make("ports", network_id=network)
    return cloud.change("networks", network, shared=False)


@situation("NetworkMTUSubnetConflict", 409)
def small_mtu_for_a_subnet(cloud: Cloud) -> Reply:
    network = cloud.network(mtu=1000)
    return cloud.create("subnet", network_id=network, cidr="2001:db8::/64", ip_version=6)


@situation("AvailabilityZoneNotFound", 404)
def zone_without_agents(cloud: Cloud) -> Reply:
    return cloud.create("network", availability_zone_hints=["moon"])


@situation("SubnetNotFound", 404)
def absent_subnet(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"subnets/{NOWHERE}")


@situation("SubnetInUse", 409)
def subnet_with_ports(cloud: Cloud) -> Reply:
    network = cloud.network()
    subnet = cloud.subnet(network)
    cloud.port(network)
    return cloud.admin.delete(f"subnets/{subnet}")


@situation("InvalidAllocationPool", 400)
def pool_in_the_wrong_order(cloud: Cloud) -> Reply:
    return _with_pools(cloud, {"start": POOL["end"], "end": POOL["start"]})


@situation("InvalidAllocationPool", 400)
def pool_of_the_other_family(cloud: Cloud) -> Reply:
    return _with_pools(cloud, {"start": "2001:db8::1", "end": "2001:db8::2"})


@situation("InvalidAllocationPool", 400)
def pool_without_addresses(cloud: Cloud) -> Reply:
    return _with_pools(cloud, {"start": "first", "end": "last"})


@situation("OutOfBoundsAllocationPool", 400)
def pool_outside_the_prefix(cloud: Cloud) -> Reply:
    return _with_pools(cloud, {"start": "10.0.1.10", "end": "10.0.1.20"})


@situation("OverlappingAllocationPools", 409)
def pools_that_overlap(cloud: Cloud) -> Reply:
    return _with_pools(cloud, POOL, {"start": "10.0.0.20", "end": "10.0.0.30"})


@situation("GatewayConflictWithAllocationPools", 409)
def gateway_in_a_pool(cloud: Cloud) -> Reply:
    return _with_pools(cloud, POOL, gateway_ip=POOL["start"])


def _with_pools(cloud: Cloud, *pools: dict[str, str], **attributes: str) -> Reply:
    network = cloud.network()
    body = {"cidr": "10.0.0.0/24", "allocation_pools": list(pools), **attributes}
    return cloud.create("subnet", network_id=network, **body)


@situation("GatewayIpInUse", 409)
def gateway_of_a_router(cloud: Cloud) -> Reply:
    subnet = cloud.subnet(cloud.network())
    cloud.router(subnet)
    return cloud.change("subnets", subnet, gateway_ip=None)


@situation("DNSNameServersExhausted", 400)
def too_many_name_servers(cloud: Cloud) -> Reply:
    servers = [f"192.0.2.{number}" for number in range(1, 10)]
    body = {"network_id": cloud.network(), "cidr": "10.0.0.0/24", "dns_nameservers": servers}
    return cloud.create("subnet", **body)


@situation("HostRoutesExhausted", 400)
def too_many_host_routes(cloud: Cloud) -> Reply:
    routes = [
        {"destination": f"192.0.2.{number}/32", "nexthop": "10.0.0.9"} for number in range(30)
    ]
    body = {"network_id": cloud.network(), "cidr": "10.0.0.0/24", "host_routes": routes}
    return cloud.create("subnet", **body)


@situation("InvalidSubnetServiceType", 400)
def unknown_service_type(cloud: Cloud) -> Reply:
    body = {"network_id": cloud.network(), "cidr": "10.0.0.0/24", "service_types": ["Nova"]}
    return cloud.create("subnet", **body)


@situation("InvalidInput", 400)
def subnets_that_overlap(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.subnet(network)
    return cloud.create("subnet", network_id=network, cidr="10.0.0.0/25")


@situation("BadRequest", 400)
def subnet_without_a_prefix(cloud: Cloud) -> Reply:
    return cloud.create("subnet", network_id=cloud.network(), ip_version=4)
