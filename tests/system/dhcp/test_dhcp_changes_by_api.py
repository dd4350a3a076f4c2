"""What is switched off, added and taken away by the API, and what instances see of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ipaddress import IPv4Interface
from typing import Any

import pytest

from netfw.cli.demo.server import Cloud, ServedHost
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, address, dhcp_agent, leased
from tests.system.file_hosts import start_all, stop_all

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-05", "DHCP-06", "DHCP-21")
def test_a_second_subnet_is_served_beside_the_first_and_goes_again(net: DhcpNet) -> None:
    with net.renewing(0) as renewals:
        (serving,) = net.serving_hosts()
        second = net.subnet(4, second=True)
        port, client, lease = net.boot(1, fixed_ips=[{"subnet_id": second.id}])
        assert lease.gateways == (IPv4Interface(second.gateway_ip).ip,)
        (server,) = net.servers()
        assert {fixed["subnet_id"] for fixed in server.fixed_ips} > {second.id}
        assert client.renew() == lease
        net.delete(port)
        net.cloud.network.delete_subnet(second.id)
        wait_until(lambda: len(net.servers()[0].fixed_ips) == 1, "the server has one address less")
        wait_until(lambda: second.gateway_ip[:-1] not in _addresses(net, serving), "on its device")
        renewals.check()


@pytest.mark.spec("DHCP-05", "DHCP-06")
def test_dhcp_is_switched_off_and_on_for_a_subnet(net: DhcpNet) -> None:
    port, client, _ = net.boot(0)
    (subnet,) = net.cloud.network.subnets(network_id=net.network.id)
    net.cloud.network.update_subnet(subnet.id, enable_dhcp=False)
    wait_until(lambda: not net.serving_hosts(), "nobody serves it")
    wait_until(lambda: not net.servers(), "and its port is given back")
    static = net.port(1)
    net.plug(static)
    wait_until(lambda: net.cloud.network.get_port(static.id).status == "ACTIVE")
    net.cloud.network.update_subnet(subnet.id, enable_dhcp=True)
    leased(client, port)


@pytest.mark.spec("DHCP-05", "DHCP-06")
def test_a_network_is_switched_off_and_on(net: DhcpNet) -> None:
    port, client, lease = net.boot(0)
    net.cloud.network.update_network(net.network.id, admin_state_up=False)
    wait_until(lambda: not net.serving_hosts(), "nobody serves it")
    net.cloud.network.update_network(net.network.id, admin_state_up=True)
    assert leased(client, port).ip == lease.ip


@pytest.fixture
def switched_on(cloud: Cloud) -> Iterator[None]:
    """Switch on agents afterwards that the test switches off."""
    yield
    for host in cloud.hosts:
        cloud.network.update_agent(dhcp_agent(cloud, host), admin_state_up=True)


@pytest.mark.spec("DHCP-06")
def test_an_agent_that_is_switched_off_gives_its_networks_to_another(
    net: DhcpNet, switched_on: None
) -> None:
    with net.renewing(0) as one, net.renewing(1) as two:
        (serving,) = net.serving_hosts()
        (before,) = net.servers()
        _switch(net, serving, on=False)
        (other,) = (host for host in net.cloud.hosts if host is not serving)
        wait_until(lambda: net.serving_hosts() == [other], "the other serves it")
        (after,) = net.servers()
        assert (after.id, address(after)) == (before.id, address(before))
        for each in (one, two):
            each.check()


@pytest.mark.spec("DHCP-06")
def test_network_is_unserved_while_all_agents_are_switched_off(
    net: DhcpNet, switched_on: None
) -> None:
    port, client, lease = net.boot(0)
    for host in net.cloud.hosts:
        _switch(net, host, on=False)
    wait_until(lambda: not net.serving_hosts(), "nobody serves it")
    _switch(net, net.cloud.hosts[1], on=True)
    wait_until(lambda: net.serving_hosts() == [net.cloud.hosts[1]], "who is on serves it")
    assert leased(client, port).ip == lease.ip


@pytest.mark.spec("DHCP-46", "DHCP-06")
def test_client_of_a_deleted_port_is_not_answered(net: DhcpNet) -> None:
    with net.renewing(0) as gone, net.renewing(1) as other:
        port, _ = next(iter(net.ports.values()))
        net.cloud.network.delete_port(port.id)  # its device stays, and asks on
        (serving,) = net.serving_hosts()
        wait_until(lambda: port.id not in net.served_ports(serving), "it is forgotten")
        other.check()

        def is_silent() -> bool:
            """Return whether no request was answered meanwhile, while those of the other were."""
            began = time.monotonic()
            for _ in range(10):
                other.await_answer()
            return all(requested < began for requested in gone.answers)

        wait_until(is_silent, "a server that has read its files again")


@pytest.mark.spec("DHCP-46", "DHCP-06")
def test_a_port_whose_address_changes_gets_the_new_one(net: DhcpNet) -> None:
    port, client, _ = net.boot(0)
    former = address(port)
    wanted = f"10.{net.number}.0.77"
    net.cloud.network.update_port(port.id, fixed_ips=[{"ip_address": wanted}])
    wait_until(lambda: (found := client.lease()) and str(found.ip) == wanted, "the new address")
    other = net.port(1, fixed_ips=[{"ip_address": former}])
    leased(net.client(other), other)


@pytest.fixture
def veths(cloud: Cloud) -> Iterator[None]:
    """Use veth pairs on both hosts during the test."""
    _use_veths(cloud, wanted=True)
    yield
    _use_veths(cloud, wanted=False)


@pytest.mark.spec("DHCP-22", "DHCP-23")
def test_networks_are_served_through_pairs_of_devices(net: DhcpNet, veths: None) -> None:
    for host in (0, 1):
        _, client, lease = net.boot(host)
        assert client.renew() == lease
    (serving,) = net.serving_hosts()
    (server,) = net.servers()
    inside = serving.host.run(["ip", "netns", "exec", f"qdhcp-{net.network.id}", "ip", "link"])
    assert f"ns-{server.id}"[:14] in inside
    assert f"tap{server.id}"[:14] in serving.host.ovs.vsctl("list-ports", "br-int")


@pytest.mark.nightly
@pytest.mark.spec("DHCP-23", "DHCP-28")
def test_a_host_changes_to_pairs_of_devices_and_back_without_a_lost_lease(net: DhcpNet) -> None:
    with net.renewing(0) as one, net.renewing(1) as two:
        for wanted in (True, False):
            _use_veths(net.cloud, wanted=wanted)
            for each in (one, two):
                each.check()
            port = net.port(0)
            leased(net.client(port), port)


def _use_veths(cloud: Cloud, *, wanted: bool) -> None:
    agents = [host.dhcp for host in cloud.hosts]
    stop_all(*agents)
    for agent in agents:
        agent.options["openvswitch"]["ovs_use_veth"] = wanted
    start_all(*agents)


def _switch(net: DhcpNet, host: ServedHost, *, on: bool) -> None:
    net.cloud.network.update_agent(dhcp_agent(net.cloud, host), admin_state_up=on)


def _addresses(net: DhcpNet, serving: Any) -> str:
    words = ["ip", "netns", "exec", f"qdhcp-{net.network.id}", "ip", "address"]
    return str(serving.host.run(words))
