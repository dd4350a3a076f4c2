"""Refusals of ports, their addresses and their bindings."""

from __future__ import annotations

from typing import Any

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, Cloud, situation

INSTANCE = {"device_owner": "compute:nova", "device_id": "instance"}


@situation("PortNotFound", 404)
def absent_port(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"ports/{NOWHERE}")


@situation("PortNotFound", 404)
def port_that_is_no_id(cloud: Cloud) -> Reply:
    return cloud.alice.delete("ports/first")


@situation("PortNotFound", 404)
def bindings_of_an_absent_port(cloud: Cloud) -> Reply:
    return cloud.admin.get(f"ports/{NOWHERE}/bindings")


@situation("ServicePortInUse", 409)
def port_of_a_router(cloud: Cloud) -> Reply:
    subnet = cloud.subnet(cloud.network())
    router = cloud.router()
    port = cloud.interface(router, subnet_id=subnet).json["port_id"]
    return cloud.admin.delete(f"ports/{port}")


@situation("UnsupportedPortDeviceOwner", 409)
def new_device_of_a_router_port(cloud: Cloud) -> Reply:
    alice = cloud.alice
    network = alice.network()["id"]
    subnet = alice.make("subnets", network_id=network, cidr="10.0.0.0/24")["id"]
    router = alice.make("routers")["id"]
    added = alice.put(f"routers/{router}/add_router_interface", {"subnet_id": subnet})
    port = added.json["port_id"]
    return alice.put(f"ports/{port}", {"port": {"device_id": "instance"}})


@situation("PolicyNotAuthorized", 403)
def port_of_a_router_by_a_member(cloud: Cloud) -> Reply:
    owner = {"device_owner": "network:router_interface", "device_id": NOWHERE}
    network = cloud.alice.network()["id"]
    return cloud.alice.post("ports", {"port": {"network_id": network, **owner}})


@situation("PortBound", 409)
def mac_of_a_bound_port(cloud: Cloud) -> Reply:
    port = _bound(cloud)
    return cloud.change("ports", port["id"], mac_address="02:00:00:00:00:07")


@situation("IpAddressGenerationFailure", 409)
def no_address_left(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.subnet(network, "10.0.0.0/30")
    cloud.port(network)
    return cloud.create("port", network_id=network)


@situation("IpAddressAlreadyAllocated", 409)
def address_of_another_port(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.subnet(network)
    fixed = cloud.port(network)["fixed_ips"]
    return cloud.create("port", network_id=network, fixed_ips=fixed)


@situation("InvalidIpForNetwork", 400)
def address_in_no_subnet(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.subnet(network)
    return cloud.create("port", network_id=network, fixed_ips=[{"ip_address": "192.0.2.1"}])


@situation("InvalidIpForSubnet", 400)
def address_outside_its_subnet(cloud: Cloud) -> Reply:
    return _with_address(cloud, "10.0.0.0/24", "192.0.2.1")


@situation("InvalidIpForSubnet", 400)
def broadcast_address(cloud: Cloud) -> Reply:
    return _with_address(cloud, "10.0.0.0/24", "10.0.0.255")


@situation("AllocationOnAutoAddressSubnet", 400)
def chosen_address_where_hosts_derive_theirs(cloud: Cloud) -> Reply:
    modes = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    return _with_address(cloud, "2001:db8::/64", "2001:db8::7", **modes)


@situation("InvalidInput", 400)
def subnet_of_another_network(cloud: Cloud) -> Reply:
    other = cloud.subnet(cloud.network())
    return cloud.create("port", network_id=cloud.network(), fixed_ips=[{"subnet_id": other}])


@situation("InvalidInput", 400)
def value_that_is_no_mac(cloud: Cloud) -> Reply:
    return cloud.create("port", network_id=cloud.network(), mac_address="zz")


@situation("MacAddressInUse", 409)
def mac_of_another_port(cloud: Cloud) -> Reply:
    network = cloud.network()
    mac = cloud.port(network)["mac_address"]
    return cloud.create("port", network_id=network, mac_address=mac)


@situation("AllowedAddressPairExhausted", 400)
def too_many_address_pairs(cloud: Cloud) -> Reply:
    return _with_pairs(cloud, "192.0.2.1", "192.0.2.2", "192.0.2.3")


@situation("DuplicateAddressPairInRequest", 400)
def same_address_pair_twice(cloud: Cloud) -> Reply:
    return _with_pairs(cloud, "192.0.2.1", "192.0.2.1")


@situation("AddressPairAndPortSecurityRequired", 409)
def address_pair_without_port_security(cloud: Cloud) -> Reply:
    return _with_pairs(cloud, "192.0.2.1", port_security_enabled=False)


@situation("PortSecurityAndIPRequiredForSecurityGroups", 400)
def group_without_port_security(cloud: Cloud) -> Reply:
    group = cloud.make("security_group", name="web")["id"]
    body = {"port_security_enabled": False, "security_groups": [group]}
    return cloud.create("port", network_id=cloud.network(), **body)


@situation("PortSecurityAndIPRequiredForSecurityGroups", 400)
def new_group_without_port_security(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network())
    group = cloud.make("security_group", name="web")["id"]
    body = {"port_security_enabled": False, "security_groups": [group]}
    return cloud.change("ports", port["id"], **body)


@situation("PortSecurityPortHasSecurityGroup", 409)
def port_security_of_a_port_with_groups(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network())
    return cloud.change("ports", port["id"], port_security_enabled=False)


@situation("PortBindingNotFound", 404)
def absent_binding(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network(), **INSTANCE)
    return cloud.admin.get(f"ports/{port['id']}/bindings/moon")


@situation("PortBindingAlreadyExists", 409)
def second_binding_to_a_host(cloud: Cloud) -> Reply:
    port = _bound(cloud)
    return cloud.admin.post(f"ports/{port['id']}/bindings", {"binding": {"host": "a"}})


@situation("PortBindingAlreadyActive", 409)
def activation_of_the_active_binding(cloud: Cloud) -> Reply:
    port = _bound(cloud)
    return cloud.admin.put(f"ports/{port['id']}/bindings/a/activate", {"binding": {}})


@situation("PortBindingError", 400)
def binding_to_a_host_without_agent(cloud: Cloud) -> Reply:
    port = _bound(cloud)
    return cloud.admin.post(f"ports/{port['id']}/bindings", {"binding": {"host": "moon"}})


@situation("BadRequest", 400)
def second_binding_of_a_port_without_instance(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network())
    return cloud.admin.post(f"ports/{port['id']}/bindings", {"binding": {"host": "a"}})


def _bound(cloud: Cloud) -> dict[str, Any]:
    cloud.agent("a", "Open vSwitch agent", tunnel_types=["vxlan"], bridge_mappings={})
    port = cloud.port(cloud.network(), **INSTANCE, binding__host_id="a")
    assert port["binding:vif_type"] == "ovs", port
    return port


def _with_address(cloud: Cloud, cidr: str, address: str, **attributes: Any) -> Reply:
    network = cloud.network()
    fixed = {"subnet_id": cloud.subnet(network, cidr, **attributes), "ip_address": address}
    return cloud.create("port", network_id=network, fixed_ips=[fixed])


def _with_pairs(cloud: Cloud, *addresses: str, **attributes: Any) -> Reply:
    pairs = [{"ip_address": address} for address in addresses]
    body = {"network_id": cloud.network(), "allowed_address_pairs": pairs, **attributes}
    return cloud.create("port", **body)
