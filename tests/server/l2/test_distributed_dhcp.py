"""The DHCP port of a network that every host answers from."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE
from netfw.server.db import Database
from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.server.state_source.database_source import DatabaseSource
from tests.server.core.core_client import ADMIN, ALICE
from tests.server.scheduling.environment import DHCP, OVS, Cloud


@pytest.fixture
def cloud(database: Database) -> Cloud:
    return Cloud(database, distributed_dhcp=True)


def dhcp_ports(cloud: Cloud, network: str) -> list[Any]:
    query = Query(filters={"network_id": (network,), "device_owner": ("network:dhcp",)})
    return list(cloud.calls.plugin.find(ADMIN, "port", query))


def subnets_of(port: Any) -> list[str]:
    return sorted(fixed["subnet_id"] for fixed in port["fixed_ips"])


@pytest.mark.spec("DHCP-82")
def test_the_first_dhcp_subnet_makes_the_port_and_the_last_removes_it(cloud: Cloud) -> None:
    cloud.agents(DHCP, "a")
    network = cloud.calls.network()
    cloud.calls.subnet(network, "10.9.0.0/24", enable_dhcp=False)
    assert dhcp_ports(cloud, network["id"]) == []
    first = cloud.calls.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(cloud, network["id"])
    assert (port["device_id"], port["binding:host_id"]) == (DISTRIBUTED_DHCP_DEVICE, "")
    assert port["project_id"] == network["project_id"]
    assert subnets_of(port) == [first["id"]]
    assert cloud.hosts(network["id"]) == [], "no DHCP agent serves it"
    second = cloud.calls.subnet(network, "10.1.0.0/24")
    (grown,) = dhcp_ports(cloud, network["id"])
    assert grown["id"] == port["id"]
    assert port["fixed_ips"][0] in grown["fixed_ips"], "it keeps its address"
    assert subnets_of(grown) == sorted([first["id"], second["id"]])
    cloud.calls.delete("subnet", first["id"])
    (left,) = dhcp_ports(cloud, network["id"])
    assert subnets_of(left) == [second["id"]]
    cloud.calls.delete("subnet", second["id"])
    assert dhcp_ports(cloud, network["id"]) == []


@pytest.mark.spec("DHCP-82")
def test_the_port_follows_subnets_whose_dhcp_is_switched(cloud: Cloud) -> None:
    network = cloud.calls.network()
    subnet = cloud.calls.subnet(network, "10.0.0.0/24")
    cloud.calls.plugin.update(ALICE, "subnet", subnet["id"], {"enable_dhcp": False})
    assert dhcp_ports(cloud, network["id"]) == []
    cloud.calls.plugin.update(ALICE, "subnet", subnet["id"], {"enable_dhcp": True})
    (port,) = dhcp_ports(cloud, network["id"])
    assert subnets_of(port) == [subnet["id"]]
    cloud.calls.delete("network", network["id"])
    assert dhcp_ports(cloud, network["id"]) == []


@pytest.mark.spec("DHCP-82")
def test_derived_addresses_are_kept(cloud: Cloud) -> None:
    network = cloud.calls.network()
    modes = dict.fromkeys(("ipv6_ra_mode", "ipv6_address_mode"), "slaac")
    four = cloud.calls.subnet(network, "10.0.0.0/24")
    six = cloud.calls.subnet(network, "fd00::/64", **modes)
    (port,) = dhcp_ports(cloud, network["id"])
    assert subnets_of(port) == sorted([four["id"], six["id"]])


@pytest.mark.spec("DHCP-82")
def test_port_and_subnet_are_one_transaction(cloud: Cloud) -> None:
    """Refuse a subnet without an address for the server, as a whole."""
    network = cloud.calls.network()
    gateway = {"gateway_ip": "10.0.0.1", "allocation_pools": []}
    with pytest.raises(Conflict):
        cloud.calls.subnet(network, "10.0.0.0/30", **gateway)
    assert cloud.calls.show("network", network["id"])["subnets"] == []


@pytest.mark.spec("DHCP-82")
def test_networks_that_are_older_than_the_mode_get_their_port(database: Database) -> None:
    former = Cloud(database)
    network = former.network()
    cloud = Cloud(database, distributed_dhcp=True)
    assert dhcp_ports(cloud, network) == []
    assert cloud.rescheduler.reconcile() == 1
    assert len(dhcp_ports(cloud, network)) == 1
    assert cloud.rescheduler.reconcile() == 0


@pytest.mark.spec("DHCP-81")
def test_networks_of_agents_that_end_get_no_other_agents(database: Database) -> None:
    former = Cloud(database)
    former.agents(DHCP, "a", "b")
    networks = [former.network() for _ in range(4)]
    before = {id: former.hosts(id) for id in networks}
    assert {host for hosts in before.values() for host in hosts} == {"a", "b"}
    cloud = Cloud(database, distributed_dhcp=True, agent_down_time=1)
    cloud.rescheduler.reconcile()
    assert {id: cloud.hosts(id) for id in networks} == before, "they keep their agents"
    cloud.calls.plugin.update(ADMIN, "agent", cloud.agent("a", DHCP), {"admin_state_up": False})
    cloud.rescheduler.reconcile()
    for id in networks:
        assert cloud.hosts(id) == [host for host in before[id] if host != "a"]


@pytest.mark.spec("DHCP-82")
def test_ports_of_the_former_mode_go_when_agents_serve_their_networks(cloud: Cloud) -> None:
    network, other = cloud.network(), cloud.network()
    off = Cloud(cloud.database)
    off.agents(DHCP, "a")
    off.agents(OVS, "a", tunnel_types=["vxlan", "gre", "geneve"])
    off.rescheduler.reconcile()
    assert off.hosts(network) == ["a"]
    assert len(dhcp_ports(off, network)) == 1, "hosts answer until the agent does"
    agents = {"device_owner": "network:dhcp", "device_id": "dhcp-a", "binding__host_id": "a"}
    port = off.calls.make("port", ADMIN, network_id=network, **agents)
    off.rescheduler.reconcile()
    assert len(dhcp_ports(off, network)) == 2
    off.statuses([active(port)])
    assert off.rescheduler.reconcile() == 1
    assert [each["id"] for each in dhcp_ports(off, network)] == [port["id"]]
    assert [each["device_id"] for each in dhcp_ports(off, other)] == [DISTRIBUTED_DHCP_DEVICE]
    assert off.rescheduler.reconcile() == 0


@pytest.mark.spec("DHCP-82")
def test_ports_of_the_former_mode_shrink_with_their_subnets(cloud: Cloud) -> None:
    network = cloud.calls.network()
    first, second = (cloud.calls.subnet(network, f"10.{n}.0.0/24") for n in (0, 1))
    off = Cloud(cloud.database)
    third = off.calls.subnet(network, "10.2.0.0/24")
    (port,) = dhcp_ports(off, network["id"])
    assert third["id"] not in subnets_of(port), "it does not grow"
    off.calls.plugin.update(ALICE, "subnet", first["id"], {"enable_dhcp": False})
    (port,) = dhcp_ports(off, network["id"])
    assert subnets_of(port) == [second["id"]]
    off.calls.plugin.update(ALICE, "subnet", second["id"], {"enable_dhcp": False})
    assert dhcp_ports(off, network["id"]) == []


def active(port: Any) -> StatusReport:
    return StatusReport(
        ref=Ref(Kind.PORT, UUID(port["id"])),
        host="a",
        service=Service.L2,
        status=Status.ACTIVE,
        revision=port["revision_number"],
    )


@pytest.mark.spec("DHCP-81", "DHCP-82")
def test_hosts_with_ports_of_the_network_read_its_dhcp_port(cloud: Cloud) -> None:
    cloud.agents(OVS, "here", "there")
    network = cloud.network()
    cloud.calls.make("port", ADMIN, network_id=network, binding__host_id="here")
    commits = CommitWatcher(cloud.database)
    source = DatabaseSource(
        cloud.database,
        commits,
        handle_reports=cloud.hear,
        handle_request=cloud.calls.plugin.handle_request,
    )
    try:
        for host, count in {"here": 1, "there": 0}.items():
            pages = source.snapshot(Subscription(host, [Service.L2]))
            ports = [each for page in pages for each in page.put if isinstance(each, Port)]
            servers = [each for each in ports if each.device_id == DISTRIBUTED_DHCP_DEVICE]
            assert len(servers) == count, host
    finally:
        source.close()
        commits.close()
