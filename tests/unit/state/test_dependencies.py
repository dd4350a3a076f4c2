"""What concerns an agent: the rules, and the graph that keeps them current."""

from __future__ import annotations

import random

import pytest
from attrs import evolve

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.binding import Binding
from netfw.model.resource import Kind, ref
from netfw.model.trunk import SubPort, Trunk
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE, DeviceOwner
from netfw.state.dependencies import (
    INSTANCE_ROLES,
    REPORTED,
    AgentRoot,
    Assignment,
    ResourceRole,
    Role,
    edges,
    reachable,
    roots,
)
from netfw.state.dependency_closure import ReachabilityIndex
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.histories import key, universe


def names(resources):
    return {resource.name for resource in resources.values() if getattr(resource, "name", "")}


def test_a_member_of_a_remote_group_brings_nothing_with_it():
    found = reachable((*samples.BACKGROUND, samples.WEB_HERE), samples.L2_HERE)
    assert ref(samples.DB_THERE) in found
    assert ref(samples.OTHER_NET) not in found
    assert ref(samples.DB) not in found  # its rules are not this host's business


def test_a_port_on_no_host_concerns_no_host():
    nowhere = evolve(samples.WEB_HERE, binding=evolve(samples.WEB_HERE.binding, host=""))
    assert reachable((nowhere, samples.NET), samples.L2_HERE) == {}


def test_population_shows_every_bound_port_of_the_hosts_networks():
    state = (*samples.BACKGROUND, samples.WEB_HERE)
    assert ref(samples.NEIGHBOUR) not in reachable(state, samples.L2_HERE)
    assert ref(samples.NEIGHBOUR) in reachable(state, samples.POPULATED_HERE)
    assert ref(samples.OTHER_HOST_PORT) not in reachable(state, samples.POPULATED_HERE)


def test_a_trunk_concerns_no_agent_since_its_ports_say_that_they_are_in_it():
    trunk = Trunk(
        id=samples.WEB_HERE.id,
        port_id=samples.WEB_HERE.id,
        sub_ports=(SubPort(port_id=samples.NEIGHBOUR.id, segmentation_id=7),),
    )
    found = reachable((samples.WEB_HERE, samples.NEIGHBOUR, trunk), samples.L2_HERE)
    assert {key.kind for key in found} == {Kind.PORT}
    assert ref(samples.NEIGHBOUR) not in found


@pytest.mark.spec("RPC-02", "RPC-08")
def test_a_distributed_router_concerns_every_host_with_an_instance_on_its_subnets():
    interface = evolve(
        samples.ROUTER_PORT,
        device_owner=DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value,
        binding=samples.port(0, "").binding,
    )
    state = (*samples.BACKGROUND, interface, samples.WEB_HERE)
    for host in (samples.HERE, samples.THERE):
        found = reachable(state, Subscription(host, {Service.L3}))
        assert ref(samples.ROUTER) in found
        assert ref(samples.WEB_HERE) not in found  # its neighbours resolve themselves
    assert reachable(state, Subscription("elsewhere", {Service.L3})) == {}
    assert ref(interface) in reachable(state, samples.L2_HERE)  # the switch answers for it


@pytest.mark.spec("DHCP-81")
def test_the_distributed_dhcp_port_comes_with_its_network():
    server = evolve(
        samples.port(8, ""),
        device_owner=DeviceOwner.DHCP.value,
        device_id=DISTRIBUTED_DHCP_DEVICE,
    )
    state = (*samples.BACKGROUND, server, samples.WEB_HERE)
    assert ref(server) in reachable(state, samples.L2_HERE)
    assert ref(server) not in reachable(state, Subscription("elsewhere", {Service.L2}))
    of_an_agent = evolve(server, device_id="dhcp-of-a-host")
    state = (*samples.BACKGROUND, of_an_agent, samples.WEB_HERE)
    assert ref(server) not in reachable(state, samples.L2_HERE)


def test_a_plain_router_concerns_only_the_host_it_is_assigned_to():
    state = (*samples.BACKGROUND, samples.ROUTER_PORT, samples.WEB_HERE)
    assert reachable(state, samples.L3_HERE) == {}
    assert ref(samples.ROUTER) in reachable((*state, samples.ROUTER_ASSIGNMENT), samples.L3_HERE)


