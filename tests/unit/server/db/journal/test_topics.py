"""A change is noted where those whom it concerns will look."""

from __future__ import annotations

import ipaddress
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model import (
    AddressGroup,
    Agent,
    Binding,
    Direction,
    FixedIp,
    FloatingIp,
    ForwardedProtocol,
    JsonDocument,
    Mac,
    Network,
    NetworkType,
    Port,
    PortForwarding,
    PortRange,
    Provider,
    QosPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Segment,
    Subnet,
    SubPort,
    Trunk,
)
from netfw.model.resource import Kind, Ref, ref
from netfw.server.db.journal.topics import readers, topic, topic_links, topics
from netfw.state.dependencies import (
    DELIVERED,
    Assignment,
    Item,
    ResourceRole,
    Role,
    Source,
    edges,
    reachable,
    roots,
)


def uid(number: int) -> UUID:
    return UUID(int=number)


def port(number: int, host: str = "", groups: tuple[int, ...] = (), **other: object) -> Port:
    return Port(
        id=uid(number),
        network_id=uid(1),
        mac=Mac(f"fa:16:3e:00:00:{number:02x}"),
        fixed_ips=(FixedIp(subnet_id=uid(2), address=ipaddress.ip_address(f"10.0.0.{number}")),),
        security_groups=frozenset(map(uid, groups)),
        binding=Binding(host=host),
        **other,
    )


AT_HOST = FloatingIp(
    id=uid(37),
    network_id=uid(1),
    address="192.0.2.4",
    port_id=uid(23),
    router_id=uid(31),
    host="h1",
)
PREPARED = evolve(port(26, "h1", (3,)), binding=Binding(host="h1", prepared_hosts={"h3"}))
VXLAN = Provider(network_type=NetworkType.VXLAN, segmentation_id=1)
SITE: tuple[Item, ...] = (
    Network(id=uid(1), qos_policy_id=uid(40)),
    Segment(id=uid(9), network_id=uid(1), provider=VXLAN),
    Subnet(id=uid(2), network_id=uid(1), cidr="10.0.0.0/24"),
    SecurityGroup(id=uid(3)),
    SecurityGroup(id=uid(4)),
    SecurityGroupRule(
        id=uid(5), security_group_id=uid(3), direction=Direction.INGRESS, remote_group_id=uid(4)
    ),
    SecurityGroupRule(
        id=uid(6),
        security_group_id=uid(3),
        direction=Direction.INGRESS,
        remote_address_group_id=uid(7),
    ),
    AddressGroup(id=uid(7)),
    QosPolicy(id=uid(40)),
    port(20, "h1", (3,), qos_policy_id=uid(40)),
    port(21, "h2", (4,)),
    port(22, "", (4,)),
    port(23, "h1"),
    port(24, "h2", device_owner="network:router_interface", device_id=str(uid(30))),
    port(25, "h2", device_owner="network:router_interface_distributed", device_id=str(uid(31))),
    PREPARED,
    port(27, "h3", device_owner="network:floatingip_agent_gateway", device_id="fg"),
    AT_HOST,
    Trunk(
        id=uid(8),
        port_id=uid(20),
        sub_ports=(SubPort(port_id=uid(22), segmentation_id=5),),
    ),
    Router(id=uid(30)),
    Router(id=uid(31), distributed=True),
    FloatingIp(
        id=uid(33), network_id=uid(1), address="192.0.2.1", port_id=uid(21), router_id=uid(30)
    ),
    FloatingIp(id=uid(35), network_id=uid(1), address="192.0.2.3", router_id=uid(30)),
    PortForwarding(
        id=uid(36),
        floating_ip_id=uid(35),
        protocol=ForwardedProtocol.UDP,
        external_ports=PortRange.single(53),
        internal_ports=PortRange.single(53),
        internal_port_id=uid(21),
        internal_address="10.0.0.21",
    ),
    Agent(
        id=uid(34),
        agent_type="L2",
        binary="x",
        host="h2",
        configurations=JsonDocument({"tunneling_ip": "192.0.2.2"}),
    ),
    Assignment(Service.DHCP, "h3", Ref(Kind.NETWORK, uid(1))),
    Assignment(Service.L3, "h3", Ref(Kind.ROUTER, uid(30))),
)


