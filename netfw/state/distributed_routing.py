"""Answers to the requests of hosts that route distributedly, from resources in memory.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from attrs import evolve

from netfw.drivers.values.agent_requests import EnsureGatewayPort, ReleaseGatewayPort
from netfw.drivers.values.subscription import Service, agent_service
from netfw.errors import Conflict, NotFound
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Resource
from netfw.model.subnet import Subnet
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import AgentId, PortId
from netfw.model.values.json_document import JsonDocument
from netfw.state.agent_requests import free_addresses, taken_addresses

AGENT_TYPE: Final = "Open vSwitch agent"
AGENT_BINARY: Final = "netfw-ovs-agent"


def derive_routing_mac(host: str) -> Mac:
    """Return the MAC address of the routed traffic of *host*, the same in every process.

    It has 40 bits of a hash against collisions, and the locally administered prefix ``f2``, which
    no port is given.
    """
    bits = uuid5(NAMESPACE_DNS, f"routing {host}").bytes[-5:]
    return Mac("f2:" + ":".join(f"{byte:02x}" for byte in bits))


def find_routing_mac(host: str, resources: Iterable[Resource]) -> Mac | None:
    """Return the MAC address that an agent of *host* has stated."""
    found = (
        each.routing_mac for each in resources if isinstance(each, Agent) and each.host == host
    )
    return next((mac for mac in found if mac is not None), None)


def routing_agent(host: str, resources: Iterable[Resource]) -> Agent:
    """Return the L2 agent of *host* with a derived MAC address; a new one, if there is none.

    :raises Conflict: another host has that MAC address.
    """
    mac = derive_routing_mac(host)
    agents = [each for each in resources if isinstance(each, Agent)]
    for each in agents:
        if each.routing_mac == mac and each.host != host:
            text = f"the MAC address {mac} of host {host} is that of host {each.host}"
            raise Conflict(f"{text}: state another routing_mac in the configurations of an agent")
    new = Agent(
        id=AgentId(uuid5(NAMESPACE_DNS, f"routing {host}")),
        agent_type=AGENT_TYPE,
        binary=AGENT_BINARY,
        host=host,
    )
    own = next((each for each in agents if each.host == host and _is_l2(each)), new)
    facts = {**own.configurations.content(), "routing_mac": str(mac)}
    return evolve(own, configurations=JsonDocument(facts))


def _is_l2(agent: Agent) -> bool:
    return agent_service(agent.agent_type) is Service.L2


def agent_gateway_device_id(host: str) -> str:
    """Return the ``device_id`` of the ports of *host* on external networks."""
    return f"fg{uuid5(NAMESPACE_DNS, host)}"


def find_gateway_port(
    request: EnsureGatewayPort | ReleaseGatewayPort, resources: Iterable[Resource]
) -> Port | None:
    """Return the port of a host on an external network, if it exists."""
    for each in resources:
        if (
            isinstance(each, Port)
            and each.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY
            and (each.network_id, each.binding.host) == (request.network, request.host)
        ):
            return each
    return None


def gateway_port(request: EnsureGatewayPort, resources: Collection[Resource]) -> Port:
    """Return the port that answers *request*: the present one, or a new one with an address of each
    family that the network has.

    :raises NotFound: there is no such network.
    :raises Conflict: it is not external, or has no address left.
    """
    network = next(
        (r for r in resources if isinstance(r, Network) and r.id == request.network), None
    )
    if network is None:
        raise NotFound(f"there is no network {request.network}")
    if not network.external:
        raise Conflict(f"network {network.id} is not external: no gateway port can be there")
    present = find_gateway_port(request, resources)
    return _make_gateway_port(request, resources) if present is None else present


def _make_gateway_port(request: EnsureGatewayPort, resources: Iterable[Resource]) -> Port:
    id = PortId(uuid5(request.network, f"agent gateway {request.host}"))
    mac = Mac("fa:" + ":".join(f"{byte:02x}" for byte in id.bytes[-5:]))
    ports, subnets = list[Port](), list[Subnet]()
    taken = set()
    for each in resources:
        if isinstance(each, Port) and each.network_id == request.network:
            ports.append(each)
        elif isinstance(each, Subnet) and each.network_id == request.network:
            subnets.append(each)
        elif isinstance(each, FloatingIp) and each.network_id == request.network:
            taken.add(each.address)
    taken |= taken_addresses(ports)
    fixed: dict[int, FixedIp] = {}
    for subnet in sorted(subnets, key=lambda each: each.id):
        address = next(free_addresses(subnet, mac, taken), None)
        if address is not None:
            fixed.setdefault(address.version, FixedIp(subnet_id=subnet.id, address=address))
    if {subnet.cidr.version for subnet in subnets} != fixed.keys() or not fixed:
        raise Conflict(f"network {request.network} has no address left for a gateway port")
    return Port(
        id=id,
        network_id=request.network,
        mac=mac,
        fixed_ips=tuple(fixed[version] for version in sorted(fixed)),
        device_owner=DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
        device_id=agent_gateway_device_id(request.host),
        port_security=False,
        binding=Binding(host=request.host),
    )
