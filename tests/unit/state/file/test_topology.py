"""Topology files become resources."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from uuid import UUID

import pytest

from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Kind, Ref
from netfw.model.security_group import SecurityGroupRule
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import Trunk, TrunkMembership
from netfw.state.dependencies import Assignment
from netfw.state.file.file_reader import Contents
from netfw.state.file.load import TopologyLoader
from netfw.state.file.name_resolution import id_of
from tests.unit.state.file.topology_samples import BLUE, all_of, errors_of, good, the


def test_names_become_ids_that_never_change() -> None:
    network = the(Network, good(BLUE))
    assert network.id == id_of(Kind.NETWORK, "blue") == UUID("13bd67b6-f51b-5da7-b5d3-0b489be088c9")
    assert network.name == "blue"


def test_an_id_may_be_given_as_uuid_or_as_a_name_and_is_found_by_either() -> None:
    id = "00000000-0000-0000-0000-00000000000a"
    found = good(
        f"""
        networks: [{{id: {id}, name: n}}]
        qos_policies: [{{id: slow}}]
        ports:
        - {{name: a, network: n, qos_policy: slow}}
        - {{name: b, network_id: {id}, qos_policy_id: slow}}
        """
    )
    policy = the(QosPolicy, found)
    assert policy.name == "slow"
    assert {(port.network_id, port.qos_policy_id) for port in all_of(Port, found)} == {
        (UUID(id), policy.id)
    }


def test_a_network_and_its_segments_and_subnets_say_the_same() -> None:
    found = good(BLUE)
    network, segment = the(Network, found), the(Segment, found)
    provider = Provider(network_type=NetworkType.VXLAN, segmentation_id=7)
    assert network.segments == (provider,)
    assert (segment.network_id, segment.provider) == (network.id, provider)
    assert network.subnet_ids == {subnet.id for subnet in all_of(Subnet, found)}
    stated = good(
        """
        networks: [{name: n}]
        segments: [{network: n, network_type: vxlan, segmentation_id: 7}]
        """
    )
    assert the(Network, stated).segments == (provider,)


def test_a_network_that_contradicts_its_segments_is_refused() -> None:
    (error,) = errors_of(
        "networks: [{name: n, network_type: local}]\n"
        "segments: [{network: n, network_type: vxlan, segmentation_id: 7}]"
    )
    assert error == "0.yaml:1: networks[0]: contradicts the segments that are its own"


def test_a_tunnel_leaves_less_room_over_ipv6_too() -> None:
    assert the(Network, good(BLUE)).mtu == 1450
    assert the(Network, good(BLUE, 'hosts: {a: {local_ip: "2001:db8::1"}}')).mtu == 1430
    assert the(Network, good("networks: [{name: n, network_type: vxlan, mtu: 9000}]")).mtu == 9000


def test_the_gateway_is_the_first_address_unless_it_is_said() -> None:
    four, six = all_of(Subnet, good(BLUE))
    assert (four.gateway, six.gateway) == (ip_address("10.0.0.1"), None)


def test_an_address_finds_its_subnet() -> None:
    found = good(
        BLUE,
        'ports: [{name: p, network: blue, fixed_ips: [10.0.0.9, {ip_address: "2001:db8::9"}]}]',
    )
    four, six = all_of(Subnet, found)
    assert the(Port, found).fixed_ips == (
        FixedIp(subnet_id=four.id, address=ip_address("10.0.0.9")),
        FixedIp(subnet_id=six.id, address=ip_address("2001:db8::9")),
    )


def test_a_port_has_a_mac_of_its_own_and_what_its_network_says() -> None:
    found = good(
        """
        qos_policies:
        - {name: slow, rules: [{type: bandwidth_limit, max_kbps: 100, direction: egress}]}
        networks: [{name: n, port_security_enabled: false, qos_policy: slow}]
        ports: [{name: a, network: n, host: h}, {name: b, network: n}]
        """
    )
    a, b = all_of(Port, found)
    assert a.mac != b.mac
    assert (a.binding.host, a.binding.vif_type) == ("h", "ovs")
    assert (b.binding.host, b.binding.vif_type) == ("", "unbound")
    assert not a.port_security
    assert a.qos_network_policy_id == the(QosPolicy, found).id
    assert (
        a.mac == all_of(Port, good("ports: [{name: a, network: n}]\nnetworks: [{name: n}]"))[0].mac
    )


def test_rules_stand_in_their_group_or_alone() -> None:
    found = good(
        """
        project_id: demo
        address_groups: [{name: office, addresses: [192.0.2.0/24]}]
        security_groups:
        - name: web
          rules:
          - {direction: ingress, protocol: tcp, port_range_min: 80, port_range_max: 80}
          - {direction: ingress, remote_group: web}
        security_group_rules:
        - {security_group: web, direction: ingress, remote_address_group: office}
        """
    )
    rules = all_of(SecurityGroupRule, found)
    group = id_of(Kind.SECURITY_GROUP, "web")
    assert {rule.security_group_id for rule in rules} == {group}
    assert {rule.project_id for rule in rules} == {"demo"}
    assert [rule.remote_group_id for rule in rules] == [None, group, None]
    assert rules[2].remote_address_group_id == id_of(Kind.ADDRESS_GROUP, "office")


def test_rules_keep_their_ids_when_others_come_and_go() -> None:
    one = "security_groups: [{name: g, rules: [{direction: egress}]}]"
    two = "security_groups: [{name: g, rules: [{direction: ingress}, {direction: egress}]}]"
    assert the(SecurityGroupRule, good(one)) in all_of(SecurityGroupRule, good(two))


def test_a_host_becomes_an_agent_that_others_reach() -> None:
    found = good(
        BLUE, "hosts: {h1: {local_ip: 192.0.2.1, bridge_mappings: {p: br-p}}, h2: {description: x}}"
    )
    one, two = all_of(Agent, found)
    assert one.host == "h1"
    assert one.configurations.content() == {
        "tunneling_ip": "192.0.2.1",
        "tunnel_types": ["vxlan"],
        "bridge_mappings": {"p": "br-p"},
    }
    assert "tunneling_ip" not in two.configurations.content()


def test_networks_and_routers_are_assigned_to_hosts() -> None:
    found = good(
        """
        networks: [{name: n}]
        routers: [{name: r}]
        assignments:
        - {service: dhcp, host: h, network: n}
        - {service: l3, host: h, router: r}
        """
    )
    assert all_of(Assignment, found) == [
        Assignment(Service.DHCP, "h", Ref(Kind.NETWORK, id_of(Kind.NETWORK, "n"))),
        Assignment(Service.L3, "h", Ref(Kind.ROUTER, id_of(Kind.ROUTER, "r"))),
    ]


def test_names_are_found_wherever_entries_refer_to_others() -> None:
    found = good(
        """
        networks: [{name: n}, {name: out, router:external: true}]
        subnets: [{name: s, network: out, cidr: 192.0.2.0/24}]
        ports: [{name: p, network: n}, {name: q, network: n}]
        trunks: [{name: t, port: p, sub_ports: [{port: q, segmentation_id: 5}]}]
        routers:
        - name: r
          external_gateway_info:
            network: out
            external_fixed_ips: [{subnet: s, ip_address: 192.0.2.9}]
        floatingips:
        - {id: f, floating_network: out, floating_ip_address: 192.0.2.8, port: p, router: r,
           fixed_ip_address: 10.0.0.1}
        - {id: g, floating_network: out, floating_ip_address: 192.0.2.7, router: r}
        port_forwardings:
        - {floatingip: g, protocol: tcp, internal_port_id: p, internal_port: 80,
           external_port: 80, internal_ip_address: 10.0.0.1}
        """
    )
    assert the(Trunk, found).sub_ports[0].port_id == id_of(Kind.PORT, "q")
    assert not [each for each in found.warnings if "there is no" in each.problem]


@pytest.mark.spec("L2-81")
def test_the_ports_of_a_trunk_say_that_they_are_in_it_and_are_where_their_parent_is() -> None:
    text = """
        networks: [{name: n}]
        ports: [{name: p, network: n, host: h1}, {name: q, network: n}, {name: r, network: n}]
        trunks: [{name: t, port: p, sub_ports: [{port: q, segmentation_id: 5}]}]
        """
    found = good(text)
    ports = {port.name: port for port in all_of(Port, found)}
    trunk, parent = the(Trunk, found), ports["p"]
    assert parent.trunk == TrunkMembership(trunk_id=trunk.id)
    assert ports["q"].trunk == TrunkMembership(
        trunk_id=trunk.id, parent_id=parent.id, segmentation_id=5
    )
    assert (ports["q"].binding.host, ports["q"].device_owner) == ("h1", "trunk:subport")
    assert ports["r"].trunk is None
    elsewhere = text.replace("{name: q, network: n}", "{name: q, network: n, host: h2}")
    assert "another host" in str(errors_of(elsewhere))
    second = "{name: u, port: r, sub_ports: [{port: q, segmentation_id: 6}]}"
    twice = text.replace("segmentation_id: 5}]}]", f"segmentation_id: 5}}]}}, {second}]")
    assert "another trunk" in str(errors_of(twice))


def test_reading_again_reads_only_what_changed() -> None:
    reader = TopologyLoader()
    before = reader.topology(Contents({"a.yaml": BLUE.encode()}))
    after = reader.topology(
        Contents({"a.yaml": BLUE.encode(), "b.yaml": b"networks: [{name: red}]"})
    )
    assert set(before.items) < set(after.items)
    assert {id(item) for item in all_of(Subnet, before)} == {
        id(item) for item in all_of(Subnet, after)
    }
    changed = reader.topology(Contents({"a.yaml": BLUE.replace("10.0.0.", "10.7.0.").encode()}))
    assert ip_network("10.7.0.0/24") in {subnet.cidr for subnet in all_of(Subnet, changed)}
