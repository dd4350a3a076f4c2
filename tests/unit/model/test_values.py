"""The nouns refuse to be impossible, and say everything that is wrong with them."""

from __future__ import annotations

import copy
import ipaddress
import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import attrs
import pytest

from netfw.model import (
    AllocationPool,
    BandwidthLimit,
    Binding,
    DhcpOption,
    Direction,
    DscpMarking,
    Ethertype,
    FixedIp,
    FloatingIp,
    ForwardedProtocol,
    InvalidValue,
    Ipv6Mode,
    JsonDocument,
    Kind,
    MinimumBandwidth,
    Network,
    NetworkType,
    Port,
    PortForwarding,
    PortRange,
    Provider,
    QosPolicy,
    Ref,
    Resource,
    Route,
    Router,
    SecurityGroupRule,
    Subnet,
    SubPort,
    Trunk,
    VifDetails,
    ref,
)
from netfw.model.resource import KINDS
from netfw.model.segment import WELL_KNOWN_TYPES
from netfw.model.values.protocol import ICMP, ICMPV6, TCP

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def problems(make: Callable[[], object]) -> dict[str, str]:
    """Return the problems that are found when a value is made."""
    with pytest.raises(InvalidValue) as caught:
        make()
    return dict(caught.value.problems)


def subnet(**fields: Any) -> Subnet:
    return Subnet(**{"id": A, "network_id": B, "cidr": "10.0.0.0/24"} | fields)


def rule(**fields: Any) -> SecurityGroupRule:
    return SecurityGroupRule(
        **{"id": A, "security_group_id": B, "direction": Direction.INGRESS} | fields
    )


def port(**fields: Any) -> Port:
    return Port(**{"id": A, "network_id": B, "mac": "fa:16:3e:00:00:01"} | fields)


@pytest.mark.spec("DRV-02")
@pytest.mark.parametrize("cls", list(KINDS))
def test_every_resource_is_frozen_keyword_only_and_has_id_and_revision(cls: type[Resource]) -> None:
    fields = {field.name: field for field in attrs.fields(cls)}
    assert {"id", "revision"} <= fields.keys()
    assert all(field.kw_only for field in fields.values())
    assert cls.__setattr__ is not object.__setattr__
    assert {member.value for member in Kind} == {kind.value for kind in KINDS.values()}


def test_a_reference_is_what_a_resource_is_and_its_id() -> None:
    assert ref(port()) == Ref(Kind.PORT, A)
    assert str(ref(port())) == f"port {A}"


def test_addresses_given_as_text_become_addresses() -> None:
    fixed = FixedIp(subnet_id=A, address="10.0.0.5")
    assert fixed.address == ipaddress.ip_address("10.0.0.5")
    assert subnet().cidr == ipaddress.ip_network("10.0.0.0/24")
    assert port(fixed_ips=[fixed]).fixed_ips == (fixed,)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"network_type": "local", "segmentation_id": 1}, {"segmentation_id"}),
        ({"network_type": "local", "physical_network": "p"}, {"physical_network"}),
        ({"network_type": "flat"}, {"physical_network"}),
        (
            {"network_type": "flat", "physical_network": "p", "segmentation_id": 7},
            {"segmentation_id"},
        ),
        (
            {"network_type": "vlan", "physical_network": "p", "segmentation_id": 0},
            {"segmentation_id"},
        ),
        (
            {"network_type": "vlan", "physical_network": "p", "segmentation_id": 4095},
            {"segmentation_id"},
        ),
        (
            {"network_type": "vlan", "segmentation_id": 4095},
            {"segmentation_id", "physical_network"},
        ),
        ({"network_type": "vxlan", "segmentation_id": 2**24}, {"segmentation_id"}),
        ({"network_type": "geneve", "physical_network": "p"}, {"physical_network"}),
        ({"network_type": "gre", "segmentation_id": 2**32}, {"segmentation_id"}),
    ],
)
def test_a_segment_is_carried_in_a_way_that_exists(
    fields: dict[str, Any], expected: set[str]
) -> None:
    kind = NetworkType(fields.pop("network_type"))
    assert problems(lambda: Provider(network_type=kind, **fields)).keys() == expected


