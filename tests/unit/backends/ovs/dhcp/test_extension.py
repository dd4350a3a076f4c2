"""Flows of distributed DHCP for the view of a port."""

from __future__ import annotations

from uuid import UUID

import pytest
from attrs import evolve

from netfw import flows as of
from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.pipeline_grant import Grant, TableGrant
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.errors import ConfigError, InvalidInput
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.device_owner import DISTRIBUTED_DHCP_DEVICE, DeviceOwner
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import PortId
from netfw_drivers.ovs.dhcp.extension import DhcpExtension
from netfw_drivers.ovs.dhcp.plan.options6 import option6_problem, options6_for
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout, grant_violation
from tests.unit.backends.ovs.dhcp.samples import CLIENT, NETWORK, PORT, SERVER, SUBNET, SUBNET6

pytestmark = pytest.mark.spec("DHCP-81")
SERVER_PORT = Port(
    id=PortId(UUID(int=2)),
    network_id=NETWORK,
    mac=SERVER,
    fixed_ips=(
        FixedIp(subnet_id=SUBNET.id, address="10.0.0.2"),
        FixedIp(subnet_id=SUBNET6.id, address="fd00::2"),
    ),
    device_owner=DeviceOwner.DHCP.value,
    device_id=DISTRIBUTED_DHCP_DEVICE,
)
VIEW = ExtendedPort(
    port=Port(id=PortId(UUID(int=11)), network_id=NETWORK, mac=CLIENT, fixed_ips=PORT.fixed_ips),
    network=Network(id=NETWORK, mtu=1400),
    device=SwitchDevice(name="tap11", ofport=5),
    related=(SUBNET, SUBNET6, SERVER_PORT),
)
GRANT = Grant(
    owner="dhcp",
    cookie=1,
    cookie_mask=1,
    prefix="",
    tables={"requests": TableGrant(number=100, then=101)},
    meters=(0,),
)


def extension(**changes: object) -> DhcpExtension:
    options = {option.dest: option.default for option in DhcpExtension.OPTIONS}
    with LocalHostResources() as host:
        return DhcpExtension.from_conf({**options, **changes}, host)


def matches(view: ExtendedPort) -> list[str]:
    contribution = extension().contribute(view.port.id, view, GRANT)
    return [] if contribution is None else [str(flow.match) for flow in contribution.flows]


def test_requests_of_the_port_and_its_mac_reach_the_agent() -> None:
    port = of.in_port(5)
    client = port & of.eth_src(CLIENT)
    request = client & of.udp() & of.udp_dst(67)
    assert set(matches(VIEW)) == {
        str(request & of.ipv4_dst("255.255.255.255")),
        str(request & of.ipv4_dst("10.0.0.2")),
        str(port & of.arp() & of.arp_op(1) & of.arp_tpa("10.0.0.2")),
        str(client & of.udp6() & of.udp_dst(547) & of.ipv6_dst("ff02::1:2")),
        str(client & of.icmpv6() & of.icmpv6_type(133)),
    }


def test_solicitations_go_on_to_routers() -> None:
    contribution = extension().contribute(VIEW.port.id, VIEW, GRANT)
    assert contribution is not None
    onward = [flow for flow in contribution.flows if len(flow.actions) == 2]
    assert [str(flow.match).rpartition(",")[2] for flow in onward] == ["icmp_type=133"]


def test_the_flows_stay_within_the_grant_of_the_switch() -> None:
    dhcp = extension()
    layout = ExtensionLayout().granted(dhcp.grant_request())
    contribution = dhcp.contribute(VIEW.port.id, VIEW, layout.grants["dhcp"])
    assert contribution is not None
    assert grant_violation(contribution, layout) is None


@pytest.mark.parametrize(
    "view",
    [
        evolve(VIEW, related=(SUBNET, SUBNET6)),
        evolve(VIEW, related=(SUBNET, SUBNET6, evolve(SERVER_PORT, device_id="dhcp-of-a-host"))),
        evolve(VIEW, related=(SUBNET, SUBNET6, evolve(SERVER_PORT, device_owner="compute:x"))),
        evolve(VIEW, device=SwitchDevice(name="tap11")),
        evolve(VIEW, port=evolve(VIEW.port, fixed_ips=())),
        evolve(VIEW, port=evolve(VIEW.port, device_owner="network:router_interface")),
    ],
    ids=["no server", "an agent's", "an instance's", "no number", "no address", "a router"],
)
def test_ports_that_are_not_served_have_no_flows(view: ExtendedPort) -> None:
    assert matches(view) == []


