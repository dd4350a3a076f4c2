"""From a call of the API to a lease, with real agents, switches, servers and clients."""

from __future__ import annotations

import time
from urllib.error import HTTPError

import pytest

from netfw.cli.demo.dhcp import fetch, use_routes
from netfw.cli.demo.server import Cloud
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, address, fetch6, leased

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-05", "DHCP-06", "DHCP-07", "DHCP-20", "DHCP-49")
def test_an_instance_on_each_host_has_its_address_soon_after_the_call(net: DhcpNet) -> None:
    for host in (0, 1):
        began = time.monotonic()
        port, client, lease = net.boot(host)
        assert time.monotonic() - began < 25, "its agents were not notified, and pulled"
        wait_until(lambda id=port.id: net.cloud.network.get_port(id).status == "ACTIVE")
        assert [str(each) for each in lease.gateways] == [f"10.{net.number}.0.1"]
        assert lease.mtu == net.network.mtu
        assert client.renew() == lease
    served = net.cloud.network.ports(network_id=net.network.id, device_owner="network:dhcp")
    assert [port.device_id[:4] for port in served] == ["dhcp"]


@pytest.mark.spec("DHCP-07")
def test_a_port_is_not_active_before_it_can_get_its_address(net: DhcpNet) -> None:
    net.boot(0)
    (serving,) = net.serving_hosts()
    serving.dhcp.stop()
    try:
        port = net.port(1)
        instance = net.plug(port)
        wait_until(lambda: instance.namespaces.attempt(["ip", "link"]).status == 0)
        time.sleep(1.5)  # the switch has wired it long since
        assert net.cloud.network.get_port(port.id).status == "DOWN"
    finally:
        serving.dhcp.start()
    wait_until(lambda: net.cloud.network.get_port(port.id).status == "ACTIVE")


@pytest.mark.spec("DHCP-06", "DHCP-40")
def test_a_network_that_was_served_before_it_had_ports_serves_its_first(net: DhcpNet) -> None:
    (serving,) = wait_until(net.serving_hosts, "it is served")
    pid = wait_until(lambda: net.server_pid(serving), "by dnsmasq")
    serving.dhcp.wait_for(lambda status: bool(status["ready"]))
    net.boot(0)
    assert net.server_pid(serving) == pid


@pytest.mark.spec("DHCP-43", "DHCP-48")
def test_what_the_api_says_is_what_the_client_hears(net: DhcpNet) -> None:
    options = [
        {"opt_name": "tftp-server", "opt_value": "192.0.2.66"},
        {"opt_name": "42", "opt_value": "192.0.2.42"},
        {"opt_name": "mtu", "opt_value": "1300"},
    ]
    _port, client, lease = net.boot(1, extra_dhcp_opts=options)
    assert lease.mtu == 1300
    assert lease.options[66] == b"192.0.2.66"
    assert lease.options[42] == bytes([192, 0, 2, 42])
    (subnet,) = net.cloud.network.subnets(network_id=net.network.id)
    net.cloud.network.update_subnet(subnet.id, dns_nameservers=["192.0.2.53"])
    wait_until(lambda: (lease := client.renew()) and [*map(str, lease.dns)] == ["192.0.2.53"])


@pytest.mark.spec("DHCP-46")
def test_an_address_that_was_given_back_is_given_to_the_next_at_once(net: DhcpNet) -> None:
    port, client, _ = net.boot(0)
    wanted = address(port)
    client.leave()
    net.cloud.hosts[0].unplug_port(port)
    net.cloud.network.delete_port(port.id)
    again = net.port(1, fixed_ips=[{"ip_address": wanted}])
    leased(net.client(again), again)


