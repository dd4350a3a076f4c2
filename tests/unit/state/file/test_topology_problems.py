"""What is wrong in topology files, and what is suspicious."""

from __future__ import annotations

import pytest

from tests.unit.state.file.topology_samples import BLUE, errors_of, good


@pytest.mark.spec("DRV-21")
def test_all_errors_of_all_files_are_reported_with_file_line_and_path() -> None:
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
    assert sorted(errors_of(first, second)) == [
        "0.yaml:4: networks[0].segmentation_id: 99999999 is outside 1 to 16777215 of vxlan",
        "0.yaml:5: networks[1].name: not text: a list",
        "0.yaml:7: subnets[0].network: there is no network 'bleu' in the file, "
        "did you mean 'blue'?",
        "1.yaml:10: hosts.h1.local_ip: not an IP address: 'nonsense'",
        "1.yaml:10: hosts.h1.tunnel_type: unknown attribute, did you mean 'tunnel_types'?",
        "1.yaml:5: ports[0].fixed_ips[0].ip_address: not an IP address: '10.0.0.300'",
        "1.yaml:6: ports[0].hots: unknown attribute, did you mean 'hosts'?",
        "1.yaml:7: ports[1].host: not a host name: 'a b' (A-Z a-z 0-9 _ . : @ -)",
        "1.yaml:7: ports[1].security_groups[0]: there is no security group 'web' in the file",
        "1.yaml:8: prots: there is no such section, did you mean 'ports'?",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[]", "is not an object: a list"),
        ("null", "is not an object: null"),
        ("ports:\n", "ports: is empty; write [] for none"),
        ("ports: {a: 1}", "ports: not a list: an object"),
        ("ports: [1]", "ports[0]: not an object: 1"),
        ("hosts: [a]", "hosts: not an object: a list"),
        ("hosts: {a b: {}}", "hosts.'a b': not a host name"),
        ("hosts: {a: {tunnel_types: [vlan]}}", "hosts.a.tunnel_types[0]: vlan is no tunnel"),
        (
            "hosts: {a: {tunnel_types: [vxlam]}}",
            "hosts.a.tunnel_types[0]: 'vxlam' is none of local, flat, vlan, gre, vxlan, geneve, "
            "did you mean 'vxlan'?; a type of a vendor is the name of an installed type driver",
        ),
        (
            "networks: [{name: a, network_type: vxlam, segmentation_id: 7}]",
            "networks[0].network_type: 'vxlam' is none of local, flat, vlan, gre, vxlan, geneve, "
            "did you mean 'vxlan'?; a type of a vendor is the name of an installed type driver",
        ),
        ("networks: [{name: a, network_type: V X}]", "networks[0].network_type: 'V X' is no name"),
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
            "ports[0].network: is the short name of an attribute that is there, too",
        ),
    ],
)
def test_an_error_says_what_is_wrong(text: str, error: str) -> None:
    assert any(error in each for each in errors_of(text)), errors_of(text)


@pytest.mark.parametrize(
    ("text", "error"),
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
def test_a_number_where_text_is_wanted_needs_quotes(text: str, error: str) -> None:
    assert f"0.yaml:1: {error}; put it in quotes" in errors_of(text)


@pytest.mark.parametrize("value", ["null", "[a]", "{}"])
def test_quotes_are_no_advice_for_what_no_text_can_be(value: str) -> None:
    (error,) = errors_of(f"networks: [{{name: n, description: {value}}}]")
    assert "not text" in error
    assert "quotes" not in error


def test_one_thing_in_two_files_is_refused() -> None:
    assert errors_of("networks: [{name: a}]", "networks: [{name: a}]") == [
        "1.yaml:1: networks[0]: is the same as 0.yaml: networks[0]"
    ]
    assert errors_of("hosts: {a: {}}", "hosts: {a: {}}") == ["1.yaml:1: hosts.a: is in 0.yaml too"]


def test_files_refer_to_each_other() -> None:
    assert good("subnets: [{name: s, network: blue, cidr: 10.9.0.0/24}]", BLUE).warnings == ()


def test_many_errors_are_truncated_and_counted() -> None:
    found = errors_of("ports: [" + ", ".join(["1"] * 5000) + "]")
    assert len(found) == 101
    assert found[-1] == "0.yaml: and 4900 more errors"


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