def test_a_subnet_to_which_no_prefix_is_delegated_is_not_announced() -> None:
    modes = dict.fromkeys(("ipv6_ra_mode", "ipv6_address_mode"), Ipv6Mode.SLAAC)
    pool = {"subnet_pool_id": "prefix_delegation"}
    delegated = evolve(SUBNET6, cidr="2001:db8::/64", gateway="2001:db8::1", **modes, **pool)
    provisional = evolve(delegated, cidr="::/64", gateway="::1")
    for subnet, announced in ((delegated, True), (provisional, False)):
        fixed = FixedIp(subnet_id=subnet.id, address=subnet.cidr[9])
        port = evolve(VIEW.port, fixed_ips=(VIEW.port.fixed_ips[0], fixed))
        found = matches(evolve(VIEW, port=port, related=(SUBNET, subnet, SERVER_PORT)))
        assert any("icmp_type=133" in match for match in found) is announced
        assert any("255.255.255.255" in match for match in found)


def test_all_hosts_choose_the_same_server_of_two() -> None:
    other = evolve(SERVER_PORT, id=PortId(UUID(int=1)), mac="fa:16:3e:ff:00:01")
    one, two = (evolve(VIEW, related=(SUBNET, *each)) for each in ((SERVER_PORT, other), (other,)))
    dhcp = extension()
    assert dhcp.contribute(VIEW.port.id, one, GRANT) == dhcp.contribute(VIEW.port.id, two, GRANT)


@pytest.mark.parametrize("ip_version", [4, 6])
def test_options_too_long_for_a_flow_are_refused_and_reach_no_switch(ip_version: int) -> None:
    ips = tuple(FixedIp(subnet_id=SUBNET.id, address=f"10.0.0.{n}") for n in range(11, 20))
    options = tuple(
        DhcpOption(name=str(number), value="x" * 250, ip_version=ip_version)
        for number in range(150 if ip_version == 6 else 224, 300 if ip_version == 6 else 254)
    )
    port = evolve(VIEW.port, dhcp_options=options, fixed_ips=(*ips, *VIEW.port.fixed_ips[1:]))
    with pytest.raises(InvalidInput, match="octets"):
        extension().contribute(port.id, evolve(VIEW, port=port), GRANT)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dhcp_lease_duration": 60}, "dhcp_lease_duration"),
        ({"dhcp_lease_duration": 1 << 32}, "dhcp_lease_duration"),
        ({"dhcp_lease_duration": -1, "dhcp_rebinding_time": 1 << 32}, "dhcp_rebinding_time"),
        ({"dhcp_renewal_time": 80000}, "dhcp_renewal_time"),
        ({"dhcp_renewal_time": 75600}, "dhcp_renewal_time"),
        ({"dhcp_rebinding_time": 90000}, "dhcp_rebinding_time"),
        ({"dhcp_domain": "not a name"}, "dhcp_domain"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        extension(**options)
    assert extension(dhcp_lease_duration=-1, dhcp_domain="").describe().name == "dhcp"


@pytest.mark.parametrize(
    ("name", "value", "code", "coded"),
    [
        ("domain-search", "a.example,b", 24, b"\x01a\x07example\0\x01b\0"),
        ("information-refresh-time", "1h", 32, (3600).to_bytes(4, "big")),
        ("bootfile-url", "http://x/", 59, b"http://x/"),
        ("bootfile-param", "a,bc", 60, b"\0\1a\0\2bc"),
        ("dns-server", "fd00::1", 23, b"\xfd" + bytes(14) + b"\1"),
        ("ntp-server", "fd00::1", 56, b"\0\1\0\x10\xfd" + bytes(14) + b"\1"),
        ("200", "01:ff", 200, b"\1\xff"),
        ("200", "words", 200, b"words"),
        ("23", "", 23, b""),
    ],
)
def test_options_of_dhcpv6_are_encoded(name: str, value: str, code: int, coded: bytes) -> None:
    assert options6_for([DhcpOption(name=name, value=value, ip_version=6)]) == {code: coded}


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [("dns-server", "10.0.0.1", "value"), ("nonsense", "x", "name"), ("2", "x", "name")],
)
def test_options_of_dhcpv6_that_cannot_be_sent_are_named(name: str, value: str, field: str) -> None:
    problem = option6_problem(DhcpOption(name=name, value=value, ip_version=6))
    assert problem is not None
    assert problem[0] == field
