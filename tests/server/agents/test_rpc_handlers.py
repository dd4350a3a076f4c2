"""What the server answers to agents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ResolveDevices,
    SetPrefix,
)
from netfw.errors import Conflict, Exhausted, NotFound, NotSupported
from netfw.errors.ports import MacAddressInUse
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import as_address, derives
from netfw.model.values.ids import NetworkId, PortId, RouterId, SubnetId
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.core.server_context import ServerContext
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE, dhcp_device_id
from tests.server.core.core_client import statements
from tests.server.l2.environment import ADMIN, OTHER, PortsEnvironment


class Agents(PortsEnvironment):
    """An environment with the requests of agents."""

    def ask(self, request: Any) -> Any:
        answers = AgentRpcHandlers(self.context, lambda: ("router", "qos"))
        return answers.table()[type(request)](request)

    def dhcp(self, network: NetworkId, *subnets: SubnetId, host: str = "h1") -> Any:
        return self.ask(EnsureDhcpPort(network=network, host=host, subnets=frozenset(subnets)))


@pytest.fixture
def env(context: ServerContext) -> Agents:
    return Agents(context)


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_is_made_once_and_follows_its_subnets(env: Agents) -> None:
    network = env.network()
    one, two = env.subnet(network), env.subnet(network, "10.1.0.0/24")
    env.host("h1")
    made = env.dhcp(network, one)
    assert made.device_owner == "network:dhcp"
    assert made.device_id == dhcp_device_id("h1", network)
    assert made.project_id == "p"
    assert not made.port_security
    assert not made.security_groups
    assert (made.binding.host, made.binding.vif_type) == ("h1", "ovs")
    assert [each.subnet_id for each in made.fixed_ips] == [one]
    assert env.dhcp(network, one) == made
    both = env.dhcp(network, one, two)
    assert both.id == made.id
    assert both.fixed_ips[0] == made.fixed_ips[0]
    assert {each.subnet_id for each in both.fixed_ips} == {one, two}
    assert [each.subnet_id for each in env.dhcp(network, two).fixed_ips] == [two]
    assert env.dhcp(network, two, host="h2").id != made.id
    assert env.used() == 2


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_that_a_dead_host_left_is_adopted_and_one_that_is_released_is_gone(
    env: Agents,
) -> None:
    network = env.network()
    subnet = env.subnet(network)
    env.host("h1")
    made = env.dhcp(network, subnet)
    env.update({"id": str(made.id)}, ADMIN, device_id=RESERVED_DHCP_DEVICE, binding__host_id="")
    adopted = env.dhcp(network, subnet, host="h2")
    assert (adopted.id, adopted.fixed_ips, adopted.binding.host) == (made.id, made.fixed_ips, "h2")
    env.ask(ReleaseDhcpPort(network=network, host="h1"))
    assert env.dhcp(network, subnet, host="h2") == adopted
    for _ in range(2):
        env.ask(ReleaseDhcpPort(network=network, host="h2"))
    assert env.ask(ResolveDevices(ports=frozenset({made.id}))) == ()
    assert env.used() == 0


@pytest.mark.spec("RPC-04")
@pytest.mark.parametrize("device", [RESERVED_DHCP_DEVICE, "own"])
def test_a_port_of_a_user_with_the_device_of_dhcp_is_left_alone(env: Agents, device: str) -> None:
    network = env.network(shared=True)
    subnet = env.subnet(network)
    name = dhcp_device_id("h1", network) if device == "own" else device
    theirs = env.create(network, OTHER, device_id=name)
    made = env.dhcp(network, subnet)
    assert str(made.id) != theirs["id"]
    assert made.project_id == "p"
    env.ask(ReleaseDhcpPort(network=network, host="h1"))
    assert env.show(theirs, ADMIN)["device_id"] == name


@pytest.mark.spec("RPC-04")
def test_a_dhcp_port_needs_what_it_is_for_and_no_quota(context: ServerContext) -> None:
    context.quotas = {"port": 0}
    env = Agents(context)
    network, other = env.network(), env.network()
    subnet, strange = env.subnet(network, "10.0.0.0/30"), env.subnet(other)
    assert env.dhcp(network, subnet)
    with pytest.raises(Conflict):
        env.dhcp(network, subnet, host="h2")
    with pytest.raises(NotFound, match="no subnet"):
        env.dhcp(network, strange)
    with pytest.raises(NotFound):
        env.dhcp(NetworkId(uuid4()), subnet)


@pytest.mark.spec("RPC-04")
def test_ports_are_found_by_their_address_on_a_network_or_behind_a_router(env: Agents) -> None:
    one, two = env.network(), env.network()
    env.subnet(one)
    env.subnet(two)
    ports = [env.create(network, fixed_ips=[{"ip_address": "10.0.0.9"}]) for network in (one, two)]
    router = str(uuid4())
    env.create(
        one, ADMIN, device_id=router, device_owner="network:router_interface", project_id="p"
    )
    env.create(two, ADMIN, device_id=router, device_owner="compute:nova", project_id="p")
    address = as_address("10.0.0.9")
    for where in ({"network": one}, {"router": RouterId(UUID(router))}):
        found = env.ask(FindPorts(address=address, **where))
        assert [str(port.id) for port in found] == [ports[0]["id"]]
    assert env.ask(FindPorts(address=as_address("10.0.0.99"), network=one)) == ()
    assert env.ask(FindPorts(address=address, router=RouterId(uuid4()))) == ()
    wanted = frozenset({PortId(UUID(ports[1]["id"])), PortId(uuid4())})
    assert [str(port.id) for port in env.ask(ResolveDevices(ports=wanted))] == [ports[1]["id"]]


@pytest.mark.spec("RPC-04")
@pytest.mark.spec("MD-05")
def test_a_port_is_found_by_the_link_local_address_that_follows_from_its_mac(
    env: Agents,
) -> None:
    one, two = env.network(), env.network()
    env.subnet(one)
    env.subnet(two)
    mac = "fa:16:3e:11:22:33"
    ports = [env.create(network, mac_address=mac) for network in (one, two)]
    env.create(one, mac_address="fa:16:3e:11:22:34")
    router = str(uuid4())
    env.create(
        two, ADMIN, device_id=router, device_owner="network:router_interface", project_id="p"
    )
    address = as_address("fe80::f816:3eff:fe11:2233")
    for where, port in (({"network": one}, 0), ({"router": RouterId(UUID(router))}, 1)):
        found = env.ask(FindPorts(address=address, **where))
        assert [str(each.id) for each in found] == [ports[port]["id"]]
    for other in ("fe80::1", "fe80::f816:3eff:fe11:2235", "2001:db8::f816:3eff:fe11:2233"):
        assert env.ask(FindPorts(address=as_address(other), network=one)) == ()


@pytest.mark.spec("DHCP-20")
@pytest.mark.spec("DHCP-21")
def test_a_dhcp_port_derives_its_address_where_hosts_do(env: Agents) -> None:
    network = env.network()
    modes = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    six = env.subnet(network, "2001:db8::/64", **modes)
    made = env.dhcp(network, six)
    assert [each.subnet_id for each in made.fixed_ips] == [six]
    assert derives(made.mac, made.fixed_ips[0].address)
    assert env.dhcp(network, six) == made
    four = env.subnet(network)
    other = env.dhcp(network, four, host="h2")
    assert [each.subnet_id for each in other.fixed_ips] == [four, six], "as every port there"
    with statements(env.context.database) as recorded:
        assert env.dhcp(network, four, host="h2") == other
    assert not [each for each in recorded if each.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert len(recorded) <= 3, recorded


@pytest.mark.spec("DHCP-21")
def test_a_dhcp_port_has_no_address_where_gateways_serve(env: Agents) -> None:
    network = env.network()
    subnet = env.subnet(network)
    made = env.dhcp(network)
    assert made.fixed_ips == ()
    assert (made.binding.host, made.device_owner) == ("h1", "network:dhcp")
    assert env.dhcp(network) == made
    addressed = env.dhcp(network, subnet)
    assert (addressed.id, len(addressed.fixed_ips)) == (made.id, 1)
    assert env.dhcp(network).fixed_ips == ()


@pytest.mark.spec("DHCP-20")
def test_concurrent_requests_of_two_hosts_adopt_no_port_twice(env: Agents) -> None:
    network = env.network()
    subnet = env.subnet(network)
    left = env.dhcp(network, subnet, host="dead")
    reserved = {"device_id": RESERVED_DHCP_DEVICE, "binding__host_id": ""}
    env.update({"id": str(left.id)}, ADMIN, **reserved)
    hosts = ("h1", "h2") * 4
    with ThreadPoolExecutor(4) as pool:
        ports = list(pool.map(lambda host: env.dhcp(network, subnet, host=host), hosts))
    by_host = {port.binding.host: port for port in ports}
    assert len(set(ports)) == len(by_host) == 2
    assert len({port.fixed_ips[0].address for port in ports}) == 2
    (adopted,) = (port for port in by_host.values() if port.id == left.id)
    assert (adopted.mac, adopted.fixed_ips) == (left.mac, left.fixed_ips)


def test_a_dhcp_port_of_an_absent_network_is_released_already(env: Agents) -> None:
    assert env.ask(ReleaseDhcpPort(network=NetworkId(uuid4()), host="h1")) is None


@pytest.mark.spec("RPC-04")
def test_a_host_has_one_gateway_port_on_an_external_network(env: Agents) -> None:
    inside, outside = env.network(), env.network(external=True)
    env.subnet(outside, "203.0.113.0/24")
    ask = EnsureGatewayPort(network=outside, host="h1")
    made = env.ask(ask)
    assert made.device_owner == "network:floatingip_agent_gateway"
    assert made.binding.host == "h1"
    assert len(made.fixed_ips) == 1
    assert env.ask(ask) == made
    with pytest.raises(Conflict, match="not external"):
        env.ask(EnsureGatewayPort(network=inside, host="h1"))


@pytest.mark.spec("RPC-04")
def test_a_host_keeps_its_mac_and_no_other_has_it(env: Agents) -> None:
    macs = {host: env.ask(EnsureHostMac(host)) for host in ("h1", "h2", "h3")}
    assert len(set(macs.values())) == 3
    assert all(str(mac).startswith("fa:16:3f:") for mac in macs.values())
    assert env.ask(EnsureHostMac("h1")) == macs["h1"]
    assert env.ask(EnabledServices()) == {"router", "qos"}
    with pytest.raises(NotSupported, match="service_plugins"):
        env.ask(SetPrefix(router=RouterId(uuid4()), subnet=SubnetId(uuid4()), prefix=None))


@pytest.mark.spec("RPC-04", "L2-60")
def test_no_port_and_no_host_have_one_mac(env: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every host would drop what the port sends.
    network, of_host = env.network(), str(env.ask(EnsureHostMac("h1")))
    taken = f"{of_host} is taken by a host"
    with pytest.raises(MacAddressInUse, match=taken):
        env.create(network, ADMIN, mac_address=of_host.upper())
    port = env.create(network, ADMIN, mac_address="fa:16:3f:00:00:00")
    with pytest.raises(MacAddressInUse, match=taken):
        env.update(port, ADMIN, mac_address=of_host)
    bits = iter([0, 0, 0, 0, 0, 9])
    monkeypatch.setattr("random.getrandbits", lambda _: next(bits))
    assert env.ask(EnsureHostMac("h2")) == "fa:16:3f:00:00:09"
    monkeypatch.setattr("random.getrandbits", lambda _: 0)
    with pytest.raises(Exhausted, match="set dvr_base_mac to another"):
        env.ask(EnsureHostMac("h3"))


@pytest.mark.spec("RPC-04")
def test_concurrent_requests_create_nothing_twice(env: Agents) -> None:
    network = env.network()
    subnet = env.subnet(network)
    with ThreadPoolExecutor(4) as pool:
        ports = list(pool.map(lambda _: env.dhcp(network, subnet), range(8)))
        macs = list(pool.map(lambda _: env.ask(EnsureHostMac("h")), range(8)))
    assert len(set(ports)) == 1
    assert len(set(macs)) == 1
    assert env.used() == 1
