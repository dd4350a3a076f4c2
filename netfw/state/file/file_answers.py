"""Answers to requests of agents from what a file states.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.drivers.values.agent_requests import EnsureDhcpPort, EnsureGatewayPort
from netfw.errors import NotFound, NotSupported
from netfw.model.agent import Agent
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner, is_dhcp
from netfw.state.distributed_routing import derive_routing_mac, find_gateway_port, find_routing_mac

Resources = Mapping[Ref, Resource]


def stated_dhcp_port(request: EnsureDhcpPort, resources: Resources) -> Port:
    """Return the port from which a host serves a network.

    :raises NotFound: there is no such network.
    :raises NotSupported: the file has no such port.
    """
    if Ref(Kind.NETWORK, request.network) not in resources:
        raise NotFound(f"there is no network {request.network}")
    for port in resources.values():
        if (
            isinstance(port, Port)
            and (port.network_id, port.binding.host) == (request.network, request.host)
            and is_dhcp(port.device_owner)
            and request.subnets <= {fixed.subnet_id for fixed in port.fixed_ips}
        ):
            return port
    raise NotSupported(
        f"a file states addresses itself: give network {request.network} a port on "
        f"{request.host} with device_owner {DeviceOwner.DHCP} and an address on each subnet"
    )


def stated_gateway_port(request: EnsureGatewayPort, resources: Resources) -> Port:
    """Return the port of a host on an external network.

    :raises NotFound: there is no such network.
    :raises NotSupported: the file has no such port.
    """
    if Ref(Kind.NETWORK, request.network) not in resources:
        raise NotFound(f"there is no network {request.network}")
    port = find_gateway_port(request, resources.values())
    if port is None:
        raise NotSupported(
            f"a file states addresses itself: give host {request.host} an address on network "
            f"{request.network}, in agent_gateways of the host"
        )
    return port


def stated_host_mac(host: str, resources: Resources) -> Mac:
    """Return the MAC address of the routed traffic of a host: stated, or derived from its name.

    :raises NotSupported: other hosts have one in the file, and would not know that of this host.
    """
    mac = find_routing_mac(host, resources.values())
    if mac is not None:
        return mac
    agents = [each for each in resources.values() if isinstance(each, Agent)]
    if any(each.routing_mac is not None for each in agents):
        raise NotSupported(
            f"host {host} is not among the hosts of the file, so that the others do not know the "
            "MAC address of its routed traffic: add it to hosts"
        )
    return derive_routing_mac(host)