def test_network_type_of_a_vendor_equals_every_other_of_its_name() -> None:
    fabric = NetworkType("acme-fabric")
    assert {fabric: 1}[NetworkType("acme-fabric")] == 1
    assert not fabric.is_well_known
    assert not fabric.is_tunnel
    assert pickle.loads(pickle.dumps(fabric)) == copy.deepcopy(fabric) == fabric
    Provider(network_type=fabric, physical_network="leaf", segmentation_id=2**32 - 1)
    Provider(network_type=fabric)
    wrong = problems(lambda: Provider(network_type=fabric, segmentation_id=2**32))
    assert wrong.keys() == {"segmentation_id"}


@pytest.mark.parametrize("type", WELL_KNOWN_TYPES)
def test_well_known_network_type_is_one_object(type: NetworkType) -> None:
    assert NetworkType(str(type)) is type
    assert pickle.loads(pickle.dumps(type)) is copy.deepcopy(type) is type
    assert getattr(NetworkType, type.upper()) is type


@pytest.mark.parametrize("name", ["", "VXLAN", "a b", "7up", "a/b", "a" * 33, "vxlan\n"])
def test_text_that_is_no_name_is_no_network_type(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a network type"):
        NetworkType(name)


def test_the_first_and_last_vlan_are_allowed() -> None:
    for number in (1, 4094):
        Provider(network_type=NetworkType.VLAN, physical_network="p", segmentation_id=number)


def test_a_network_takes_no_impossible_mtu() -> None:
    assert problems(lambda: Network(id=A, mtu=67)).keys() == {"mtu"}
    assert Network(id=A, mtu=0).mtu == 0


def test_a_subnet_says_everything_that_is_wrong_with_it_at_once() -> None:
    found = problems(
        lambda: subnet(
            gateway="2001:db8::1",
            dns_nameservers=[ipaddress.ip_address("2001:db8::53")],
            host_routes=[Route(destination="::/0", nexthop="2001:db8::2")],
            allocation_pools=[
                AllocationPool(start="10.0.0.10", end="10.0.0.20"),
                AllocationPool(start="10.0.0.20", end="10.0.1.1"),
            ],
            ipv6_ra_mode=Ipv6Mode.SLAAC,
            ipv6_address_mode=Ipv6Mode.STATEFUL,
        )
    )
    assert found.keys() == {
        "gateway",
        "dns_nameservers[0]",
        "host_routes[0].nexthop",
        "allocation_pools[1]",
        "ipv6_ra_mode",
        "ipv6_address_mode",
    }


def test_a_gateway_may_lie_outside_its_subnet_but_not_in_a_pool() -> None:
    pool = AllocationPool(start="10.0.0.2", end="10.0.0.9")
    assert subnet(gateway="192.0.2.1", allocation_pools=[pool]).gateway is not None
    assert problems(lambda: subnet(gateway="10.0.0.5", allocation_pools=[pool])) == {
        "allocation_pools[0]": "contains the gateway 10.0.0.5"
    }


def test_slaac_needs_a_prefix_of_64_bits() -> None:
    wrong = problems(lambda: subnet(cidr="2001:db8::/56", ipv6_address_mode=Ipv6Mode.SLAAC))
    assert wrong.keys() == {"ipv6_address_mode"}
    subnet(cidr="2001:db8::/56", ipv6_address_mode=Ipv6Mode.STATEFUL)


def test_a_pool_does_not_end_before_it_starts_nor_in_another_family() -> None:
    assert problems(lambda: AllocationPool(start="10.0.0.2", end="10.0.0.1")).keys() == {"end"}
    assert problems(lambda: AllocationPool(start="10.0.0.2", end="::5")).keys() == {"end"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"protocol": 256}, {"protocol"}),
        ({"protocol": ICMPV6}, {"protocol"}),
        ({"port_min": 80, "port_max": 80}, {"port_min"}),
        ({"protocol": 47, "port_min": 80, "port_max": 80}, {"port_min"}),
        ({"protocol": TCP, "port_min": 80}, {"port_max"}),
        ({"protocol": TCP, "port_min": 0, "port_max": 65536}, {"port_min", "port_max"}),
        ({"protocol": TCP, "port_min": 90, "port_max": 80}, {"port_max"}),
        ({"protocol": ICMP, "port_max": 0}, {"port_max"}),
        ({"protocol": ICMP, "port_min": 256}, {"port_min"}),
        ({"remote_prefix": "::/0"}, {"remote_prefix"}),
        ({"remote_prefix": "10.0.0.0/8", "remote_group_id": C}, {"remote_group_id"}),
        (
            {"remote_group_id": B, "remote_address_group_id": C},
            {"remote_address_group_id"},
        ),
    ],
)
def test_a_rule_that_no_packet_could_meet_is_refused(
    fields: dict[str, Any], expected: set[str]
) -> None:
    assert problems(lambda: rule(**fields)).keys() == expected


