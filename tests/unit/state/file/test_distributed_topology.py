"""Distributed routers of a file, and what agents get for them without a server."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from netfw.drivers.values.agent_requests import (
    EnsureGatewayPort,
    EnsureHostMac,
    ReleaseGatewayPort,
)
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import NotFound, NotSupported
from netfw.model.agent import Agent
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.values.ids import NetworkId
from netfw.state.dependencies import reachable
from netfw.state.distributed_routing import derive_routing_mac
from netfw.state.file import FileSource
from netfw.state.file.topology import Topology
from tests import ROOT
from tests.unit.state.file.topology_samples import all_of, errors_of, good, the

SAMPLE = (ROOT / "samples/topologies/distributed-router.yaml").read_text()
HOSTS = ("host1", "host2", "node")


def ports(found: Topology) -> dict[str, Port]:
    return {port.name: port for port in all_of(Port, found)}


@pytest.mark.spec("DRV-21", "RPC-08")
def test_interfaces_of_a_distributed_router_are_on_no_host_of_their_own() -> None:
    interface = ports(good(SAMPLE))["edge-blue"]
    assert interface.device_owner == "network:router_interface_distributed"
    assert not interface.binding.all_hosts
    assert interface.binding.vif_type == "distributed"


@pytest.mark.spec("DRV-21", "RPC-08")
def test_hosts_have_a_routing_mac_address_if_a_router_is_distributed() -> None:
    agents = {agent.host: agent for agent in all_of(Agent, good(SAMPLE))}
    assert {host: agent.routing_mac for host, agent in agents.items()} == {
        host: derive_routing_mac(host) for host in HOSTS
    }
    plain = good(SAMPLE.replace("distributed: true, ", ""))
    assert {agent.routing_mac for agent in all_of(Agent, plain)} == {None}
    stated = good("hosts: {a: {routing_mac: fa:16:3f:00:00:01}}")
    assert the(Agent, stated).routing_mac == "fa:16:3f:00:00:01"


@pytest.mark.spec("DRV-21")
def test_routing_mac_addresses_of_two_hosts_differ() -> None:
    twice = "hosts: {a: {routing_mac: fa:16:3f:00:00:01}, b: {routing_mac: fa:16:3f:00:00:01}}"
    (error,) = errors_of(twice)
    assert "hosts.b.routing_mac: fa:16:3f:00:00:01 is that of host a too; state another" in error
    derived = derive_routing_mac("b")
    (error,) = errors_of(
        f"hosts: {{a: {{routing_mac: '{derived}'}}, b: {{}}}}",
        "routers: [{name: r, distributed: true}]",
    )
    assert f"{derived} is that of host a too" in error


@pytest.mark.spec("DRV-21")
def test_no_host_has_the_routing_mac_address_of_a_port() -> None:
    # Every host would drop what the port sends.
    port = "networks: [{name: n}]\nports: [{name: p, network: n, mac_address: MAC}]\n"
    stated = "hosts: {a: {routing_mac: FA:16:3f:00:00:01}}\n"
    (error,) = errors_of(stated, port.replace("MAC", "fa:16:3f:00:00:01"))
    assert "hosts.a.routing_mac: fa:16:3f:00:00:01 is that of ports[0] in 1.yaml too; st" in error
    derived = derive_routing_mac("a")
    good(f"hosts: {{a: {{}}}}\n{port.replace('MAC', derived)}")
    (error,) = errors_of(
        f"hosts: {{a: {{}}}}\nrouters: [{{name: r, distributed: true}}]\n"
        f"{port.replace('MAC', derived)}"
    )
    assert f"{derived} is that of ports[0]" in error


@pytest.mark.spec("DRV-21", "RPC-08")
def test_a_floating_ip_is_on_the_host_of_its_port_if_that_has_a_gateway() -> None:
    assert the(FloatingIp, good(SAMPLE)).host == "host1"
    gateway = ", agent_gateways: {outside: 203.0.113.21}"
    for central in (
        SAMPLE.replace(gateway, ""),
        SAMPLE.replace("distributed: true, ", ""),
        SAMPLE.replace("port: web1}", "port: web1, host: null}"),
        SAMPLE.replace(
            "fixed_ips: [10.0.1.2]",
            "fixed_ips: [10.0.1.2]\n    allowed_address_pairs: [{ip_address: 10.0.1.11}]",
        ),
    ):
        assert central != SAMPLE
        assert the(FloatingIp, good(central)).host is None


@pytest.mark.spec("DRV-21", "RPC-08")
def test_each_host_gets_its_part_of_a_distributed_router() -> None:
    found = good(SAMPLE)
    expected = {
        "host1": {"web1", "agent gateway of host1 on outside"},
        "host2": {"agent gateway of host2 on outside"},
        "node": set(),
    }
    shared = {"edge-blue", "edge-green", "edge-outside", "central-blue", "central-green"}
    for host, own in expected.items():
        reached = reachable(found.items, Subscription(host, {Service.L3})).values()
        assert {port.name for port in reached if isinstance(port, Port)} == shared | own
        assert any(isinstance(each, FloatingIp) for each in reached) is (host == "host1")
        switch = reachable(found.items, Subscription(host, {Service.L2})).values()
        networks = {each.name for each in switch if isinstance(each, Network)}
        assert networks == {"blue", "green", "outside"}


WEB, CENTRAL = "host: host1, fixed_ips", "    device_owner: network:router_centralized_snat\n"


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("edge, fixed_ips", "edge, host: node, fixed_ips",
         "an interface of a distributed router is on every host with an instance; remove it"),
        (f"    router: edge\n{CENTRAL}", "", "the router has no central port"),
        ("port: web1}", "port: web1, host: node}", "node has no gateway on the external network"),
        (", router:external: true", "", "is not external: no floating IP is there"),
        ("  - {service: l3, host: node, router: edge}", "  []",
         "routers[0]: no host has its central part, by which it reaches its gateway; add "
         "{service: l3, host: HOST, router: edge} to assignments"),
        ("l3, host: node,", "l3, host: host2,",
         "ports[2].host: node does not have the central part; state host: host2, which the router "
         "is assigned to"),
        ("router: edge, host: node, ", "router: edge, ",
         "ports[2]: the port is on no host; state host: node, which the router is assigned to"),
        (WEB, f"prepared_hosts: [hosst2], {WEB}", "hosst2 is not among the hosts"),
    ],
)  # fmt: skip
def test_a_distributed_router_that_hosts_cannot_serve_is_a_warning(
    old: str, new: str, warning: str
) -> None:
    changed = SAMPLE.replace(old, new)
    assert any(warning in str(each) for each in good(changed).warnings)
    assert good(SAMPLE).warnings == ()


@pytest.mark.spec("DRV-21")
def test_a_router_of_a_file_that_is_distributed_and_highly_available_is_one_error() -> None:
    (error,) = errors_of(SAMPLE.replace("distributed: true,", "distributed: true, ha: true,"))
    assert "routers[0].distributed: a router of a file is highly available or distributed" in error
    assert "remove distributed or ha, or use netfw-server" in error


def test_a_floating_ip_with_a_host_at_a_plain_router_is_a_warning() -> None:
    stated = SAMPLE.replace("port: web1}", "port: web1, host: host1}")
    found = good(stated.replace("distributed: true, ", "")).warnings
    assert any("the router is not distributed, so that its floating" in str(each) for each in found)


@pytest.mark.parametrize(
    ("gateways", "error"),
    [
        ("7", "hosts.a.agent_gateways: not an object: 7"),
        ("{nowhere: 203.0.113.9}", "hosts.a.agent_gateways.nowhere.network: "),
        ("{out: 10.0.0.1}", "no subnet of the network contains 10.0.0.1"),
        ("{out: 7}", "hosts.a.agent_gateways.out.fixed_ips[0]"),
    ],
)
def test_a_wrong_gateway_of_an_agent_is_an_error(gateways: str, error: str) -> None:
    networks = "networks: [{name: out, router:external: true}]\n"
    subnets = "subnets: [{name: s, network: out, cidr: 203.0.113.0/24}]\n"
    found = errors_of(f"{networks}{subnets}hosts: {{a: {{agent_gateways: {gateways}}}}}")
    assert any(error in each for each in found), found


@pytest.mark.spec("DRV-21", "RPC-08")
def test_the_requests_of_a_distributed_router_are_answered_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(SAMPLE)
    source = FileSource(path)
    outside = next(n.id for n in source_networks(source) if n.name == "outside")
    port = source.request(EnsureGatewayPort(network=outside, host="host1"))
    assert [str(fixed.address) for fixed in port.fixed_ips] == ["203.0.113.21"]
    assert source.request(EnsureGatewayPort(network=outside, host="host1")) == port
    assert source.request(ReleaseGatewayPort(network=outside, host="host1")) is None
    assert port in source.items()
    with pytest.raises(NotSupported, match="give host node an address on network"):
        source.request(EnsureGatewayPort(network=outside, host="node"))
    with pytest.raises(NotFound, match="there is no network"):
        source.request(EnsureGatewayPort(network=NetworkId(UUID(int=1)), host="node"))
    assert source.request(EnsureHostMac("host1")) == derive_routing_mac("host1")
    with pytest.raises(NotSupported, match="host other is not among the hosts of the file"):
        source.request(EnsureHostMac("other"))
    path.write_text("networks: []")
    source.refresh()
    assert source.request(EnsureHostMac("other")) == derive_routing_mac("other")


def source_networks(source: FileSource) -> list[Network]:
    source.refresh()
    return [each for each in source.items() if isinstance(each, Network)]
