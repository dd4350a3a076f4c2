"""What files say becomes resources; what is wrong with them is reported all at once."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TypeVar
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
from netfw.model.trunk import Trunk
from netfw.state.dependencies import Assignment
from netfw.state.file.file_reader import Contents
from netfw.state.file.load import TopologyLoader
from netfw.state.file.name_resolution import id_of
from netfw.state.file.topology import Topology

T = TypeVar("T")

BLUE = """
networks:
- {name: blue, network_type: vxlan, segmentation_id: 7}
subnets:
- {name: blue-v4, network: blue, cidr: 10.0.0.0/24}
- {name: blue-v6, network: blue, cidr: "2001:db8::/64", gateway_ip: null}
"""


def topology(*texts: str) -> Topology:
    files = {f"{number}.yaml": text.encode() for number, text in enumerate(texts)}
    return TopologyLoader().topology(Contents(files))


def good(*texts: str) -> Topology:
    found = topology(*texts)
    assert found.faults == ()
    return found


def the(kind: type[T], found: Topology) -> T:
    (item,) = (item for item in found.items if isinstance(item, kind))
    return item


def all_of(kind: type[T], found: Topology) -> list[T]:
    return [item for item in found.items if isinstance(item, kind)]


def faults_of(*texts: str) -> list[str]:
    return [str(fault) for fault in topology(*texts).faults]


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
    (fault,) = faults_of(
        "networks: [{name: n, network_type: local}]\n"
        "segments: [{network: n, network_type: vxlan, segmentation_id: 7}]"
    )
    assert fault == "0.yaml:1: networks[0]: contradicts the segments that are its own"


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


@pytest.mark.spec("DRV-21")
def test_all_faults_of_all_files_are_reported_with_file_line_and_path() -> None:
    first = """\
networks:
- name: blue
  network_type: vxlan
  segmentation_id: 99999999
- name: [x]
subnets:
- {name: s, network: bleu, cidr: 10.0.0.0/24}
"""
    second = """\
ports:
- name: p
  network: blue
  fixed_ips:
  - {subnet: s, ip_address: 10.0.0.300}
  hots: h1
- {name: q, network: blue, host: "a b", security_groups: [web]}
prots: []
hosts:
  h1: {local_ip: nonsense, tunnel_type: [vxlan]}
