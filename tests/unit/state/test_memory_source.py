"""The source in memory, beyond what every source promises."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.agent_requests import (
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict, CursorLost, NotFound
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import eui64
from netfw.model.values.common_fields import Status
from netfw.model.values.json_document import JsonDocument
from netfw.state.memory_source import MemorySource
from netfw.state.routing_requests import derive_routing_mac
from netfw.testing.conformance.state_source import samples


def cursor(source, interest=samples.L2_HERE):
    *_, last = source.snapshot(interest)
    return last.cursor


def up(port, host=samples.HERE, **kwargs):
    given = {"service": Service.L2, "status": Status.ACTIVE, **kwargs}
    return StatusReport(ref=ref(port), revision=port.revision, host=host, **given)


def test_what_is_put_as_it_is_already_is_no_change():
    source = MemorySource(samples.WEB_HERE)
    before = cursor(source)
    source.put(samples.WEB_HERE)
    source.remove(ref(samples.NET))
    assert cursor(source) == before


def test_a_change_gets_a_higher_revision():
    source = MemorySource(samples.WEB_HERE)
    first = source.resources()[ref(samples.WEB_HERE)]
    source.put(evolve(samples.WEB_HERE, name="renamed"))
    second = source.resources()[ref(samples.WEB_HERE)]
    assert second.revision > first.revision > 0


def test_revisions_of_the_caller_are_kept():
    source = MemorySource(evolve(samples.WEB_HERE, revision=7))
    source.put(evolve(samples.WEB_HERE, revision=9, name="renamed"))
    assert source.resources()[ref(samples.WEB_HERE)].revision == 9


def test_a_second_life_has_another_revision():
    source = MemorySource(samples.WEB_HERE)
    first = source.resources()[ref(samples.WEB_HERE)]
    source.remove(ref(samples.WEB_HERE))
    source.put(samples.WEB_HERE)
    source.report([up(first)])
    assert source.status(ref(samples.WEB_HERE)) is None


def test_a_heartbeat_of_an_agent_is_not_news():
    source = MemorySource(samples.AGENT_THERE)
    before = cursor(source)
    source.put(evolve(samples.AGENT_THERE, heartbeat_at=datetime.now(UTC)))
    assert cursor(source) == before


def test_put_and_remove_in_one_commit_are_seen_together():
    source = MemorySource(samples.WEB_HERE)
    since = cursor(source)
    source.commit(put=(samples.port(9, samples.HERE),), remove=(ref(samples.WEB_HERE),))
    delta = source.changes(samples.L2_HERE, since)
    assert [resource.id for resource in delta.put] == [samples.port(9, samples.HERE).id]
    assert ref(samples.WEB_HERE) in delta.drop


def test_history_beyond_the_retention_is_lost():
    source = MemorySource(retention=2)
    since = cursor(source)
    for number in range(1, 4):
        source.put(samples.port(number, samples.HERE))
    with pytest.raises(CursorLost, match="take a snapshot"):
        source.changes(samples.L2_HERE, since)


def test_new_reports_reach_the_listener_until_it_stops():
    source, heard = MemorySource(samples.WEB_HERE), []
    port = source.resources()[ref(samples.WEB_HERE)]
    stop = source.listen(heard.append)
    source.report([up(port), up(port), up(port, samples.THERE)])
    assert heard == [up(port)]
    stop()
    source.report([up(port, status=Status.DOWN)])
    assert heard == [up(port)]
    assert source.status(ref(port)).status is Status.DOWN


def test_a_status_ends_with_the_binding_it_was_of():
    source = MemorySource(samples.WEB_HERE)
    port = source.resources()[ref(samples.WEB_HERE)]
    source.report([up(port)])
    source.put(evolve(port, name="renamed"))
    assert source.status(ref(port)) == up(port)
    source.put(evolve(port, binding=samples.OTHER_HOST_PORT.binding))
    assert source.status(ref(port)) is None


@pytest.mark.parametrize(
    ("service", "items", "assignment"),
    [
        (Service.L3, (samples.ROUTER,), samples.ROUTER_ASSIGNMENT),
        (Service.DHCP, (samples.NEIGHBOUR, samples.NET), samples.DHCP_ASSIGNMENT),
    ],
)
def test_report_is_new_after_its_assignment_was_removed_and_put_back(service, items, assignment):
    source, heard = MemorySource(*items, assignment), []
    source.listen(heard.append)
    resource = source.resources()[ref(items[0])]
    report = up(resource, service=service)
    source.report([report])
    source.remove(assignment)
    source.put(assignment)
    assert source.status(report.ref, service) is None
    source.report([report])
    assert heard == [report, report]
    assert source.status(report.ref, service) == report


def test_dhcp_reports_on_ports_of_the_networks_it_serves():
    source = MemorySource(samples.NET, samples.NEIGHBOUR, samples.DHCP_ASSIGNMENT)
    port = source.resources()[ref(samples.NEIGHBOUR)]
    ready = up(port, service=Service.DHCP)
    source.report([ready])
    assert source.status(ref(port), Service.DHCP) == ready
    assert source.status(ref(port), Service.L2) is None


def test_a_standby_does_not_take_a_port_on_several_hosts_down():
    source = MemorySource(samples.HA_INTERFACE)
    target = ref(samples.HA_INTERFACE)

    def status(**hosts):
        port = source.resources()[target]
        source.report([evolve(up(port, host), status=hosts[host]) for host in hosts])
        report = source.status(target)
        return None if report is None else (report.host, report.status)

    assert status(here=Status.DOWN) == ("here", Status.DOWN)
    assert status(there=Status.ACTIVE) == ("there", Status.ACTIVE)
    assert status(here=Status.ERROR) == ("there", Status.ACTIVE)
    binding = evolve(samples.HA_INTERFACE.binding, host="here")
    source.put(evolve(samples.HA_INTERFACE, binding=binding))
    assert status(there=Status.ACTIVE) == ("here", Status.ERROR)
    assert status(here=Status.ACTIVE, there=Status.DOWN) == ("here", Status.ACTIVE)


def test_a_router_on_several_hosts_works_if_it_works_on_one():
    source = MemorySource(samples.HA_ROUTER, *samples.HA_ASSIGNMENTS)
    router = source.resources()[ref(samples.HA_ROUTER)]
    for host, status in (("here", Status.ERROR), ("there", Status.ACTIVE), ("here", Status.DOWN)):
        source.report([up(router, host, service=Service.L3, status=status)])
    assert source.status(ref(router), Service.L3).status is Status.ACTIVE


def test_a_role_counts_whatever_the_revision_is():
    source = MemorySource(samples.HA_ROUTER, *samples.HA_ASSIGNMENTS)
    target = ref(samples.HA_ROUTER)
    source.report([RoleReport(ref=target, revision=77, host="here", role=HaRole.STANDBY)])
    assert source.roles(target) == {"here": HaRole.STANDBY}
    source.remove(samples.HA_ASSIGNMENTS[0])
    assert source.roles(target) == {}


def test_roles_of_a_router_are_kept_by_host():
    source = MemorySource(samples.HA_ROUTER, samples.HA_ASSIGNMENTS[0])
    target = ref(samples.HA_ROUTER)
    for host in (samples.HERE, samples.THERE):
        source.report([RoleReport(ref=target, revision=1, host=host, role=HaRole.ACTIVE)])
    assert source.roles(target) == {samples.HERE: HaRole.ACTIVE}


def test_router_that_is_not_highly_available_has_no_roles():
    source = MemorySource(samples.HA_ROUTER, samples.HA_ASSIGNMENTS[0])
    target = ref(samples.HA_ROUTER)
    role = RoleReport(ref=target, revision=1, host=samples.HERE, role=HaRole.ACTIVE)
    source.report([role])
    source.put(evolve(samples.HA_ROUTER, ha=False, vrid=None))
    source.report([role])
    source.put(samples.HA_ROUTER)
    assert source.roles(target) == {}


def test_the_last_heartbeat_of_each_agent_is_kept():
    source = MemorySource()
    source.report([Heartbeat(agent=samples.AGENT_THERE, start=True)])
    source.report([Heartbeat(agent=samples.AGENT_THERE, counts={"devices": 3})])
    assert [beat.counts for beat in source.heartbeats()] == [{"devices": 3}]


def test_notification_goes_only_to_concerned_subscriptions():
    source, here, there = MemorySource(), [], []
    source.watch(samples.L2_HERE, lambda: here.append(1))
    source.watch(samples.L2_THERE, lambda: there.append(1))
    source.put(samples.WEB_HERE)
    assert (here, there) == ([1], [])
    source.restore()
    assert (here, there) == ([1, 1], [1])


def test_closed_source_sends_no_notifications():
    source, hints = MemorySource(), []
    source.watch(samples.L2_HERE, lambda: hints.append(1))
    source.close()
    source.put(samples.WEB_HERE)
    assert hints == []


def test_a_dhcp_port_left_by_a_dead_host_is_adopted():
    dhcp = {"device_id": "reserved_dhcp_port", "device_owner": "network:dhcp"}
    left = evolve(samples.port(7, samples.THERE), **dhcp)
    strange = evolve(samples.port(6, samples.THERE), device_id="reserved_dhcp_port")
    source = MemorySource(samples.NET, samples.SUBNET, strange, left)
    port = source.request(ensure())
    assert port.id == left.id
    assert port.binding.host == samples.HERE
    assert port.fixed_ips == left.fixed_ips


def test_a_dhcp_port_gets_a_free_address_and_keeps_those_it_has():
    taken = evolve(
        samples.port(1, samples.HERE),
        fixed_ips=(evolve(samples.NEIGHBOUR.fixed_ips[0], address=samples.SUBNET.cidr[1]),),
    )
    source = MemorySource(samples.NET, samples.SUBNET, taken)
    port = source.request(ensure())
    assert [str(fixed.address) for fixed in port.fixed_ips] == ["10.0.0.2"]
    source.request(ReleaseDhcpPort(network=samples.NET.id, host=samples.HERE))
    source.request(ReleaseDhcpPort(network=samples.NET.id, host=samples.HERE))
    assert ref(port) not in source.resources()


def ensure(network=samples.NET, *subnets):
    wanted = frozenset(subnet.id for subnet in subnets or (samples.SUBNET,))
    return EnsureDhcpPort(network=network.id, host=samples.HERE, subnets=wanted)


def test_a_dhcp_port_that_cannot_be_is_refused_with_the_reason():
    source = MemorySource(samples.NET, evolve(samples.SUBNET, cidr="10.0.0.0/30"))
    with pytest.raises(NotFound, match="no network"):
        source.request(ensure(samples.OTHER_NET))
    with pytest.raises(NotFound, match="no subnet"):
        source.request(ensure(samples.NET, samples.OTHER_SUBNET))
    for number in (1, 2):
        address = samples.SUBNET.cidr[number]
        fixed = evolve(samples.NEIGHBOUR.fixed_ips[0], address=address)
        source.put(evolve(samples.port(number, samples.HERE), fixed_ips=(fixed,)))
    with pytest.raises(Conflict, match="no free address"):
        source.request(ensure())


@pytest.mark.parametrize("cidr", ["10.0.0.8/31", "10.0.0.8/32", "fd00::8/128"])
def test_a_subnet_of_one_or_two_addresses_serves_them(cidr):
    subnet = evolve(samples.SUBNET, cidr=cidr, gateway=None, allocation_pools=())
    port = MemorySource(samples.NET, subnet).request(ensure())
    assert port.fixed_ips[0].address == subnet.cidr[0]


def test_ports_are_found_on_a_network_and_behind_a_router():
    source = MemorySource(*samples.BACKGROUND, samples.ROUTER_PORT)
    address = samples.NEIGHBOUR.fixed_ips[0].address
    [found] = source.request(FindPorts(address=address, network=samples.NET.id))
    assert found.id == samples.NEIGHBOUR.id
    assert source.request(FindPorts(address=address, router=samples.ROUTER.id)) == (found,)
    assert source.request(FindPorts(address=address, network=samples.OTHER_NET.id)) == ()
    assert source.request(ResolveDevices(ports=frozenset({found.id}))) == (found,)


def test_a_port_is_found_by_the_link_local_address_that_follows_from_its_mac():
    source = MemorySource(*samples.BACKGROUND, samples.ROUTER_PORT)
    address = eui64(ip_network("fe80::/64"), samples.NEIGHBOUR.mac)
    for place in ({"network": samples.NET.id}, {"router": samples.ROUTER.id}):
        [found] = source.request(FindPorts(address=address, **place))
        assert found.id == samples.NEIGHBOUR.id
    assert source.request(FindPorts(address=address, network=samples.OTHER_NET.id)) == ()
    assert source.request(FindPorts(address=address + 4096, network=samples.NET.id)) == ()


def test_a_dhcp_port_derives_its_address_where_hosts_do():
    slaac = {"ipv6_ra_mode": Ipv6Mode.SLAAC, "ipv6_address_mode": Ipv6Mode.SLAAC}
    subnet = evolve(samples.SUBNET, cidr="fd00::/64", gateway=None, allocation_pools=(), **slaac)
    port = MemorySource(samples.NET, subnet).request(ensure())
    assert [fixed.address for fixed in port.fixed_ips] == [eui64(subnet.cidr, port.mac)]


@pytest.mark.spec("L3-32")
def test_a_delegated_prefix_renumbers_its_subnet_and_ports():
    subnet = evolve(
        samples.SUBNET,
        cidr=ip_network("::/64"),
        gateway="::1",
        allocation_pools=(),
        dns_nameservers=(),
        host_routes=(),
        ipv6_ra_mode=Ipv6Mode.SLAAC,
        ipv6_address_mode=Ipv6Mode.SLAAC,
        subnet_pool_id="prefix_delegation",
    )
    own = evolve(samples.WEB_HERE.fixed_ips[0], subnet_id=subnet.id, address=ip_address("::7"))
    port = evolve(samples.WEB_HERE, fixed_ips=(own,))
    source = MemorySource(subnet, port)
    prefix = ip_network("2001:db8:1::/64")
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=prefix))
    found = source.resources()
    assert found[ref(subnet)].cidr == prefix
    assert str(found[ref(subnet)].gateway) == "2001:db8:1::1"
    assert [str(each.address) for each in found[ref(port)].fixed_ips] == ["2001:db8:1::7"]
    before = cursor(source)
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=prefix))
    assert cursor(source) == before
    source.request(SetPrefix(router=samples.ROUTER.id, subnet=subnet.id, prefix=None))
    assert source.resources()[ref(subnet)].provisional


def test_a_prefix_of_a_subnet_that_is_not_delegated_is_refused():
    with pytest.raises(NotFound):
        MemorySource().request(
            SetPrefix(router=samples.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
        )
    with pytest.raises(Conflict, match="not delegated"):
        MemorySource(samples.SUBNET).request(
            SetPrefix(router=samples.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
        )


@pytest.mark.spec("RPC-08")
def test_a_host_has_one_routing_mac_address_that_other_hosts_get():
    source = MemorySource(samples.AGENT_THERE)
    before = cursor(source)
    here, there = (source.request(EnsureHostMac(host)) for host in (samples.HERE, samples.THERE))
    assert here != there
    assert source.request(EnsureHostMac(samples.HERE)) == here
    agents = source.changes(samples.L2_THERE, before).put
    assert {agent.host: agent.routing_mac for agent in agents} == {
        samples.HERE: here,
        samples.THERE: there,
    }
    known = next(agent for agent in agents if agent.host == samples.THERE)
    assert known.tunnel_address == samples.AGENT_THERE.tunnel_address


@pytest.mark.spec("RPC-08")
def test_a_routing_mac_address_that_an_agent_states_is_kept():
    facts = JsonDocument({"routing_mac": "fa:16:3f:00:00:01"})
    source = MemorySource(evolve(samples.AGENT_THERE, configurations=facts))
    assert source.request(EnsureHostMac(samples.THERE)) == "fa:16:3f:00:00:01"
    taken = JsonDocument({"routing_mac": derive_routing_mac(samples.HERE)})
    source.put(evolve(samples.AGENT_THERE, configurations=taken))
    with pytest.raises(Conflict, match="is that of host there: state another routing_mac"):
        source.request(EnsureHostMac(samples.HERE))


@pytest.mark.spec("RPC-08")
def test_a_host_has_one_port_on_an_external_network_until_it_releases_it():
    external = evolve(samples.NET, external=True)
    v6 = evolve(samples.SUBNET, id=UUID(int=35), cidr=ip_network("2001:db8::/64"), gateway=None)
    taken = evolve(samples.FLOATING, network_id=external.id, address=samples.SUBNET.cidr[1])
    source = MemorySource(external, samples.SUBNET, v6, taken)
    request = EnsureGatewayPort(network=external.id, host=samples.HERE)
    port = source.request(request)
    other = source.request(evolve(request, host=samples.THERE))
    assert source.request(request) == port
    addresses = [fixed.address for each in (port, other) for fixed in each.fixed_ips]
    assert len(set(addresses)) == 4
    assert taken.address not in addresses
    assert port.mac != other.mac
    found = {ref(each) for page in source.snapshot(samples.L3_HERE) for each in page.put}
    assert found >= {ref(port), ref(external)}
    assert ref(other) not in found
    for _ in range(2):
        source.request(ReleaseGatewayPort(network=external.id, host=samples.HERE))
    assert ref(port) not in source.resources()
    assert ref(other) in source.resources()


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ((), NotFound, "there is no network"),
        ((samples.NET, samples.SUBNET), Conflict, "is not external"),
        ((evolve(samples.NET, external=True),), Conflict, "has no address left"),
    ],
)
def test_a_gateway_port_that_cannot_be_is_refused(state, error, text):
    with pytest.raises(error, match=text):
        MemorySource(*state).request(EnsureGatewayPort(network=samples.NET.id, host=samples.HERE))


def calls_of(function):
    """How many Python and C calls *function* takes: a cost that no machine's load changes."""
    count = 0

    def tick(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.spec("RPC-02")
def test_the_cost_of_changes_is_the_change_and_not_the_total():
    costs = []
    for total in (20, 2000):
        others = (
            evolve(
                samples.port(1, samples.HERE if number % 2 else samples.THERE),
                id=UUID(int=10_000 + number),
            )
            for number in range(total)
        )
        source = MemorySource(*samples.BACKGROUND, *others)
        since = cursor(source)
        commit = calls_of(lambda source=source: source.put(samples.WEB_HERE))
        read = calls_of(lambda source=source, since=since: source.changes(samples.L2_HERE, since))
        costs.append((commit, read))
    few, many = costs
    assert many[0] <= few[0] * 1.1
    assert many[1] <= few[1] * 1.1