def test_icmp_in_a_rule_for_ipv6_means_icmpv6() -> None:
    echo = rule(ethertype=Ethertype.IPV6, protocol=ICMP, port_min=128, port_max=0)
    assert (echo.ip_protocol, echo.icmp_type, echo.icmp_code) == (ICMPV6, 128, 0)
    assert echo.ports is None


def test_a_rule_for_tcp_knows_its_ports() -> None:
    web = rule(protocol=TCP, port_min=80, port_max=90)
    assert web.ports == PortRange(80, 90)
    assert (web.icmp_type, web.icmp_code) == (None, None)
    assert 90 in PortRange(80, 90)
    assert 91 not in PortRange(80, 90)


def test_a_port_without_security_has_neither_groups_nor_pairs() -> None:
    assert problems(lambda: port(port_security=False, security_groups=[C])).keys() == {
        "security_groups"
    }


def test_the_same_option_twice_is_refused() -> None:
    option = DhcpOption(name="mtu", value="1400")
    other = attrs.evolve(option, value="1500")
    assert problems(lambda: port(dhcp_options=[option, other])).keys() == {"dhcp_options[1]"}
    assert port(dhcp_options=[option, attrs.evolve(other, ip_version=6)])


def test_a_floating_ip_stands_for_an_address_of_its_family_and_of_some_port() -> None:
    free = FloatingIp(id=A, network_id=B, address="192.0.2.7")
    assert problems(lambda: attrs.evolve(free, fixed_address="::1")).keys() == {"fixed_address"}
    assert attrs.evolve(free, fixed_address="10.0.0.1", port_id=C).port_id == C


def test_forwarded_ports_are_as_many_inside_as_outside_or_one() -> None:
    def forwarding(inside: PortRange) -> PortForwarding:
        return PortForwarding(
            id=A,
            floating_ip_id=B,
            protocol=ForwardedProtocol.TCP,
            external_ports=PortRange(1000, 1009),
            internal_ports=inside,
            internal_port_id=C,
            internal_address="10.0.0.1",
        )

    assert forwarding(PortRange.single(22))
    assert forwarding(PortRange(1, 10))
    assert problems(lambda: forwarding(PortRange(1, 9))).keys() == {"internal_ports"}


def test_a_policy_does_not_contradict_itself() -> None:
    limit = BandwidthLimit(id=A, max_kbps=1000)
    floor = MinimumBandwidth(id=B, min_kbps=2000)
    assert problems(lambda: QosPolicy(id=C, rules=[limit, floor])).keys() == {"rules[1]"}
    twice = BandwidthLimit(id=B, max_kbps=500)
    assert problems(lambda: QosPolicy(id=C, rules=[limit, twice])).keys() == {"rules[1]"}
    inwards = attrs.evolve(twice, direction=Direction.INGRESS)
    assert QosPolicy(id=C, rules=[limit, inwards]).rules == (limit, inwards)