"""
    assert sorted(faults_of(first, second)) == [
        "0.yaml:4: networks[0].segmentation_id: 99999999 is outside 1 to 16777215 of vxlan",
        "0.yaml:5: networks[1].name: not text: a list",
        "0.yaml:7: subnets[0].network: there is no network 'bleu' in the file, "
        "did you mean 'blue'?",
        "1.yaml:10: hosts.h1.local_ip: not an IP address: 'nonsense'",
        "1.yaml:10: hosts.h1.tunnel_type: unknown attribute, did you mean 'tunnel_types'?",
        "1.yaml:5: ports[0].fixed_ips[0].ip_address: not an IP address: '10.0.0.300'",
        "1.yaml:6: ports[0].hots: unknown attribute",
        "1.yaml:7: ports[1].host: not a host name: 'a b' (A-Z a-z 0-9 _ . : @ -)",
        "1.yaml:7: ports[1].security_groups[0]: there is no security group 'web' in the file",
        "1.yaml:8: prots: there is no such section, did you mean 'ports'?",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "is not an object: a list"),
        ("null", "is not an object: null"),
        ("ports:\n", "ports: is empty; write [] for none"),
        ("ports: {a: 1}", "ports: not a list: an object"),
        ("ports: [1]", "ports[0]: not an object: 1"),
        ("hosts: [a]", "hosts: not an object: a list"),
        ("hosts: {a b: {}}", "hosts.'a b': not a host name"),
        ("hosts: {a: {tunnel_types: [vlan]}}", "hosts.a.tunnel_types[0]: vlan is no tunnel"),
        ("hosts: {a: {bridge_mappings: {p: a/b}}}", "hosts.a.bridge_mappings.'p': not a device"),
        ("hosts: {a: null}", "hosts.a: not an object: null"),
        ("project_id: 1", "project_id: not text: 1; put it in quotes"),
        ("networks: [{name: a}, {name: a}]", "networks[1]: is the same as networks[0]"),
        ("networks: [{id: 7}]", "networks[0].id: neither an id nor a name: 7"),
        ("networks: [{mtu: 7}]", "networks[0]: has neither a name nor an id"),
        ("networks: [{name: a, mtu: 7}]", "networks[0].mtu: 7 is outside 68 to 65535"),
        ("security_groups: [{name: a, rules: 1}]", "security_groups[0].rules: not a list: 1"),
        (
            "security_groups: [{name: a, rules: [{direction: up}]}]",
            "security_groups[0].rules[0].direction: 'up' is none of ingress, egress",
        ),
        (
            "security_groups: [{name: a, rules: [{direction: egress}, {direction: egress}]}]",
            "security_groups[0].rules[1]: is the same as security_groups[0].rules[0]",
        ),
        ("assignments: [{service: l2, host: a}]", "assignments[0].service: l2 is not assigned"),
        ("assignments: [{service: l3, host: a}]", "assignments[0].router_id: is required"),
        (
            "networks: [{name: n}]\nports: [{name: p, network: n, fixed_ips: [10.0.0.1]}]",
            "ports[0].fixed_ips[0]: no subnet of the network contains 10.0.0.1; it has none",
        ),
        (
            "networks: [{name: n}]\nports: [{name: p, network: n, fixed_ips: [{}]}]",
            "ports[0].fixed_ips[0]: has no address",
        ),
        (
            "networks: [{id: 00000000000000000000000000000001, name: n},"
            " {id: 00000000000000000000000000000002, name: n}]\nsubnets: "
            "[{name: s, network: n, cidr: 10.0.0.0/8}]",
            "subnets[0].network: 2 entries are called 'n'; give the id",
        ),
        (
            "ports: [{name: p, network: n, network_id: n}]\nnetworks: [{name: n}]",
            "ports[0].network: unknown attribute",
        ),
    ],
)
def test_a_fault_says_what_is_wrong(text: str, fault: str) -> None:
    assert any(fault in each for each in faults_of(text)), faults_of(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("networks: [{name: n, description: 1400}]", "networks[0].description: not text: 1400"),
        ("networks: [{name: n, description: true}]", "networks[0].description: not text: True"),
        ("networks: [{name: n, tags: [-1]}]", "networks[0].tags[0]: not text: -1"),
        ("networks: [{name: 7}]", "networks[0].name: not text: 7"),
        ("networks: [{id: 7}]", "networks[0].id: neither an id nor a name: 7"),
        ("segments: [{network: 7}]", "segments[0].network: not an id: 7"),
        ("hosts: {a: {bridge_mappings: {p: 1}}}", "hosts.a.bridge_mappings.'p': not text: 1"),
    ],
)
def test_a_number_where_text_is_wanted_needs_quotes(text: str, fault: str) -> None:
    assert f"0.yaml:1: {fault}; put it in quotes" in faults_of(text)


@pytest.mark.parametrize("value", ["null", "[a]", "{}"])
def test_quotes_are_no_advice_for_what_no_text_can_be(value: str) -> None:
    (fault,) = faults_of(f"networks: [{{name: n, description: {value}}}]")
    assert "not text" in fault
    assert "quotes" not in fault


def test_one_thing_in_two_files_is_refused() -> None:
    assert faults_of("networks: [{name: a}]", "networks: [{name: a}]") == [
        "1.yaml:1: networks[0]: is the same as 0.yaml: networks[0]"
    ]
    assert faults_of("hosts: {a: {}}", "hosts: {a: {}}") == ["1.yaml:1: hosts.a: is in 0.yaml too"]


def test_files_refer_to_each_other() -> None:
    assert good("subnets: [{name: s, network: blue, cidr: 10.9.0.0/24}]", BLUE).warnings == ()


def test_many_faults_are_truncated_and_counted() -> None:
    found = faults_of("ports: [" + ", ".join(["1"] * 5000) + "]")
    assert len(found) == 101
    assert found[-1] == "0.yaml: and 4900 faults more"


def test_a_port_forwarding_of_an_associated_floating_ip_causes_a_warning() -> None:
    found = good(
        """
        networks: [{name: n}, {name: out, router:external: true}]
        ports: [{name: p, network: n}]
        routers: [{name: r}]
        floatingips:
        - {id: f, floating_network: out, floating_ip_address: 192.0.2.8, port: p, router: r,
           fixed_ip_address: 10.0.0.1}
        port_forwardings:
        - {floatingip: f, protocol: tcp, internal_port_id: p, internal_port: 80,
           external_port: 80, internal_ip_address: 10.0.0.1}
        """
    )
    assert [str(each).partition(": ")[2] for each in found.warnings] == [
        "port_forwardings[0].floatingip: 192.0.2.8 stands for a port, so that it forwards no "
        "single ports; remove its port_id",
    ]


def test_likely_mistakes_cause_warnings() -> None:
    id = "00000000-0000-0000-0000-00000000000a"
    found = good(
        BLUE,
        f"""
        hosts: {{host1: {{}}}}
        networks: [{{name: red}}]
        ports:
        - {{name: a, network: blue, host: host1, fixed_ips: [10.0.0.5], mac_address: &mac
           "fa:16:3e:00:00:01"}}
        - {{name: b, network: blue, host: hots1, fixed_ips: [10.0.0.5], mac_address: *mac}}
        - {{name: c, network: red, fixed_ips: [{{subnet: blue-v4, ip_address: 10.9.0.5}}]}}
        - {{name: d, network: {id}}}
        assignments:
        - {{service: dhcp, host: host1, network: blue}}
        - {{service: dhcp, host: host9, network: red}}
        """,
    )
    assert [str(each).partition(": ")[2] for each in found.warnings] == [
        f"ports[3].network: there is no network {id} in the file",
        "ports[1].host: hots1 is not among the hosts, did you mean 'host1'?",
        "assignments[1].host: host9 is not among the hosts, did you mean 'host1'?",
        "ports[2].fixed_ips[0]: its subnet is of another network",
        "ports[2].fixed_ips[0]: 10.9.0.5 is not within 10.0.0.0/24",
        "ports[1].mac_address: fa:16:3e:00:00:01 is that of ports[0] too",
        "ports[1].fixed_ips[0]: 10.0.0.5 is that of ports[0] too",
    ]


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
