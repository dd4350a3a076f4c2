"""What the server answers to agents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ResolveDevices,
    SetPrefix,
)
from netfw.errors import Conflict, NotFound, NotSupported
from netfw.model.address import as_address, derives
from netfw.model.ids import NetworkId, PortId, RouterId, SubnetId
from netfw.model.subnet import Ipv6Mode
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.core.context import ServerContext
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id
from tests.server.core.core_client import statements
from tests.server.l2.environment import ADMIN, OTHER, World


class Agents(World):
    """What agents ask of a world."""

    def ask(self, request: Any) -> Any:
        answers = AgentRpcHandlers(self.context, lambda: ("router", "qos"))
        return answers.table()[type(request)](request)

    def dhcp(self, network: NetworkId, *subnets: SubnetId, host: str = "h1") -> Any:
        return self.ask(EnsureDhcpPort(network=network, host=host, subnets=frozenset(subnets)))


@pytest.fixture
def world(context: ServerContext) -> Agents:
    return Agents(context)


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_is_made_once_and_follows_its_subnets(world: Agents) -> None:
    network = world.network()
    one, two = world.subnet(network), world.subnet(network, "10.1.0.0/24")
    world.host("h1")
    made = world.dhcp(network, one)
    assert made.device_owner == "network:dhcp"
    assert made.device_id == dhcp_device_id("h1", network)
    assert made.project_id == "p"
    assert not made.port_security
    assert not made.security_groups
    assert (made.binding.host, made.binding.vif_type) == ("h1", "ovs")
    assert [each.subnet_id for each in made.fixed_ips] == [one]
    assert world.dhcp(network, one) == made
    both = world.dhcp(network, one, two)
    assert both.id == made.id
    assert both.fixed_ips[0] == made.fixed_ips[0]
    assert {each.subnet_id for each in both.fixed_ips} == {one, two}
    assert [each.subnet_id for each in world.dhcp(network, two).fixed_ips] == [two]
    assert world.dhcp(network, two, host="h2").id != made.id
    assert world.used() == 2


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_that_a_dead_host_left_is_adopted_and_one_that_is_released_is_gone(
    world: Agents,
) -> None:
    network = world.network()
    subnet = world.subnet(network)
    world.host("h1")
    made = world.dhcp(network, subnet)
    world.update({"id": str(made.id)}, ADMIN, device_id=RESERVED_DHCP_DEVICE, binding__host_id="")
    adopted = world.dhcp(network, subnet, host="h2")
    assert (adopted.id, adopted.fixed_ips, adopted.binding.host) == (made.id, made.fixed_ips, "h2")
    world.ask(ReleaseDhcpPort(network=network, host="h1"))
    assert world.dhcp(network, subnet, host="h2") == adopted
    for _ in range(2):
        world.ask(ReleaseDhcpPort(network=network, host="h2"))
    assert world.ask(ResolveDevices(ports=frozenset({made.id}))) == ()
    assert world.used() == 0


@pytest.mark.spec("RPC-04")
@pytest.mark.parametrize("device", [RESERVED_DHCP_DEVICE, "own"])
def test_a_port_of_a_user_with_the_device_of_dhcp_is_left_alone(world: Agents, device: str) -> None:
    network = world.network(shared=True)
    subnet = world.subnet(network)
    name = dhcp_device_id("h1", network) if device == "own" else device
    theirs = world.create(network, OTHER, device_id=name)
    made = world.dhcp(network, subnet)
    assert str(made.id) != theirs["id"]
    assert made.project_id == "p"
    world.ask(ReleaseDhcpPort(network=network, host="h1"))
    assert world.show(theirs, ADMIN)["device_id"] == name


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_needs_what_it_is_for_and_no_quota(context: ServerContext) -> None:
    context.quotas = {"port": 0}
    world = Agents(context)
    network, other = world.network(), world.network()
    subnet, strange = world.subnet(network, "10.0.0.0/30"), world.subnet(other)
    assert world.dhcp(network, subnet)
    with pytest.raises(Conflict):
        world.dhcp(network, subnet, host="h2")
    with pytest.raises(NotFound, match="no subnet"):
        world.dhcp(network, strange)
    with pytest.raises(NotFound):
        world.dhcp(NetworkId(uuid4()), subnet)


@pytest.mark.spec("RPC-04")
def test_ports_are_found_by_their_address_on_a_network_or_behind_a_router(world: Agents) -> None:
    one, two = world.network(), world.network()
    world.subnet(one)
    world.subnet(two)
    ports = [
        world.create(network, fixed_ips=[{"ip_address": "10.0.0.9"}]) for network in (one, two)
    ]
    router = str(uuid4())
    world.create(
        one, ADMIN, device_id=router, device_owner="network:router_interface", project_id="p"
    )
    world.create(two, ADMIN, device_id=router, device_owner="compute:nova", project_id="p")
    address = as_address("10.0.0.9")
    for where in ({"network": one}, {"router": RouterId(UUID(router))}):
        found = world.ask(FindPorts(address=address, **where))
        assert [str(port.id) for port in found] == [ports[0]["id"]]
    assert world.ask(FindPorts(address=as_address("10.0.0.99"), network=one)) == ()
    assert world.ask(FindPorts(address=address, router=RouterId(uuid4()))) == ()
    wanted = frozenset({PortId(UUID(ports[1]["id"])), PortId(uuid4())})
    assert [str(port.id) for port in world.ask(ResolveDevices(ports=wanted))] == [ports[1]["id"]]


@pytest.mark.spec("RPC-04")
@pytest.mark.spec("MD-05")
def test_a_port_is_found_by_the_link_local_address_that_follows_from_its_mac(
    world: Agents,
) -> None:
    one, two = world.network(), world.network()
    world.subnet(one)
    world.subnet(two)
    mac = "fa:16:3e:11:22:33"
    ports = [world.create(network, mac_address=mac) for network in (one, two)]
    world.create(one, mac_address="fa:16:3e:11:22:34")
    router = str(uuid4())
    world.create(
        two, ADMIN, device_id=router, device_owner="network:router_interface", project_id="p"
    )
    address = as_address("fe80::f816:3eff:fe11:2233")
    for where, port in (({"network": one}, 0), ({"router": RouterId(UUID(router))}, 1)):
        found = world.ask(FindPorts(address=address, **where))
        assert [str(each.id) for each in found] == [ports[port]["id"]]
    for other in ("fe80::1", "fe80::f816:3eff:fe11:2235", "2001:db8::f816:3eff:fe11:2233"):
        assert world.ask(FindPorts(address=as_address(other), network=one)) == ()


@pytest.mark.spec("DHCP-20")
@pytest.mark.spec("DHCP-21")
def test_a_dhcp_port_derives_its_address_where_hosts_do(world: Agents) -> None:
    network = world.network()
    modes = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    six = world.subnet(network, "2001:db8::/64", **modes)
    made = world.dhcp(network, six)
    assert [each.subnet_id for each in made.fixed_ips] == [six]
    assert derives(made.mac, made.fixed_ips[0].address)
    assert world.dhcp(network, six) == made
    four = world.subnet(network)
    other = world.dhcp(network, four, host="h2")
    assert [each.subnet_id for each in other.fixed_ips] == [four, six], "as every port there"
    with statements(world.context.database) as said:
        assert world.dhcp(network, four, host="h2") == other
    assert not [each for each in said if each.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert len(said) <= 3, said


@pytest.mark.spec("DHCP-21")
def test_a_dhcp_port_has_no_address_where_gateways_serve(world: Agents) -> None:
    network = world.network()
    subnet = world.subnet(network)
    made = world.dhcp(network)
    assert made.fixed_ips == ()
    assert (made.binding.host, made.device_owner) == ("h1", "network:dhcp")
    assert world.dhcp(network) == made
    addressed = world.dhcp(network, subnet)
    assert (addressed.id, len(addressed.fixed_ips)) == (made.id, 1)
    assert world.dhcp(network).fixed_ips == ()


@pytest.mark.spec("DHCP-20")
def test_concurrent_requests_of_two_hosts_adopt_no_port_twice(world: Agents) -> None:
    network = world.network()
    subnet = world.subnet(network)
    left = world.dhcp(network, subnet, host="dead")
    reserved = {"device_id": RESERVED_DHCP_DEVICE, "binding__host_id": ""}
    world.update({"id": str(left.id)}, ADMIN, **reserved)
    hosts = ("h1", "h2") * 4
    with ThreadPoolExecutor(4) as pool:
        ports = list(pool.map(lambda host: world.dhcp(network, subnet, host=host), hosts))
    by_host = {port.binding.host: port for port in ports}
    assert len(set(ports)) == len(by_host) == 2
    assert len({port.fixed_ips[0].address for port in ports}) == 2
    (adopted,) = (port for port in by_host.values() if port.id == left.id)
    assert (adopted.mac, adopted.fixed_ips) == (left.mac, left.fixed_ips)


def test_a_dhcp_port_of_an_absent_network_is_released_already(world: Agents) -> None:
    assert world.ask(ReleaseDhcpPort(network=NetworkId(uuid4()), host="h1")) is None


@pytest.mark.spec("RPC-04")
def test_a_host_has_one_gateway_port_on_an_external_network(world: Agents) -> None:
    inside, outside = world.network(), world.network(external=True)
    world.subnet(outside, "203.0.113.0/24")
    ask = EnsureGatewayPort(network=outside, host="h1")
    made = world.ask(ask)
    assert made.device_owner == "network:floatingip_agent_gateway"
    assert made.binding.host == "h1"
    assert len(made.fixed_ips) == 1
    assert world.ask(ask) == made
    with pytest.raises(Conflict, match="not external"):
        world.ask(EnsureGatewayPort(network=inside, host="h1"))


@pytest.mark.spec("RPC-04")
def test_a_host_keeps_its_mac_and_no_other_has_it(world: Agents) -> None:
    macs = {host: world.ask(EnsureHostMac(host)) for host in ("h1", "h2", "h3")}
    assert len(set(macs.values())) == 3
    assert all(str(mac).startswith("fa:16:3f:") for mac in macs.values())
    assert world.ask(EnsureHostMac("h1")) == macs["h1"]
    assert world.ask(EnabledServices()) == {"router", "qos"}
    with pytest.raises(NotSupported):
        world.ask(SetPrefix(subnet=SubnetId(uuid4()), prefix=None))


@pytest.mark.spec("RPC-04")
def test_concurrent_requests_create_nothing_twice(world: Agents) -> None:
    network = world.network()
    subnet = world.subnet(network)
    with ThreadPoolExecutor(4) as pool:
        ports = list(pool.map(lambda _: world.dhcp(network, subnet), range(8)))
        macs = list(pool.map(lambda _: world.ask(EnsureHostMac("h")), range(8)))
    assert len(set(ports)) == 1
    assert len(set(macs)) == 1
    assert world.used() == 1