@pytest.mark.spec("DHCP-49", "DHCP-45")
def test_ipv6_addresses_by_dhcp(net: DhcpNet) -> None:
    net.subnet(6, ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful")
    port = net.port(1)
    instance = net.plug(port)
    wanted = {fixed["ip_address"] for fixed in port.fixed_ips if ":" in fixed["ip_address"]}
    lease = (client := net.client6(instance)).lease()
    assert lease is not None, client.log()
    assert {str(each) for each in lease.addresses} == wanted


@pytest.mark.spec("DHCP-49", "DHCP-45")
def test_ipv6_addresses_by_announcement_and_the_rest_by_dhcp(net: DhcpNet) -> None:
    mode = "dhcpv6-stateless"
    dns = f"fd00:{net.number:x}::53"
    net.subnet(6, ipv6_address_mode=mode, ipv6_ra_mode=mode, dns_nameservers=[dns])
    port = net.port(1)
    instance = net.plug(port)
    (wanted,) = (each["ip_address"] for each in port.fixed_ips if ":" in each["ip_address"])
    wait_until(lambda: wanted in instance.run(["ip", "-6", "address"]), "it made its address")
    lease = (client := net.client6(instance, stateless=True)).lease()
    assert lease is not None, client.log()
    assert [str(each) for each in lease.dns] == [dns]


@pytest.mark.spec("DHCP-60", "MD-01", "MD-05", "MD-06", "MD-10")
def test_an_instance_on_an_isolated_network_gets_its_own_metadata(net: DhcpNet) -> None:
    _, _, other_lease = net.boot(0, device_id="vm-other")
    port, client, lease = net.boot(1, device_id="vm-mine")
    (serving,) = net.serving_hosts()
    use_routes(client.instance, lease)
    before = len(serving.service.requests())
    forged = {
        "X-Instance-ID": "vm-other",
        "X-Instance-ID-Signature": "0" * 64,
        "X-Tenant-ID": "somebody",
        "X-Forwarded-For": str(other_lease.ip),
        "X-Neutron-Network-ID": "00000000-0000-0000-0000-000000000000",
        "X-Neutron-Router-ID": "00000000-0000-0000-0000-000000000001",
    }
    for headers in ({}, forged, {"x_instance_id": "vm-other", "X-Forwarded-for": "6.6.6.6"}):
        assert fetch(client.instance, headers) == f"vm-mine {address(port)}\n"
    for requested in serving.service.requests()[before:]:
        sent = requested["headers"]
        assert sent["x-instance-id"] == "vm-mine"
        assert sent["x-forwarded-for"] == address(port)
        assert sent["x-tenant-id"] == (port.project_id or "")
        assert "vm-other" not in str(sent)


@pytest.mark.spec("DHCP-60", "MD-01", "MD-05", "MD-10")
def test_metadata_by_ipv6_needs_no_leased_address(net: DhcpNet) -> None:
    port = net.port(1, device_id="vm-six")
    instance = net.plug(port)
    wait_until(lambda: net.cloud.network.get_port(port.id).status == "ACTIVE")
    answer = wait_until(lambda: fetch6(instance), "the service answers")
    assert answer.split()[0] == "vm-six"
    forged = {"X-Forwarded-For": "fe80::1", "X-Instance-ID": "vm-other"}
    assert fetch6(instance, forged) == answer


@pytest.mark.spec("DHCP-60", "MD-10")
def test_metadata_waits_for_the_agents_and_the_service(net: DhcpNet) -> None:
    # Requests while one of them is away get an error, and are served when it is back.
    _, client, lease = net.boot(0, device_id="vm-mine")
    (serving,) = net.serving_hosts()
    use_routes(client.instance, lease)
    answer = fetch(client.instance)
    serving.metadata.kill()
    assert _refusal(client.instance) == 503
    serving.metadata.start()
    assert fetch(client.instance) == answer
    serving.service.stop()
    try:
        assert _refusal(client.instance) in (502, 503)
    finally:
        serving.service.start()
    assert fetch(client.instance) == answer
    serving.dhcp.kill()  # whose proxy goes on
    assert fetch(client.instance) == answer
    serving.dhcp.start()
    assert fetch(client.instance) == answer


def _refusal(instance: Instance) -> int:
    with pytest.raises(HTTPError) as refused:
        fetch(instance)
    with refused.value as answer:
        return answer.code


@pytest.mark.spec("DHCP-08", "MD-09")
def test_the_agents_are_known_with_what_they_have(net: DhcpNet) -> None:
    net.boot(0)
    (serving,) = net.serving_hosts()
    wait_until(lambda: _counts(net.cloud, serving.host.name).get("networks", 0) >= 1)
    kinds = {(each.agent_type, each.binary) for each in net.cloud.network.agents()}
    assert ("DHCP agent", "netfw-dhcp-agent") in kinds
    assert ("Metadata agent", "netfw-metadata-agent") in kinds


def _counts(cloud: Cloud, host: str) -> dict[str, int]:
    for agent in cloud.network.agents(host=host):
        if agent.agent_type == "DHCP agent":
            return dict(agent.configuration)
    return {}
