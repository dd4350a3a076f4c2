"""Routers, floating IPs and port forwardings of a file, and what it may leave out of them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.state.dependencies import reachable
from netfw.state.file import read_topology
from netfw.state.file.name_resolution import id_of
from tests import ROOT
from tests.unit.state.file.topology_samples import all_of, errors_of, good, the, topology

CLOUD = """
networks: [{name: n}, {name: out, "router:external": true}]
subnets:
- {name: s, network: n, cidr: 10.0.0.0/24}
- {name: o, network: out, cidr: 203.0.113.0/24}
routers: [{name: r, external_gateway_info: {network: out}}]
ports:
- {name: inside, network: n, router: r, fixed_ips: [10.0.0.1]}
- {name: outside, network: out, router: r, fixed_ips: [203.0.113.2]}
- {name: vm, network: n, fixed_ips: [10.0.0.9]}
"""
FLOATING = "floatingips: [{floating_network: out, floating_ip_address: 203.0.113.9, port: vm}]"


def test_a_port_of_a_router_is_its_gateway_where_the_network_is_external() -> None:
    ports = {port.name: port for port in all_of(Port, good(CLOUD))}
    router = str(id_of(Kind.ROUTER, "r"))
    assert (ports["inside"].device_id, ports["outside"].device_id) == (router, router)
    assert ports["inside"].device_owner == "network:router_interface"
    assert ports["outside"].device_owner == "network:router_gateway"
    assert ports["vm"].device_id == ports["vm"].device_owner == ""


def test_a_router_port_may_state_its_owner() -> None:
    found = good(
        CLOUD.replace("router: r,", "router: r, device_owner: network:router_centralized_snat,")
    )
    assert [port.device_owner for port in all_of(Port, found)][:2] == [
        "network:router_centralized_snat"
    ] * 2


@pytest.mark.spec("DRV-21")
@pytest.mark.parametrize("owner", ["network:ha_router_interface", "network:router_ha_interfce"])
def test_an_owner_that_no_port_of_a_router_has_is_an_error(owner: str) -> None:
    assert errors_of(CLOUD.replace("router: r,", f"router: r, device_owner: {owner},", 1)) == [
        f"0.yaml:8: ports[0].device_owner: {owner!r} is no device owner of a port of a router; "
        "remove it, or state network:router_ha_interface for an HA port"
    ]


def test_a_device_that_is_not_the_router_is_an_error() -> None:
    stated = CLOUD.replace("name: inside,", "name: inside, device_id: x,")
    assert errors_of(stated) == ["0.yaml:8: ports[0].device_id: contradicts the router"]


def test_a_router_by_a_wrong_name_is_an_error() -> None:
    [error] = errors_of(CLOUD.replace("router: r, fixed_ips: [10", "router: rr, fixed_ips: [10"))
    assert (
        error == "0.yaml:8: ports[0].router: there is no router 'rr' in the file, did you mean 'r'?"
    )


def test_address_scopes_are_names_of_their_own() -> None:
    found = good(
        """
        networks:
        - {name: a, ipv4_address_scope: x, ipv6_address_scope: y}
        - {name: b, ipv4_address_scope: x}
        - {name: c, ipv4_address_scope: 00000000-0000-0000-0000-00000000000a}
        - {name: d, ipv4_address_scope: null}
        """
    )
    a, b, c, d = all_of(Network, found)
    assert a.ipv4_address_scope == b.ipv4_address_scope != a.ipv6_address_scope
    assert str(c.ipv4_address_scope) == "00000000-0000-0000-0000-00000000000a"
    assert d.ipv4_address_scope is None


def test_a_floating_ip_finds_its_fixed_address_and_its_router() -> None:
    found = good(CLOUD, FLOATING)
    floating = the(FloatingIp, found)
    assert floating.fixed_address == ip_address("10.0.0.9")
    assert floating.router_id == id_of(Kind.ROUTER, "r")
    assert found.warnings == ()


def test_what_a_floating_ip_states_stays() -> None:
    stated = FLOATING.replace("port: vm", "port: vm, fixed_ip_address: 10.0.0.99, router_id: null")
    floating = the(FloatingIp, good(CLOUD, stated))
    assert (floating.fixed_address, floating.router_id) == (ip_address("10.0.0.99"), None)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (("[10.0.0.9]", "[10.0.0.9, 10.0.0.10]"), "state fixed_ip_address"),
        (("[10.0.0.9]", "[]"), "state fixed_ip_address"),
        (("router: r, fixed_ips: [10.0.0.1]", "fixed_ips: [10.0.0.1]"), "state router"),
    ],
)
def test_a_floating_ip_that_would_not_work_is_a_warning(
    change: tuple[str, str], warning: str
) -> None:
    found = good(CLOUD.replace(*change), FLOATING)
    assert warning in "".join(each.problem for each in found.warnings)


def test_a_floating_ip_between_two_routers_names_one() -> None:
    second = """
    routers: [{name: r2, external_gateway_info: {network: out}}]
    ports:
    - {name: inside2, network: n, router: r2, fixed_ips: [10.0.0.2]}
    - {name: outside2, network: out, router: r2, fixed_ips: [203.0.113.3]}
    """
    found = good(CLOUD, second, FLOATING)
    assert the(FloatingIp, found).router_id is None
    assert "state router" in "".join(each.problem for each in found.warnings)
    named = good(CLOUD, second, FLOATING.replace("port: vm", "port: vm, router: r2"))
    assert the(FloatingIp, named).router_id == id_of(Kind.ROUTER, "r2")
    assert named.warnings == ()


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (("name: outside, network: out, router: r,", "name: outside, network: out,"), "no port is"),
        (
            ("router: r,", "device_owner: network:router_interface, device_id: r,"),
            "write router: and its name",
        ),
    ],
)
def test_a_router_without_its_ports_is_a_warning(change: tuple[str, str], warning: str) -> None:
    found = topology(CLOUD.replace(*change))
    assert found.errors == ()
    assert warning in "".join(each.problem for each in found.warnings)


def test_a_port_forwarding_finds_its_inside_address() -> None:
    ports = "external_port: 80, internal_port: 8080"
    rule = f"{{floatingip: f, protocol: tcp, {ports}, internal_port_id: vm}}"
    floating = "{id: f, floating_network: out, floating_ip_address: 203.0.113.9, router: r}"
    found = good(CLOUD, f"floatingips: [{floating}]\nport_forwardings: [{rule}]")
    assert the(PortForwarding, found).internal_address == ip_address("10.0.0.9")
    assert found.warnings == ()
    lost = good(
        CLOUD, f"floatingips: [{floating.replace(', router: r', '')}]\nport_forwardings: [{rule}]"
    )
    assert "is at no router" in "".join(each.problem for each in lost.warnings)


def floating_ips(*bodies: str) -> str:
    return (
        "floatingips: [" + ", ".join(f"{{floating_network: out, {each}}}" for each in bodies) + "]"
    )


FREE = "state an address that is free"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("203.0.113.1", f"is also the gateway of subnets[1] in 0.yaml; {FREE}"),
        ("203.0.113.2", f"is also an address of ports[1] in 0.yaml; {FREE}"),
        (
            "192.0.2.9",
            "is in no subnet of the external network (203.0.113.0/24); state an address of one of "
            "them",
        ),
    ],
)
def test_a_floating_ip_whose_address_cannot_be_its_own_is_an_error(
    address: str, problem: str
) -> None:
    found = errors_of(CLOUD, floating_ips(f"floating_ip_address: {address}, port: vm"))
    assert found == [f"1.yaml:1: floatingips[0].floating_ip_address: {address} {problem}"]


def test_a_floating_ip_that_is_there_twice_is_an_error() -> None:
    twice = [f"id: f{number}, floating_ip_address: 203.0.113.9" for number in (1, 2)]
    assert errors_of(CLOUD, floating_ips(*twice)) == [
        "1.yaml:1: floatingips[1].floating_ip_address: 203.0.113.9 is also the address of "
        "floatingips[0] in 1.yaml; state an address that is free"
    ]


def test_a_floating_ip_whose_network_is_not_described_is_accepted() -> None:
    # Subnets of the external network may be left out, and so may the port that the API shows.
    text = CLOUD.replace("- {name: o, network: out, cidr: 203.0.113.0/24}", "")
    text = text.replace("[203.0.113.2]", "[]")
    good(text, floating_ips("floating_ip_address: 192.0.2.9, port: vm"))
    shown = "ports: [{name: p, network: out, fixed_ips: [203.0.113.9],"
    shown += " device_owner: network:floatingip}]"
    good(CLOUD, shown, FLOATING)


FORWARDED = "{id: f, floating_network: out, floating_ip_address: 203.0.113.9, router: r}"


def forwardings(*bodies: str) -> str:
    common = "floatingip: f, internal_port: 8080, internal_port_id: vm"
    listed = ", ".join(f"{{{common}, {each}}}" for each in bodies)
    return f"floatingips: [{FORWARDED}]\nport_forwardings: [{listed}]"


@pytest.mark.parametrize(
    ("bodies", "error"),
    [
        (
            ["protocol: tcp, external_port: 80", 'protocol: tcp, external_port_range: "70:90"'],
            "port_forwardings[1].external_port_range: 70:90 of tcp overlaps 80 of tcp of "
            "port_forwardings[0] in 1.yaml; state other ports of the floating IP",
        ),
        (
            ['protocol: udp, external_port_range: "70:90"', "protocol: udp, external_port: 90"],
            "port_forwardings[1].external_port: 90 of udp overlaps 70:90 of udp of "
            "port_forwardings[0] in 1.yaml; state other ports of the floating IP",
        ),
    ],
)
def test_overlapping_port_forwardings_are_an_error(bodies: list[str], error: str) -> None:
    assert errors_of(CLOUD, forwardings(*bodies)) == [f"1.yaml:2: {error}"]


def test_port_forwardings_of_other_ports_or_protocols_are_accepted() -> None:
    bodies = [
        "protocol: tcp, external_port: 80",
        "protocol: udp, external_port: 80",
        'protocol: tcp, external_port_range: "81:90"',
    ]
    good(CLOUD, forwardings(*bodies))


@pytest.mark.parametrize(
    ("cidr", "address", "earlier"),
    [
        ("10.0.0.0/16", "10.0.5.1", "subnet 10.0.0.0/24 of ports[0] in 0.yaml"),
        ("203.0.113.128/25", "203.0.113.130", "subnet 203.0.113.0/24 of ports[1] in 0.yaml"),
    ],
)
def test_overlapping_subnets_of_a_router_are_an_error(
    cidr: str, address: str, earlier: str
) -> None:
    more = f"""
    networks: [{{name: other}}]
    subnets: [{{name: s2, network: other, cidr: {cidr}}}]
    ports: [{{name: second, network: other, router: r, fixed_ips: [{address}]}}]
    """
    assert errors_of(CLOUD, more) == [
        f"1.yaml:4: ports[0].fixed_ips[0]: subnet {cidr} overlaps {earlier}, a port of the same "
        "router; remove a port, or give the router subnets that do not overlap"
    ]
    good(CLOUD, more.replace("router: r, ", ""))


def test_a_second_port_of_a_router_on_a_subnet_is_a_warning() -> None:
    found = good(CLOUD, "ports: [{name: p, network: n, router: r, fixed_ips: [10.0.0.2]}]")
    assert "the router is on this subnet by ports[0] too" in str(found.warnings)


def test_conntrack_helpers_need_no_ids() -> None:
    helpers = "{protocol: tcp, port: 21, helper: ftp}, {protocol: udp, port: 69, helper: tftp}"
    text = CLOUD.replace("{name: r,", f"{{name: r, conntrack_helpers: [{helpers}],")
    found, again = (the(Router, good(text)).conntrack_helpers for _ in range(2))
    assert [each.helper for each in found] == ["ftp", "tftp"]
    assert len({each.id for each in found}) == 2
    assert found == again
    twice = helpers.replace("udp, port: 69, helper: tftp", "tcp, port: 21, helper: ftp")
    (error,) = errors_of(text.replace(helpers, twice))
    assert "conntrack_helpers[1]: is there twice" in error


IPV6_FILES = (
    CLOUD.replace("{name: r,", "{name: r, enable_ndp_proxy: true,").replace(
        "fixed_ips: [10.0.0.9]", 'fixed_ips: [10.0.0.9, "2001:db8:2::9"]'
    ),
    "subnets: [{name: v6, network: n, cidr: 2001:db8:2::/64}]\n"
    "hosts: {h: {}}\n"
    "assignments: [{service: l3, host: h, router: r}]\n",
)
PROXY = "ndp_proxies: [{router: r, port: vm}]"


def test_an_ndp_proxy_finds_its_address_and_reaches_the_agent_of_its_router() -> None:
    found = good(*IPV6_FILES, PROXY)
    proxy = the(NdpProxy, found)
    assert proxy.address == ip_address("2001:db8:2::9")
    assert proxy.router_id == id_of(Kind.ROUTER, "r")
    assert found.warnings == ()
    assert proxy in reachable(found.items, Subscription("h", {Service.L3})).values()


def test_an_ndp_proxy_that_would_not_work_is_refused_or_a_warning() -> None:
    off = IPV6_FILES[0].replace("enable_ndp_proxy: true", "enable_ndp_proxy: false")
    (warning,) = good(off, IPV6_FILES[1], PROXY).warnings
    assert "state enable_ndp_proxy: true there" in warning.problem
    without = IPV6_FILES[0].replace(', "2001:db8:2::9"', "")
    (error,) = errors_of(without, IPV6_FILES[1], PROXY)
    assert "ndp_proxies[0].ip_address" in error


def test_an_l3_agent_gets_everything_that_the_sample_says_of_its_router() -> None:
    items = read_topology(ROOT / "samples/topologies/routers.yaml").items
    found = reachable(items, Subscription("host2", {Service.L3})).values()
    by_type = {
        kind: [each for each in found if isinstance(each, kind)]
        for kind in (Router, Port, Network, Subnet, FloatingIp, PortForwarding)
    }
    [router] = by_type[Router]
    assert len(router.routes) == 2
    names = {each.name for each in by_type[Port]}
    assert names >= {"edge-blue", "edge-green", "edge-outside", "web1"}
    assert {each.name for each in by_type[Network]} == {"blue", "green", "outside"}
    assert len(by_type[Subnet]) == 5
    assert Ipv6Mode.SLAAC in {each.ipv6_ra_mode for each in by_type[Subnet]}
    assert [len(by_type[FloatingIp]), len(by_type[PortForwarding])] == [2, 2]
    assert not reachable(items, Subscription("host1", {Service.L3}))