def test_a_dscp_mark_is_one_that_the_api_knows() -> None:
    assert DscpMarking(id=A, dscp_mark=46).dscp_mark == 46
    for mark in (-1, 1, 42, 64):
        assert problems(lambda mark=mark: DscpMarking(id=A, dscp_mark=mark)).keys() == {"dscp_mark"}


def test_sub_ports_share_neither_vlan_nor_port() -> None:
    one = SubPort(port_id=A, segmentation_id=10)
    same_vlan = SubPort(port_id=B, segmentation_id=10)
    same_port = SubPort(port_id=A, segmentation_id=11)
    parent = uuid4()
    assert problems(lambda: Trunk(id=C, port_id=parent, sub_ports=[one, same_vlan])).keys() == {
        "sub_ports[1].segmentation_id"
    }
    assert problems(lambda: Trunk(id=C, port_id=parent, sub_ports=[one, same_port])).keys() == {
        "sub_ports[1].port_id"
    }
    assert problems(lambda: Trunk(id=C, port_id=A, sub_ports=[one])).keys() == {
        "sub_ports[0].port_id"
    }
    assert problems(lambda: SubPort(port_id=A, segmentation_id=4095)).keys() == {"segmentation_id"}


def test_a_virtual_router_id_is_1_to_255() -> None:
    assert [Router(id=A, vrid=vrid).vrid for vrid in (1, 255, None)] == [1, 255, None]
    for vrid in (0, 256, -1):
        assert problems(lambda vrid=vrid: Router(id=A, vrid=vrid)).keys() == {"vrid"}


@pytest.mark.parametrize(
    ("binding", "everywhere"),
    [
        (Binding(), set()),
        (Binding(host="a"), {"a"}),
        (Binding(hosts=["a", "b"]), {"a", "b"}),
        (Binding(host="a", hosts=["a", "b"]), {"a", "b"}),
        (Binding(host="c", hosts=["a", "b"]), {"a", "b", "c"}),
    ],
)
def test_a_port_is_on_its_host_and_on_all_its_hosts(binding: Binding, everywhere: set[str]) -> None:
    assert binding.all_hosts == everywhere
    assert {host for host in ("", "a", "b", "c") if binding.is_on(host)} == everywhere


@pytest.mark.spec("DHCP-48", "FW-12")
@pytest.mark.parametrize(
    "make",
    [
        lambda text: port(name=text),
        lambda text: port(description=text),
        lambda text: port(project_id=text),
        lambda text: port(tags=[text]),
        lambda text: port(device_id=text),
        lambda text: port(device_owner=text),
        lambda text: port(dns_name=text),
        lambda text: port(dns_domain=text),
        lambda text: subnet(service_types=[text]),
        lambda text: DhcpOption(name=text, value=""),
        lambda text: DhcpOption(name="mtu", value=text),
        lambda text: Binding(host=text),
        lambda text: Binding(hosts={text}),
        lambda text: Binding(vif_type=text),
        lambda text: VifDetails(bridge_name=text),
        lambda text: VifDetails(vhostuser_socket=text),
        lambda text: Provider(network_type=NetworkType.FLAT, physical_network=text),
        lambda text: Network(id=A, availability_zones=[text]),
        lambda text: JsonDocument({"key": text}),
        lambda text: JsonDocument({text: 1}),
        lambda text: JsonDocument({"deep": [{"key": text}]}),
    ],
)
@pytest.mark.parametrize("bad", ["\n", "\0", "\x7f", "\x85", "\u2028", "\ud800"])
def test_no_value_holds_a_control_character(make: Callable[[str], object], bad: str) -> None:
    with pytest.raises(InvalidValue, match=r"control character|device name"):
        make(f"a{bad}b")


def test_what_a_detail_has_a_field_for_is_not_hidden_among_the_others() -> None:
    assert problems(lambda: VifDetails(other=JsonDocument({"vlan": 5}))).keys() == {"other"}