def test_router_interface_without_a_router_is_an_ordinary_port():
    interface = evolve(samples.ROUTER_PORT, device_id="")
    assert ref(interface) in reachable((interface,), samples.L2_HERE)


def test_tunnel_ends_concern_every_l2_agent_and_no_other():
    state = (samples.AGENT_THERE,)
    assert reachable(state, samples.L2_HERE).keys() == {ref(samples.AGENT_THERE)}
    assert reachable(state, samples.L3_HERE) == {}


def test_there_are_no_cycles():
    # The graph counts paths: the members of a cycle would never be released.
    out = {}
    for item in universe():
        for source, node in edges(item):
            out.setdefault(source, set()).add(node)
    done: set[object] = set()

    def visit(node, path):
        assert node not in path, f"a cycle through {node}"
        if node not in done:
            for onward in out.get(node, ()):
                visit(onward, {*path, node})
            done.add(node)

    for source in out:
        visit(source, frozenset())


@pytest.mark.slow
def test_the_graph_reaches_what_the_rules_say_whatever_comes_and_goes():
    chance, graph, state = random.Random(3), ReachabilityIndex(), {}
    interest = Subscription("a", set(Service))
    for _ in range(2000):
        item = chance.choice(universe())
        old = state.pop(key(item), None)
        before = frozenset() if old is None else edges(old)
        if chance.random() < 0.6:
            state[key(item)] = item
            graph.change(before - edges(item), edges(item) - before)
        else:
            graph.change(before, ())
    reached = set().union(*(graph.reached(root) for root in roots(interest)))
    assert {k for k in reached if k in state} == reachable(state.values(), interest).keys()
    for item in list(state.values()):
        graph.change(edges(item), ())
    assert not graph._out
    assert not graph._ways
    assert not any(graph._reached.values())


def test_change_returns_flipped_nodes_and_their_successors():
    graph = ReachabilityIndex()
    root, home = AgentRoot(Service.L2, "a"), ResourceRole(ref(samples.WEB_HERE), Role.HOME)
    network = ResourceRole(ref(samples.NET), Role.SEEN)
    assert graph.change((), [(home, network)]) == {}
    assert graph.change((), [(root, home)]) == {root: {home.ref, network.ref}}
    assert graph.change([(root, home)], ()) == {root: {home.ref, network.ref}}


@pytest.mark.spec("RPC-08")
def test_an_instance_costs_each_service_of_its_host_one_edge_for_each_subnet():
    more = edges(samples.port(8, samples.THERE))
    assert {source.host for source, _ in more if isinstance(source, AgentRoot)} == {samples.THERE}
    subnets = [(source, node.role) for source, node in more if node.ref == ref(samples.SUBNET)]
    assert sorted((source.service, role) for source, role in subnets) == sorted(INSTANCE_ROLES)


@pytest.mark.spec("L3-67", "RPC-08")
def test_a_prepared_port_leads_where_a_bound_one_leads():
    bound = samples.WEB_HERE
    ahead = evolve(bound, binding=Binding(host=samples.THERE, prepared_hosts={samples.HERE}))
    for services in ({Service.L2}, {Service.L2, Service.POPULATION}, {Service.L3}):
        here = Subscription(samples.HERE, services)
        found = reachable((*samples.BACKGROUND, ahead), here).keys()
        assert found == reachable((*samples.BACKGROUND, bound), here).keys()
    assert Role.PREPARED not in REPORTED


def test_an_assignment_is_its_own_key():
    one = Assignment(Service.DHCP, "a", ref(samples.NET))
    assert edges(one) == {
        (AgentRoot(Service.DHCP, "a"), ResourceRole(ref(samples.NET), Role.SERVED))
    }
    router, root = ref(samples.ROUTER), AgentRoot(Service.L3, "a")
    assert edges(Assignment(Service.L3, "a", router)) == {
        (root, ResourceRole(router, Role.HOME)),
        (root, ResourceRole(router, Role.ASSIGNED)),
    }
