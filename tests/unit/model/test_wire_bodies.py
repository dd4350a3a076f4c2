"""Bodies of the Networking API, read and written."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import attrs
import pytest

from netfw.errors import InvalidInput
from netfw.model import (
    AddressPair,
    AllocationPool,
    BandwidthLimit,
    Binding,
    DhcpOption,
    Direction,
    DscpMarking,
    Ethertype,
    ExternalGateway,
    FixedIp,
    FloatingIp,
    JsonDocument,
    Kind,
    Network,
    NetworkType,
    Port,
    PortForwarding,
    PortRange,
    Provider,
    QosPolicy,
    Route,
    Router,
    SecurityGroupRule,
    Status,
    Subnet,
    VifDetails,
)
from netfw.model.protocol import TCP
from netfw.model.resource import KINDS
from netfw.model.wire import CODECS, parse, render
from netfw.model.wire.object_codec import ObjectCodec

A, B, C, D = (str(UUID(int=number)) for number in (1, 2, 3, 4))
ID_A, ID_B, ID_C, ID_D = (UUID(text) for text in (A, B, C, D))
MAC = "fa:16:3e:00:00:01"


def faults(kind: Kind, **body: Any) -> dict[str, str]:
    """What is wrong with *body*."""
    with pytest.raises(InvalidInput) as caught:
        parse(kind, body)
    return caught.value.problems


def port_faults(**changes: Any) -> dict[str, str]:
    return faults(Kind.PORT, **{"id": A, "network_id": B, "mac_address": MAC} | changes)


@pytest.mark.spec("DRV-02")
def test_a_port_is_read_by_the_names_of_the_api() -> None:
    body = {
        "id": A,
        "network_id": B,
        "tenant_id": "p1",
        "name": "web",
        "mac_address": "FA-16-3E-00-00-01",
        "admin_state_up": False,
        "status": "ACTIVE",
        "revision_number": 7,
        "fixed_ips": [{"subnet_id": C, "ip_address": "10.0.0.5"}],
        "allowed_address_pairs": [
            {"ip_address": "10.0.0.9"},
            {"ip_address": "10.1.0.0/16", "mac_address": MAC},
        ],
        "extra_dhcp_opts": [{"opt_name": "tag:!ipxe,67", "opt_value": "x", "ip_version": 4}],
        "security_groups": [D],
        "port_security_enabled": True,
        "device_id": "dhcp1-2",
        "device_owner": "network:dhcp",
        "binding:host_id": "compute-1",
        "binding:vif_type": "ovs",
        "binding:vnic_type": "normal",
        "binding:profile": {"pci_slot": "0000:03:00.1"},
        "binding:vif_details": {
            "port_filter": True,
            "bridge_name": "br-int",
            "bound_drivers": {"0": "openvswitch"},
        },
    }
    assert parse(Kind.PORT, body) == Port(
        id=ID_A,
        network_id=ID_B,
        project_id="p1",
        name="web",
        mac=MAC,
        admin_up=False,
        status=Status.ACTIVE,
        revision=7,
        fixed_ips=[FixedIp(subnet_id=ID_C, address="10.0.0.5")],
        allowed_address_pairs=[
            AddressPair(prefix="10.0.0.9/32"),
            AddressPair(prefix="10.1.0.0/16", mac=MAC),
        ],
        dhcp_options=[DhcpOption(name="tag:!ipxe,67", value="x")],
        security_groups=[ID_D],
        device_id="dhcp1-2",
        device_owner="network:dhcp",
        binding=Binding(
            host="compute-1",
            vif_type="ovs",
            profile=JsonDocument({"pci_slot": "0000:03:00.1"}),
            vif_details=VifDetails(
                port_filter=True,
                bridge_name="br-int",
                other=JsonDocument({"bound_drivers": {"0": "openvswitch"}}),
            ),
        ),
    )


def test_a_port_is_written_by_the_names_of_the_api() -> None:
    port = Port(
        id=ID_A,
        network_id=ID_B,
        mac=MAC,
        project_id="p1",
        allowed_address_pairs=[AddressPair(prefix="10.0.0.9"), AddressPair(prefix="::/0")],
    )
    assert render(port) == {
        "id": A,
        "network_id": B,
        "name": "",
        "description": "",
        "project_id": "p1",
        "tenant_id": "p1",
        "revision_number": 0,
        "tags": [],
        "mac_address": MAC,
        "admin_state_up": True,
        "status": "DOWN",
        "fixed_ips": [],
        "allowed_address_pairs": [{"ip_address": "10.0.0.9"}, {"ip_address": "::/0"}],
        "extra_dhcp_opts": [],
        "security_groups": [],
        "port_security_enabled": True,
        "device_id": "",
        "device_owner": "",
        "dns_name": "",
        "dns_domain": "",
        "dns_assignment": [],
        "qos_policy_id": None,
        "qos_network_policy_id": None,
        "ip_allocation": "immediate",
        "propagate_uplink_status": False,
        "binding:host_id": "",
        "binding:vif_type": "unbound",
        "binding:vnic_type": "normal",
        "binding:profile": {},
        "binding:vif_details": {},
    }


def test_every_fault_of_a_body_is_reported_with_its_path() -> None:
    assert faults(
        Kind.PORT,
        id="nonsense",
        mac_addres=MAC,
        admin_state_up="yes",
        fixed_ips=[
            {"subnet_id": C, "ip_address": "10.0.0.5"},
            {"subnet_id": C, "ip_address": "x", "mask": 24},
            7,
            {"ip_address": "10.0.0.6"},
        ],
        allowed_address_pairs={"ip_address": "10.0.0.9"},
        revision_number=True,
        **{
            "binding:host_id": "a b",
            "binding:vnic_type": "normall",
            "binding:profile": {"a": [{"b": "c\n"}]},
            "binding:vif_details": {"vlan": "x", "other_thing": 0.5},
        },
    ) == {
        "id": "not an id: 'nonsense'",
        "revision_number": "not a whole number: True",
        "admin_state_up": "neither true nor false: 'yes'",
        "fixed_ips[1].ip_address": "not an IP address: 'x'",
        "fixed_ips[1].mask": "unknown attribute",
        "fixed_ips[2]": "not an object: 7",
        "fixed_ips[3].subnet_id": "is required",
        "allowed_address_pairs": "not a list: an object",
        "binding:host_id": "not a host name: 'a b' (A-Z a-z 0-9 _ . : @ -)",
        "binding:vnic_type": "'normall' is none of normal, direct, direct-physical, macvtap, "
        "baremetal, virtio-forwarder, smart-nic, vdpa, accelerator-direct, "
        "accelerator-direct-physical, remote-managed, did you mean 'normal'?",
        "binding:profile.a[0].b": "has a control character (U+000A at 1)",
        "binding:vif_details.vlan": "not a whole number: 'x'",
        "binding:vif_details.other_thing": "neither text nor a whole number: a float",
        "network_id": "is required",
        "mac_address": "is required",
        "mac_addres": "unknown attribute, did you mean 'mac_address'?",
    }


def test_contradictions_between_fields_are_reported_by_the_names_of_the_wire() -> None:
    assert faults(
        Kind.SUBNET,
        id=A,
        network_id=B,
        cidr="10.0.0.0/24",
        gateway_ip="2001:db8::1",
        allocation_pools=[{"start": "10.0.1.1", "end": "10.0.1.2"}],
    ) == {
        "gateway_ip": "2001:db8::1 is of another family than 10.0.0.0/24",
        "allocation_pools[0]": "10.0.1.1 to 10.0.1.2 is not within 10.0.0.0/24",
    }
    assert faults(
        Kind.SECURITY_GROUP_RULE,
        id=A,
        security_group_id=B,
        direction="ingress",
        protocol="tcp",
        port_range_min=90,
        port_range_max=80,
        remote_ip_prefix="::/0",
    ).keys() == {"port_range_max", "remote_ip_prefix"}
    assert port_faults(
        allowed_address_pairs=[{"ip_address": "10.0.0.1"}, {"ip_address": "10.0.0.1/32"}]
    ) == {"allowed_address_pairs[1]": "is there twice"}


def test_tenant_and_project_are_one() -> None:
    body = {"id": A, "network_id": B, "mac_address": MAC}
    for name in ("tenant_id", "project_id"):
        assert parse(Kind.PORT, body | {name: "p"}).project_id == "p"  # type: ignore[union-attr]
    assert parse(Kind.PORT, body | {"tenant_id": "p", "project_id": "p"})
    assert port_faults(tenant_id="p", project_id="q") == {"tenant_id": "contradicts project_id"}


def test_a_network_of_one_segment_has_provider_attributes() -> None:
    body = {
        "id": A,
        "provider:network_type": "vlan",
        "provider:physical_network": "physnet1",
        "provider:segmentation_id": "100",
        "router:external": True,
    }
    vlan = Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=100)
    network = parse(Kind.NETWORK, body)
    assert network == Network(id=ID_A, external=True, segments=[vlan])
    written = render(network)
    assert written["provider:segmentation_id"] == 100
    assert "segments" not in written


def test_a_network_of_several_segments_has_a_list_of_them() -> None:
    providers = [
        Provider(network_type=NetworkType.VXLAN, segmentation_id=5),
        Provider(network_type=NetworkType.FLAT, physical_network="p"),
    ]
    written = render(Network(id=ID_A, segments=providers))
    assert written["segments"] == [
        {
            "provider:network_type": "vxlan",
            "provider:physical_network": None,
            "provider:segmentation_id": 5,
        },
        {
            "provider:network_type": "flat",
            "provider:physical_network": "p",
            "provider:segmentation_id": None,
        },
    ]
    assert not any(name.startswith("provider:") for name in written)


def test_faults_of_a_provider_are_named_where_they_stand() -> None:
    assert faults(Kind.NETWORK, id=A, **{"provider:segmentation_id": 5}) == {
        "provider:network_type": "is required"
    }
    assert faults(
        Kind.NETWORK,
        id=A,
        segments=[{"provider:network_type": "vlan", "provider:segmentation_id": 4095}],
    ).keys() == {
        "segments[0].provider:segmentation_id",
        "segments[0].provider:physical_network",
    }


def test_attributes_that_are_all_null_are_not_given() -> None:
    body = {"id": A, "provider:network_type": None, "provider:segmentation_id": None}
    assert parse(Kind.NETWORK, body) == Network(id=ID_A)


def test_unbinding_by_null_leaves_no_host() -> None:
    body = {"id": A, "network_id": B, "mac_address": MAC, "binding:host_id": None}
    read = parse(Kind.PORT, body | {"binding:profile": {}})
    assert isinstance(read, Port)
    assert read.binding == Binding()


def test_the_ip_version_of_a_subnet_follows_from_its_cidr() -> None:
    body = {"id": A, "network_id": B, "cidr": "10.0.0.77/24"}
    assert render(parse(Kind.SUBNET, body))["ip_version"] == 4
    assert faults(Kind.SUBNET, **body, ip_version=6) == {"ip_version": "6, but the rest says 4"}
    assert faults(Kind.SUBNET, **body, ip_version=5) == {"ip_version": "neither 4 nor 6: 5"}


def test_a_subnet_is_read_with_its_pools_and_routes() -> None:
    body = {
        "id": A,
        "network_id": B,
        "cidr": "10.0.0.0/24",
        "gateway_ip": "10.0.0.1",
        "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.254"}],
        "host_routes": [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}],
    }
    assert parse(Kind.SUBNET, body) == Subnet(
        id=ID_A,
        network_id=ID_B,
        cidr="10.0.0.0/24",
        gateway="10.0.0.1",
        allocation_pools=[AllocationPool(start="10.0.0.2", end="10.0.0.254")],
        host_routes=[Route(destination="192.0.2.0/24", nexthop="10.0.0.9")],
    )


def test_a_router_is_read_with_its_gateway() -> None:
    body = {
        "id": A,
        "external_gateway_info": {
            "network_id": B,
            "enable_snat": False,
            "external_fixed_ips": [{"subnet_id": C, "ip_address": "192.0.2.7"}],
        },
    }
    gateway = ExternalGateway(
        network_id=ID_B,
        enable_snat=False,
        fixed_ips=[FixedIp(subnet_id=ID_C, address="192.0.2.7")],
    )
    assert parse(Kind.ROUTER, body) == Router(id=ID_A, gateway=gateway)
    assert parse(Kind.ROUTER, {"id": A, "external_gateway_info": None}) == Router(id=ID_A)
    assert faults(Kind.ROUTER, id=A, external_gateway_info={"network": B}) == {
        "external_gateway_info.network_id": "is required",
        "external_gateway_info.network": "unknown attribute, did you mean 'network_id'?",
    }


def test_a_floating_ip_keeps_its_two_addresses_apart() -> None:
    body = {
        "id": A,
        "floating_network_id": B,
        "floating_ip_address": "192.0.2.7",
        "fixed_ip_address": "10.0.0.5",
        "port_id": C,
    }
    assert parse(Kind.FLOATING_IP, body) == FloatingIp(
        id=ID_A, network_id=ID_B, address="192.0.2.7", fixed_address="10.0.0.5", port_id=ID_C
    )


def test_forwarded_ports_are_read_as_one_port_or_as_a_range() -> None:
    body = {
        "id": A,
        "floatingip_id": B,
        "protocol": "TCP",
        "internal_port_id": C,
        "internal_ip_address": "10.0.0.5",
        "external_port_range": "1000:1009",
        "internal_port": 22,
    }
    read = parse(Kind.PORT_FORWARDING, body)
    assert isinstance(read, PortForwarding)
    assert (read.external_ports, read.internal_ports) == (PortRange(1000, 1009), PortRange(22, 22))
    written = render(read)
    assert "external_port" not in written
    assert (written["internal_port"], written["internal_port_range"]) == (22, "22:22")
    assert faults(Kind.PORT_FORWARDING, **body, internal_port_range="23:23") == {
        "internal_port_range": "contradicts internal_port"
    }
    assert faults(Kind.PORT_FORWARDING, **body | {"external_port_range": "0:70000"}).keys() == {
        "external_port_range"
    }


@pytest.mark.parametrize(
    ("said", "number", "written"),
    [
        ("tcp", 6, "tcp"),
        ("TCP", 6, "tcp"),
        ("6", 6, "tcp"),
        (6, 6, "tcp"),
        ("icmpv6", 58, "ipv6-icmp"),
        (255, 255, "255"),
        ("any", None, None),
        (0, None, None),
        (None, None, None),
    ],
)
def test_a_protocol_is_a_name_or_a_number(said: object, number: int | None, written: str) -> None:
    body = {"id": A, "security_group_id": B, "direction": "ingress", "ethertype": "ipv6"}
    read = parse(Kind.SECURITY_GROUP_RULE, body | {"protocol": said})
    assert read == SecurityGroupRule(
        id=ID_A,
        security_group_id=ID_B,
        direction=Direction.INGRESS,
        ethertype=Ethertype.IPV6,
        protocol=number,
    )
    assert render(read)["protocol"] == written


@pytest.mark.parametrize("said", ["tpc", "256", -1, 256, 6.0, True, "", "6\n", [], "t" * 99])
def test_what_is_no_protocol_is_refused(said: object) -> None:
    found = faults(
        Kind.SECURITY_GROUP_RULE, id=A, security_group_id=B, direction="ingress", protocol=said
    )
    assert found.keys() == {"protocol"}


def test_ports_of_a_rule_are_numbers_or_digits() -> None:
    body = {"id": A, "security_group_id": B, "direction": "egress", "protocol": "tcp"}
    read = parse(Kind.SECURITY_GROUP_RULE, body | {"port_range_min": "80", "port_range_max": 90})
    assert read == SecurityGroupRule(
        id=ID_A,
        security_group_id=ID_B,
        direction=Direction.EGRESS,
        protocol=TCP,
        port_min=80,
        port_max=90,
    )


@pytest.mark.parametrize("number", [True, 1.0, "1.0", "٣", " 1", "1e3", 2**70, -1, [1], None])
def test_only_a_whole_number_in_range_is_a_number(number: object) -> None:
    assert faults(Kind.NETWORK, id=A, mtu=number).keys() == {"mtu"}


def test_a_number_too_large_to_print_is_refused() -> None:
    assert faults(Kind.NETWORK, id=A, mtu=10**5000, name=10**5000) == {
        "mtu": "a number too large is outside 0 to 4294967295",
        "name": "not text: a number too large",
    }


def test_a_policy_is_read_with_rules_of_each_type() -> None:
    body = {
        "id": A,
        "rules": [
            {"type": "bandwidth_limit", "id": B, "max_kbps": 1000, "direction": "ingress"},
            {"type": "dscp_marking", "id": C, "dscp_mark": 46},
        ],
    }
    assert parse(Kind.QOS_POLICY, body) == QosPolicy(
        id=ID_A,
        rules=[
            BandwidthLimit(id=ID_B, max_kbps=1000, direction=Direction.INGRESS),
            DscpMarking(id=ID_C, dscp_mark=46),
        ],
    )
    assert faults(
        Kind.QOS_POLICY,
        id=A,
        rules=[
            {"id": B},
            {"type": "gold"},
            {"type": "dscp_marking", "id": B, "max_kbps": 1},
            {"type": ["x"]},
            5,
        ],
    ).keys() == {
        "rules[0].type",
        "rules[1].type",
        "rules[2].dscp_mark",
        "rules[2].max_kbps",
        "rules[3].type",
        "rules[4]",
    }


@pytest.mark.parametrize("prefix", ["10.0.0.5/24", "fe80::1%eth0", "10.0.0.0/255.0.0.0", "x", 5])
def test_an_address_pair_is_an_address_or_an_exact_prefix(prefix: object) -> None:
    assert port_faults(allowed_address_pairs=[{"ip_address": prefix}]).keys() == {
        "allowed_address_pairs[0].ip_address"
    }


def test_the_message_about_a_prefix_says_which_may_be_meant() -> None:
    found = port_faults(allowed_address_pairs=[{"ip_address": "10.0.0.5/24"}])
    assert "10.0.0.0/24" in found["allowed_address_pairs[0].ip_address"]


@pytest.mark.parametrize(
    "address", ["010.0.0.1", "10.0.0", "::1%lo", "1" * 5000, b"\x01\x02\x03\x04", 1]
)
def test_what_is_no_address_is_refused_in_a_short_message(address: object) -> None:
    found = port_faults(fixed_ips=[{"subnet_id": C, "ip_address": address}])
    assert found.keys() == {"fixed_ips[0].ip_address"}
    assert len(found["fixed_ips[0].ip_address"]) < 120


@pytest.mark.parametrize(
    "name", ["-a", "a-", "a..b", ".a", "a_b", "a b", "a,b", "a\nb", "x" * 64, "ä"]
)
def test_a_dns_name_has_the_letters_of_dns(name: str) -> None:
    assert port_faults(dns_name=name).keys() == {"dns_name"}


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize(
    "name", ["", "a b", "67,evil", "tag:x", "option:\n", "a=b", "#x", "x" * 65]
)
def test_the_name_of_a_dhcp_option_cannot_be_more_than_a_name(name: str) -> None:
    found = port_faults(extra_dhcp_opts=[{"opt_name": name, "opt_value": "1"}])
    assert found.keys() == {"extra_dhcp_opts[0].opt_name"}


@pytest.mark.parametrize("body", [None, [], "x", 5, True, {1, 2}, object()])
def test_a_body_that_is_no_object_is_refused_as_a_whole(body: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(Kind.PORT, body)
    assert caught.value.problems.keys() == {"port"}


def test_text_has_a_longest_length() -> None:
    assert port_faults(name="x" * 256) == {"name": "longer than 255 characters"}


def test_a_hostile_body_is_refused_quickly() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    body: dict[Any, Any] = {f"unknown_attribute_{number}": deep for number in range(20_000)}
    body |= {"fixed_ips": [deep], "name": "x" * 10_000_000, "binding:profile": {"a": deep}}
    body |= {"tags": ["x"] * 5000, "y" * 1_000_000: 1, 5: 6, None: 7}
    before = time.process_time()
    found = faults_of(body)
    assert time.process_time() - before < 5
    assert found["fixed_ips[0]"] == "not an object: a list"
    assert found["tags"] == "more than 4096 entries"
    assert max(len(path) + len(text) for path, text in found.items()) < 400


def faults_of(body: dict[Any, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse(Kind.PORT, body)
    return caught.value.problems


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("2030-01-31T12:00:00Z", "2030-01-31T12:00:00Z"),
        ("2030-01-31 12:00:00", "2030-01-31T12:00:00Z"),
        ("2030-01-31T12:00:00+02:00", "2030-01-31T10:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc(said: str, written: str) -> None:
    body = {"id": A, "created_at": said}
    assert render(parse(Kind.NETWORK, body))["created_at"] == written


@pytest.mark.parametrize("said", ["now", "2030-13-01T00:00:00Z", "0001-01-01T00:00:00+10:00", 5])
def test_what_is_no_time_is_refused(said: object) -> None:
    assert faults(Kind.NETWORK, id=A, created_at=said).keys() == {"created_at"}


def test_sets_are_written_in_one_order() -> None:
    tags = {f"t{number}" for number in range(20)}
    assert render(Network(id=ID_A, tags=tags))["tags"] == sorted(tags)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_field_of_a_resource_is_on_the_wire_under_names_of_its_own(kind: Kind) -> None:
    table: ObjectCodec[Any] = CODECS[kind]
    assert KINDS[table.cls] is kind
    assert {part.field for part in table.parts} == {f.name for f in attrs.fields(table.cls)}
    assert len(set(table.names)) == len(table.names)
