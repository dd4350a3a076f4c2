"""Attacks with the credentials of one host, over the listener of a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.values.agent_requests import (
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ResolveDevices,
)
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import InvalidInput, NotFound, RequestError
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.values.address import as_address
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import NetworkId, PortId, RouterId, SubnetId
from netfw.testing.lab import sandbox
from tests.system.server.host_client import HostClient, TokenServer, token_server

pytestmark = [pytest.mark.timeout(300), pytest.mark.spec("RPC-06")]

OVS, DHCP, L3, METADATA = "Open vSwitch agent", "DHCP agent", "L3 agent", "Metadata agent"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    sandbox.require()
    with token_server(tmp_path_factory.mktemp("tokens") / "server", 24300) as running:
        yield running
        assert "Traceback" not in running.log


def as_service(client: HostClient, service: Service) -> Subscription:
    return Subscription(client.host, frozenset({service}))


def test_token_speaks_for_its_host_and_its_services_only(server: TokenServer) -> None:
    one = server.client("one")
    one.beat(OVS)
    list(one.source.snapshot(Subscription("one", frozenset({Service.L2, Service.POPULATION}))))
    assert one.source.request(EnsureHostMac("one"))
    network, subnet = (NetworkId(id) for id in server.network())
    subnets = frozenset({SubnetId(subnet)})
    refused: list[Callable[[], Any]] = [
        *(lambda each=each: one.beat(each) for each in (DHCP, L3, METADATA)),
        lambda: one.beat(OVS, host="two"),
        *(
            lambda each=each: list(one.source.snapshot(as_service(one, each)))
            for each in (Service.DHCP, Service.L3, Service.METADATA)
        ),
        lambda: one.source.request(EnsureDhcpPort(network=network, host="one", subnets=subnets)),
        lambda: one.source.request(ReleaseDhcpPort(network=network, host="one")),
        lambda: one.source.request(EnsureGatewayPort(network=network, host="one")),
        lambda: one.source.request(EnsureHostMac("two")),
        lambda: one.source.request(FindPorts(address=as_address("10.1.0.2"), network=network)),
        lambda: one.source.report(
            [
                StatusReport(
                    ref=Ref(Kind.NETWORK, network), revision=1, host="one", service=Service.DHCP,
                    status=Status.ACTIVE,
                )
            ]
        ),
    ]  # fmt: skip
    for number, attack in enumerate(refused):
        with pytest.raises(RequestError, match="may speak for"):
            pytest.fail(f"attack {number} gave {attack()}")
    assert [each["agent_type"] for each in server.agents() if each["host"] == "one"] == [OVS]
    assert not server.server.request("GET", f"/v2.0/ports?network_id={network}")[1]["ports"]


def test_tokens_without_services_and_hosts_work_as_before(server: TokenServer) -> None:
    old, anybody = server.client("old"), server.client("any")
    for agent_type in (OVS, DHCP, L3, METADATA):
        old.beat(agent_type)
        anybody.beat(agent_type, host="elsewhere")
    with pytest.raises(RequestError, match="may speak for"):
        old.beat(OVS, host="one")
    for host in ("old", "elsewhere"):
        found = {each["agent_type"] for each in server.agents() if each["host"] == host}
        assert found == {OVS, DHCP, L3, METADATA}
    assert "token for every host" in server.log
    for host in ("old", "elsewhere"):
        delete_agents(server, host)


def delete_agents(server: TokenServer, host: str) -> None:
    for each in server.agents():
        if each["host"] == host:
            assert server.server.request("DELETE", f"/v2.0/agents/{each['id']}")[0] == 204


def test_agents_of_unknown_types_are_refused(server: TokenServer) -> None:
    attacker = server.client("all")
    for number in range(20):
        with pytest.raises(InvalidInput, match="further_agent_types"):
            attacker.beat(f"agent of type {number}")
    assert not [each for each in server.agents() if each["host"] == "all"]


@pytest.mark.parametrize("spelled", ["198.51.100.7", "::ffff:198.51.100.7"])
def test_tunnel_address_of_another_live_host_is_refused(server: TokenServer, spelled: str) -> None:
    victim, attacker = server.client("one"), server.client("two")
    victim.beat(OVS, tunneling_ip="198.51.100.7", tunnel_types=["vxlan"])
    with pytest.raises(InvalidInput, match="tunneling_ip") as refused:
        attacker.beat(OVS, tunneling_ip=spelled, tunnel_types=["vxlan"])
    assert "one" not in str(refused.value).split()
    assert "host one" in server.log
    assert not [each for each in server.agents() if each["host"] == "two"]


def test_tunnel_address_can_be_taken_over_from_a_deleted_agent_only(server: TokenServer) -> None:
    first, second = server.client("one"), server.client("two")
    first.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"])
    first.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"], extensions=["qos"])
    with pytest.raises(InvalidInput, match="tunneling_ip"):
        second.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"])
    delete_agents(server, "one")
    second.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"])
    with pytest.raises(InvalidInput, match="tunneling_ip"):
        first.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"])
    second.beat(OVS, tunneling_ip="198.51.100.9", tunnel_types=["vxlan"])
    first.beat(OVS, tunneling_ip="198.51.100.8", tunnel_types=["vxlan"])
    delete_agents(server, "two")


@pytest.mark.parametrize("agent_type", [DHCP, L3, METADATA])
def test_only_l2_agents_have_tunnel_addresses(server: TokenServer, agent_type: str) -> None:
    # Other hosts would send to that address what is for the host.
    victim, attacker = server.client("one"), server.client("net")
    victim.beat(OVS, tunneling_ip="198.51.100.30", tunnel_types=["vxlan"])
    with pytest.raises(InvalidInput, match="tunneling_ip"):
        attacker.beat(agent_type, tunneling_ip="198.51.100.31", tunnel_types=["vxlan"])
    seen = Subscription("one", frozenset({Service.L2, Service.POPULATION}))
    hosts = {
        each.host
        for page in victim.source.snapshot(seen)
        for each in page.put
        if isinstance(each, Agent)
    }
    assert hosts == {"one"}
    delete_agents(server, "one")


def test_devices_are_resolved_for_the_host_that_has_them(server: TokenServer) -> None:
    one, two = server.client("one"), server.client("two")
    one.beat(OVS, tunneling_ip="198.51.100.20", tunnel_types=["vxlan"])
    two.beat(OVS, tunneling_ip="198.51.100.21", tunnel_types=["vxlan"])
    network, _ = server.network()
    ids = {
        host: PortId(UUID(server.create("port", network_id=str(network), **binding)["id"]))
        for host, binding in {
            "one": {"binding:host_id": "one"},
            "two": {"binding:host_id": "two"},
            "none": {},
        }.items()
    }
    wanted = ResolveDevices(ports=frozenset(ids.values()))
    assert [port.id for port in one.source.request(wanted)] == [ids["one"]]
    assert [port.id for port in two.source.request(wanted)] == [ids["two"]]
    everything = server.client("any").source.request(wanted)
    assert {port.id for port in everything} == set(ids.values())


def test_networks_and_routers_are_answered_to_the_hosts_that_serve_them(
    server: TokenServer,
) -> None:
    net, other = server.client("net"), server.client("all")
    net.beat(DHCP)
    net.beat(L3)
    network, subnet = server.network()
    router = server.create("router")
    path = f"/v2.0/routers/{router['id']}/add_router_interface"
    assert server.server.request("PUT", path, {"subnet_id": str(subnet)})[0] == 200
    agents = {each["agent_type"]: each["id"] for each in server.agents() if each["host"] == "net"}
    server.server.request(
        "POST", f"/v2.0/agents/{agents[L3]}/l3-routers", {"router_id": router["id"]}
    )
    port = server.create("port", network_id=str(network))
    address = as_address(port["fixed_ips"][0]["ip_address"])
    on_network = FindPorts(address=address, network=NetworkId(network))
    behind_router = FindPorts(address=address, router=RouterId(UUID(router["id"])))
    subnets = frozenset({SubnetId(subnet)})
    for request in (on_network, behind_router):
        assert [str(each.id) for each in net.source.request(request)] == [port["id"]]
        with pytest.raises(NotFound, match="does not serve"):
            other.source.request(request)
    with pytest.raises(NotFound, match="does not serve"):
        other.source.request(
            EnsureDhcpPort(network=NetworkId(network), host="all", subnets=subnets)
        )
    served = net.source.request(
        EnsureDhcpPort(network=NetworkId(network), host="net", subnets=subnets)
    )
    assert served.binding.host == "net"
    unserved, spare = server.network()
    server.server.request("DELETE", f"/v2.0/agents/{agents[DHCP]}/dhcp-networks/{unserved}")
    with pytest.raises(NotFound, match="does not serve"):
        net.source.request(
            EnsureDhcpPort(
                network=NetworkId(unserved), host="net", subnets=frozenset({SubnetId(spare)})
            )
        )


def test_gateway_ports_are_given_to_hosts_of_routers_of_the_network(server: TokenServer) -> None:
    net, other = server.client("net"), server.client("all")
    net.beat(L3)
    outside, _ = server.network(**{"router:external": True})
    router = server.create("router", external_gateway_info={"network_id": str(outside)})
    agent = next(each["id"] for each in server.agents() if each["agent_type"] == L3)
    server.server.request("POST", f"/v2.0/agents/{agent}/l3-routers", {"router_id": router["id"]})
    with pytest.raises(NotFound, match="does not serve"):
        other.source.request(EnsureGatewayPort(network=NetworkId(outside), host="all"))
    assert net.source.request(EnsureGatewayPort(network=NetworkId(outside), host="net"))
