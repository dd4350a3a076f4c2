"""A port of this host as DHCP serves it, from the view of the agent.  Pure."""

from __future__ import annotations

from ipaddress import ip_interface

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort, ServerPort
from netfw.drivers.l2_extension import ExtendedPort
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import is_distributed_dhcp, is_trusted


def served_port(view: ExtendedPort, domain: str) -> tuple[DhcpPort, DhcpNetwork] | None:
    """Return a port and its network as they are served; ``None``: the port is not served.

    Ports of the network itself, such as those of routers, have their addresses otherwise.  A subnet
    to which no prefix is delegated yet is left out.

    :param domain: the domain of networks without one.
    """
    port, network = view.port, view.network
    server = _server(view)
    if server is None or not port.fixed_ips or is_trusted(port.device_owner):
        return None
    related = (each for each in view.related if isinstance(each, Subnet))
    subnets = [subnet for subnet in related if not subnet.provisional]
    lengths = {subnet.id: subnet.cidr.prefixlen for subnet in subnets}
    addresses = tuple(
        ip_interface((fixed.address, lengths[fixed.subnet_id]))
        for fixed in server.fixed_ips
        if fixed.subnet_id in lengths
    )
    served = DhcpPort(
        network=network.id,
        mac=port.mac,
        fixed_ips=port.fixed_ips,
        hostname=port.dns_name,
        domain=port.dns_domain,
        options=port.dhcp_options,
    )
    return served, DhcpNetwork(
        server=ServerPort(id=server.id, mac=server.mac, addresses=addresses),
        subnets=tuple(sorted(subnets, key=lambda subnet: subnet.id)),
        mtu=network.mtu,
        dns_domain=network.dns_domain or domain,
        options=network.dhcp_options,
    )


def _server(view: ExtendedPort) -> Port | None:
    """Return the port that all hosts answer from; of several the first, on every host the same."""
    ports = (each for each in view.related if isinstance(each, Port))
    servers = (each for each in ports if is_distributed_dhcp(each.device_owner, each.device_id))
    return min(servers, key=lambda port: port.id, default=None)
