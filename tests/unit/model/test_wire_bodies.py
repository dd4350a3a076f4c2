"""Bodies of the Networking API, read and written."""

from __future__ import annotations

import pytest

from netfw.model import (
    AddressPair,
    AllocationPool,
    BandwidthLimit,
    Binding,
    DhcpOption,
    Direction,
    DscpMarking,
    FixedIp,
    JsonDocument,
    Kind,
    Network,
    NetworkType,
    Port,
    Provider,
    QosPolicy,
    Route,
    Status,
    Subnet,
    VifDetails,
)
from netfw.model.wire import parse, render
from tests.unit.model.wire_samples import (
    ID_A,
    ID_B,
    ID_C,
    ID_D,
    MAC,
    A,
    B,
    C,
    D,
    port_problems,
    problems,
)

PORT_BODY: dict[str, object] = {
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
PORT = Port(
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


@pytest.mark.spec("DRV-02")
def test_a_port_is_read_by_the_names_of_the_api() -> None:
    assert parse(Kind.PORT, PORT_BODY) == PORT


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
    assert problems(
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
    assert problems(
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
    assert problems(
        Kind.SECURITY_GROUP_RULE,
        id=A,
        security_group_id=B,
        direction="ingress",
        protocol="tcp",
        port_range_min=90,
        port_range_max=80,
        remote_ip_prefix="::/0",
    ).keys() == {"port_range_max", "remote_ip_prefix"}
    assert port_problems(
        allowed_address_pairs=[{"ip_address": "10.0.0.1"}, {"ip_address": "10.0.0.1/32"}]
    ) == {"allowed_address_pairs[1]": "is there twice"}


def test_tenant_and_project_are_one() -> None:
    body = {"id": A, "network_id": B, "mac_address": MAC}
    for name in ("tenant_id", "project_id"):
        assert parse(Kind.PORT, body | {name: "p"}).project_id == "p"  # type: ignore[union-attr]
    assert parse(Kind.PORT, body | {"tenant_id": "p", "project_id": "p"})
    assert port_problems(tenant_id="p", project_id="q") == {"tenant_id": "contradicts project_id"}


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
    assert problems(Kind.NETWORK, id=A, **{"provider:segmentation_id": 5}) == {
        "provider:network_type": "is required"
    }
    assert problems(
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


def test_hosts_of_a_port_on_several_hosts_are_on_the_wire_only_if_there_are_any() -> None:
    body = {"id": A, "network_id": B, "mac_address": MAC, "binding:hosts": ["b", "a"]}
    read = parse(Kind.PORT, body)
    assert isinstance(read, Port)
    assert read.binding == Binding(hosts={"a", "b"})
    assert render(read)["binding:hosts"] == ["a", "b"]
    alone = Port(id=ID_A, network_id=ID_B, mac=MAC, binding=Binding(host="a"))
    assert "binding:hosts" not in render(alone)
    assert port_problems(**{"binding:hosts": ["a", ""]}).keys() == {"binding:hosts[1]"}


def test_the_ip_version_of_a_subnet_follows_from_its_cidr() -> None:
    body = {"id": A, "network_id": B, "cidr": "10.0.0.77/24"}
    assert render(parse(Kind.SUBNET, body))["ip_version"] == 4
    assert problems(Kind.SUBNET, **body, ip_version=6) == {"ip_version": "6, but the rest says 4"}
    assert problems(Kind.SUBNET, **body, ip_version=5) == {"ip_version": "neither 4 nor 6: 5"}


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
    assert problems(
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