def followed(interest: Subscription) -> set[str]:
    """Return the topics that *interest* leads to."""
    out: dict[Source, set[ResourceRole]] = {}
    for item in SITE:
        for source, node in edges(item):
            out.setdefault(source, set()).add(node)
    found: set[Source] = set(roots(interest))
    queue = list(found)
    while queue:
        new = out.get(queue.pop(), set()) - found
        found |= new
        queue += new
    return set(map(topic, found))


@pytest.mark.spec("RPC-02", "RPC-07")
@pytest.mark.parametrize("service", Service)
@pytest.mark.parametrize("host", ["h1", "h2", "h3"])
def test_each_reader_of_a_resource_follows_one_of_its_topics(host: str, service: Service) -> None:
    interest = Subscription(host, {service})
    mine = followed(interest)
    for resource in reachable(SITE, interest).values():
        assert topics(resource) & mine, f"{ref(resource)} would not be noticed"
    assert readers(interest) <= mine


def test_a_resource_that_others_refer_to_is_a_topic_of_its_own_as_what_they_mean_by_it() -> None:
    resources = {ref(item): item for item in SITE if not isinstance(item, Assignment)}
    for item in SITE:
        for _, node in edges(item):
            foreign = isinstance(item, Assignment) or node.ref != ref(item)
            if foreign and node.role in DELIVERED and node.ref in resources:
                assert topic(node) in topics(resources[node.ref]), node


def test_a_change_is_noted_a_few_times_however_many_hosts_it_concerns() -> None:
    assert topics(port(20, "h1", (3,))) == {
        f"seen:port:{uid(20)}",
        "l2@h1",
        f"members:security_group:{uid(3)}",
        f"served:network:{uid(1)}",
        f"peers:network:{uid(1)}",
    }
    assert topics(SITE[5]) == {f"seen:security_group:{uid(3)}"}


def test_the_role_of_a_router_port_is_in_no_stored_topic() -> None:
    links = [topic_links(item) for item in SITE]
    names = {name for link in links for name in link.topics}
    names |= {name for link in links for edge in link.edges for name in edge[1:]}
    assert any(name.startswith(f"{Role.HOME}:router:") for name in names)
    assert not any(name.startswith(f"{Role.ROUTER_PORT}:") for name in names)


def test_a_floating_ip_is_followed_only_for_the_ports_that_it_forwards() -> None:
    links = {item.id: topic_links(item) for item in SITE if isinstance(item, FloatingIp)}
    nodes = {id: {edge.node for edge in link.edges} for id, link in links.items()}
    assert nodes[uid(33)] == {f"seen:port:{uid(21)}"}
    assert nodes[uid(35)] == {f"forwarding:floatingip:{uid(35)}"}


@pytest.mark.spec("RPC-08")
def test_a_floating_ip_with_a_host_is_noted_for_it_and_for_hosts_that_prepare() -> None:
    links = topic_links(AT_HOST)
    prepared = f"floating:port:{uid(23)}"
    assert links.topics == {"l3@h1", prepared}
    assert {(edge.source, edge.node) for edge in links.edges} == {
        ("l3@h1", f"seen:network:{uid(1)}"),
        ("l3@h1", f"seen:port:{uid(23)}"),
        (prepared, f"seen:network:{uid(1)}"),
    }


@pytest.mark.spec("L3-67", "RPC-08")
def test_a_port_is_noted_for_the_host_that_prepares_for_it() -> None:
    assert "l2@h3" in topics(PREPARED)
    ahead = {edge.node for edge in topic_links(PREPARED).edges if edge.source.endswith("@h3")}
    here = {edge.node for edge in topic_links(PREPARED).edges if edge.source.endswith("@h1")}
    assert ahead - here == {f"floating:port:{PREPARED.id}"}
    assert here <= ahead
    assert f"seen:security_group:{uid(3)}" in ahead
