"""Refusals of routers, floating IPs and port forwardings."""

from __future__ import annotations

from typing import Any

from tests.server.api.environment import Reply
from tests.server.api.error_situations.cloud import NOWHERE, Cloud, situation


class Inside:
    """A port behind a router with a gateway, and a floating IP."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.outside = cloud, cloud.outside()
        self.network = cloud.network()
        self.subnet = cloud.subnet(self.network)
        self.router = cloud.router(self.subnet, outside=self.outside)
        self.port = cloud.port(self.network)["id"]
        self.floating = self.floating_ip()

    def floating_ip(self, **attributes: Any) -> str:
        made = self.cloud.make("floatingip", floating_network_id=self.outside, **attributes)
        return str(made["id"])

    def forward(self, floating: str, **attributes: Any) -> Reply:
        ports = {"protocol": "tcp", "external_port": 80, "internal_port": 8080}
        body = {"internal_port_id": self.port, **ports, **attributes}
        path = f"floatingips/{floating}/port_forwardings"
        return self.cloud.admin.post(path, {"port_forwarding": body})


@situation("RouterNotFound", 404)
def absent_router(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"routers/{NOWHERE}")


@situation("RouterNotFound", 404)
def interface_of_an_absent_router(cloud: Cloud) -> Reply:
    return cloud.interface(NOWHERE, subnet_id=NOWHERE)


@situation("RouterInUse", 409)
def router_with_interfaces(cloud: Cloud) -> Reply:
    router = cloud.router(cloud.subnet(cloud.network()))
    return cloud.admin.delete(f"routers/{router}")


@situation("RouterInterfaceNotFound", 404)
def removal_of_a_foreign_port(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router(), "remove", port_id=cloud.port(cloud.network())["id"])


@situation("RouterInterfaceNotFoundForSubnet", 404)
def removal_of_a_foreign_subnet(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router(), "remove", subnet_id=cloud.subnet(cloud.network()))


@situation("SubnetMismatchForPort", 400)
def removal_of_a_port_from_another_subnet(cloud: Cloud) -> Reply:
    router = cloud.router()
    port = cloud.interface(router, subnet_id=cloud.subnet(cloud.network())).json["port_id"]
    other = cloud.subnet(cloud.network(), "10.1.0.0/24")
    return cloud.interface(router, "remove", port_id=port, subnet_id=other)


@situation("BadRequest", 400)
def interface_without_subnet_and_port(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router())


@situation("BadRequest", 400)
def interface_of_what_is_no_id(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router(), subnet_id="first")


@situation("BadRequest", 400)
def removal_without_subnet_and_port(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router(), "remove")


@situation("BadRequest", 400)
def second_interface_on_a_subnet(cloud: Cloud) -> Reply:
    subnet = cloud.subnet(cloud.network())
    return cloud.interface(cloud.router(subnet), subnet_id=subnet)


@situation("BadRequest", 400)
def interface_on_a_subnet_that_overlaps(cloud: Cloud) -> Reply:
    router = cloud.router(cloud.subnet(cloud.network()))
    return cloud.interface(router, subnet_id=cloud.subnet(cloud.network()))


@situation("BadRequest", 400)
def interface_on_a_subnet_without_gateway(cloud: Cloud) -> Reply:
    subnet = cloud.subnet(cloud.network(), gateway_ip=None)
    return cloud.interface(cloud.router(), subnet_id=subnet)


@situation("BadRequest", 400)
def interface_by_a_port_without_address(cloud: Cloud) -> Reply:
    return cloud.interface(cloud.router(), port_id=cloud.port(cloud.network())["id"])


@situation("PortInUse", 409)
def interface_by_a_port_of_an_instance(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network(), device_id="instance", device_owner="compute:nova")
    return cloud.interface(cloud.router(), port_id=port["id"])


@situation("BadRequest", 400)
def gateway_on_an_internal_network(cloud: Cloud) -> Reply:
    return cloud.create("router", external_gateway_info={"network_id": cloud.network()})


@situation("InvalidRoutes", 400)
def route_that_nothing_leads_to(cloud: Cloud) -> Reply:
    routes = [{"destination": "192.0.2.0/24", "nexthop": "198.51.100.1"}]
    return cloud.change("routers", cloud.router(), routes=routes)


@situation("InvalidRoutes", 400)
def route_without_next_hop(cloud: Cloud) -> Reply:
    return cloud.change("routers", cloud.router(), routes=[{"destination": "192.0.2.0/24"}])


@situation("RoutesExhausted", 400)
def too_many_routes(cloud: Cloud) -> Reply:
    router = cloud.router(cloud.subnet(cloud.network()))
    routes = [{"destination": f"192.0.2.{n}/32", "nexthop": "10.0.0.9"} for n in range(2)]
    return cloud.change("routers", router, routes=routes)


@situation("RouterInterfaceInUseByRoute", 409)
def removal_of_the_way_of_a_route(cloud: Cloud) -> Reply:
    subnet = cloud.subnet(cloud.network())
    router = cloud.router(subnet)
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    assert cloud.change("routers", router, routes=routes).status == 200
    return cloud.interface(router, "remove", subnet_id=subnet)


@situation("AvailabilityZoneNotFound", 404)
def router_in_a_zone_without_agents(cloud: Cloud) -> Reply:
    return cloud.create("router", availability_zone_hints=["moon"])


@situation("OverQuota", 409)
def second_router_of_a_project(cloud: Cloud) -> Reply:
    cloud.alice.make("routers")
    return cloud.alice.post("routers", {"router": {}})


@situation("FloatingIPNotFound", 404)
def absent_floating_ip(cloud: Cloud) -> Reply:
    return cloud.alice.get(f"floatingips/{NOWHERE}")


@situation("BadRequest", 400)
def floating_ip_of_an_internal_network(cloud: Cloud) -> Reply:
    return cloud.create("floatingip", floating_network_id=cloud.network())


@situation("InvalidIpForNetwork", 400)
def floating_ip_with_a_foreign_address(cloud: Cloud) -> Reply:
    body = {"floating_network_id": cloud.outside(), "floating_ip_address": "192.0.2.1"}
    return cloud.create("floatingip", **body)


@situation("IpAddressAlreadyAllocated", 409)
def floating_ip_with_a_taken_address(cloud: Cloud) -> Reply:
    body = {"floating_network_id": cloud.outside(), "floating_ip_address": "203.0.113.9"}
    cloud.make("floatingip", **body)
    return cloud.create("floatingip", **body)


@situation("FloatingIPPortAlreadyAssociated", 409)
def second_floating_ip_of_an_address(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    inside.floating_ip(port_id=inside.port)
    return cloud.change("floatingips", inside.floating, port_id=inside.port)


@situation("BadRequest", 400)
def floating_ip_of_a_port_without_address(cloud: Cloud) -> Reply:
    port = cloud.port(cloud.network())["id"]
    return cloud.create("floatingip", floating_network_id=cloud.outside(), port_id=port)


@situation("ExternalGatewayForFloatingIPNotFound", 404)
def floating_ip_without_a_router(cloud: Cloud) -> Reply:
    network = cloud.network()
    cloud.subnet(network)
    port = cloud.port(network)["id"]
    return cloud.create("floatingip", floating_network_id=cloud.outside(), port_id=port)


@situation("RouterExternalGatewayInUseByFloatingIp", 409)
def removal_of_the_gateway_of_floating_ips(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    inside.floating_ip(port_id=inside.port)
    return cloud.change("routers", inside.router, external_gateway_info=None)


@situation("RouterInterfaceInUseByFloatingIP", 409)
def removal_of_the_interface_of_floating_ips(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    inside.floating_ip(port_id=inside.port)
    return cloud.interface(inside.router, "remove", subnet_id=inside.subnet)


@situation("PortForwardingNotFound", 404)
def absent_port_forwarding(cloud: Cloud) -> Reply:
    path = f"floatingips/{Inside(cloud).floating}/port_forwardings"
    return cloud.admin.get(f"{path}/{NOWHERE}")


@situation("FloatingIPPortAlreadyAssociated", 409)
def port_forwarding_of_an_associated_floating_ip(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    return inside.forward(inside.floating_ip(port_id=inside.port))


@situation("PortHasBindingFloatingIP", 409)
def port_forwarding_to_an_associated_address(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    inside.floating_ip(port_id=inside.port)
    return inside.forward(inside.floating)


@situation("BadRequest", 400)
def port_forwarding_of_a_forwarded_port(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    assert inside.forward(inside.floating).status == 201
    return inside.forward(inside.floating, internal_port=8081)


@situation("FipInUseByPortForwarding", 409)
def floating_ip_with_port_forwardings(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    assert inside.forward(inside.floating).status == 201
    return cloud.admin.delete(f"floatingips/{inside.floating}")


@situation("PortHasPortForwarding", 400)
def floating_ip_of_a_forwarded_address(cloud: Cloud) -> Reply:
    inside = Inside(cloud)
    assert inside.forward(inside.floating).status == 201
    return cloud.change("floatingips", inside.floating_ip(), port_id=inside.port)


def helper_of(cloud: Cloud, **attributes: Any) -> Reply:
    """Request two conntrack helpers of a router; return the second answer."""
    path = f"routers/{cloud.router()}/conntrack_helpers"
    body = {"protocol": "tcp", "port": 21, "helper": "ftp"}
    assert cloud.admin.post(path, {"conntrack_helper": body}).status == 201
    return cloud.admin.post(path, {"conntrack_helper": {**body, **attributes}})


@situation("ConntrackHelperNotFound", 404)
def absent_conntrack_helper(cloud: Cloud) -> Reply:
    return cloud.admin.get(f"routers/{cloud.router()}/conntrack_helpers/{NOWHERE}")


@situation("RouterExtensionNotLoaded", 409)
def conntrack_helper_that_the_agent_does_not_attach(cloud: Cloud) -> Reply:
    cloud.agent("a", "L3 agent", extensions=["port_forwarding"])
    path = f"routers/{cloud.router()}/conntrack_helpers"
    body = {"protocol": "tcp", "port": 21, "helper": "ftp"}
    return cloud.admin.post(path, {"conntrack_helper": body})


@situation("ConntrackHelperNotAllowed", 400)
def conntrack_helper_that_the_configuration_does_not_name(cloud: Cloud) -> Reply:
    return helper_of(cloud, helper="quake")


@situation("InvalidProtocolForHelper", 400)
def conntrack_helper_for_another_protocol(cloud: Cloud) -> Reply:
    return helper_of(cloud, protocol="udp")


@situation("BadRequest", 400)
def conntrack_helper_that_the_router_has(cloud: Cloud) -> Reply:
    return helper_of(cloud)
