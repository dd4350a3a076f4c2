"""Highly available routers of a file, and what is wrong with them."""

from __future__ import annotations

import pytest

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.binding import Binding
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.state.dependencies import reachable
from netfw.state.file import read_topology
from tests import ROOT
from tests.unit.state.file.topology_samples import all_of, errors_of, good, the, topology

CLOUD = """
networks: [{name: n}, {name: out, "router:external": true}, {name: ha}]
subnets:
- {name: s, network: n, cidr: 10.0.0.0/24}
- {name: o, network: out, cidr: 203.0.113.0/24}
- {name: h, network: ha, cidr: 169.254.192.0/18, gateway_ip: null}
routers:
- {name: r, ha: true, vrid: 7}
ports:
- {name: inside, network: n, router: r, hosts: [a, b], fixed_ips: [10.0.0.1]}
- {name: outside, network: out, router: r, hosts: [a, b], fixed_ips: [203.0.113.2]}
- {name: ha1, network: ha, router: r, device_owner: OWNER, host: a, fixed_ips: [169.254.192.1]}
- {name: ha2, network: ha, router: r, device_owner: OWNER, host: b, fixed_ips: [169.254.192.2]}
assignments:
- {service: l3, host: a, router: r}
- {service: l3, host: b, router: r}
""".replace("OWNER", "network:router_ha_interface")
SECOND = """
routers:
- {name: r2, ha: true, vrid: VRID}
ports:
- {name: h1, network: ha, router: r2, device_owner: OWNER, host: a, fixed_ips: [169.254.192.3]}
- {name: h2, network: ha, router: r2, device_owner: OWNER, host: b, fixed_ips: [169.254.192.4]}
""".replace("OWNER", "network:router_ha_interface")
OTHER_HA_NETWORK = """
networks: [{name: ha2}]
subnets: [{name: h2, network: ha2, cidr: 169.254.192.0/18, gateway_ip: null}]
"""


@pytest.mark.spec("DRV-21")
def test_ports_of_an_ha_router_are_on_all_its_hosts() -> None:
    found = good(CLOUD)
    ports = {port.name: port for port in all_of(Port, found)}
    assert the(Router, found).vrid == 7
    assert ports["inside"].device_owner == "network:ha_router_replicated_interface"
    assert ports["outside"].device_owner == "network:router_gateway"
    both = Binding(hosts={"a", "b"}, vif_type="ovs")
    assert (ports["inside"].binding, ports["outside"].binding) == (both, both)
    assert ports["ha1"].binding == Binding(host="a", vif_type="ovs")
    assert found.warnings == ()


@pytest.mark.spec("DRV-21")
@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            ", vrid: 7",
            "",
            "0.yaml:8: routers[0].vrid: is missing: state a number, 1 to 255, another one for each "
            "router of an HA network",
        ),
        (": 7", ": 0", "0.yaml:8: routers[0].vrid: 0 is outside 1 to 255"),
        (": 7", ": 256", "0.yaml:8: routers[0].vrid: 256 is outside 1 to 255"),
        (
            "host: a, ",
            "",
            "0.yaml:12: ports[2]: an HA port is on one host; state host",
        ),
        (
            "host: b, ",
            "host: a, ",
            "0.yaml:13: ports[3].host: a has an HA port of the router: ports[2] in 0.yaml; "
            "remove one of them, or state another host",
        ),
        (
            "router: r, hosts: [a, b], fixed_ips: [10",
            "router: r, host: a, fixed_ips: [10",
            "0.yaml:10: ports[0]: a port of a highly available router is on all its hosts; state "
            "hosts, those that the router is on",
        ),
        (
            "[169.254.192.2]",
            "[169.254.192.1]",
            "0.yaml:13: ports[3].fixed_ips[0]: 169.254.192.1 is the address of ports[2] in 0.yaml, "
            "an HA port too; state another one",
        ),
        (
            ", host: b, fixed_ips: [169.254.192.2]",
            ", host: b",
            "0.yaml:13: ports[3]: an HA port has an address; state fixed_ips",
        ),
        (
            "device_owner: network:router_ha_interface, host: b",
            "device_owner: network:ha_router_interface, host: b",
            "0.yaml:13: ports[3].device_owner: 'network:ha_router_interface' is no device owner of "
            "a port of a router; remove it, or state network:router_ha_interface for an HA port",
        ),
        (
            "router: r, device_owner: network:router_ha_interface, host: b",
            "device_owner: network:router_ha_interface, host: b",
            "0.yaml:13: ports[3]: an HA port is the port of a router; state router",
        ),
        (
            "router: r, device_owner: network:router_ha_interface, host: b",
            "router: rr, device_owner: network:router_ha_interface, host: b",
            "0.yaml:13: ports[3].router: there is no router 'rr' in the file, did you mean 'r'?",
        ),
        (
            "{name: ha2, network: ha, router: r, device_owner: network:router_ha_interface, "
            "host: b, fixed_ips: [169.254.192.2]}",
            "{name: ha2, network: ha, host: b}",
            "0.yaml:16: assignments[1]: the router has no HA port on b; add a port on its HA "
            "network with router, device_owner: network:router_ha_interface and host: b",
        ),
        (
            "{name: ha}",
            "{name: ha, network_type: local}",
            "0.yaml:12: ports[2].network: is of type local, so that the hosts of the router do not "
            "meet on it; state a network of another type",
        ),
        (
            "vrid: 7",
            "vrid: 7, distributed: true",
            "0.yaml:8: routers[0].distributed: a router of a file is highly available or "
            "distributed, not both; remove distributed or ha, or use netfw-server, which has such "
            "routers",
        ),
        (
            "[169.254.192.2]",
            "[169.254.192.2, 169.254.192.3]",
            "0.yaml:13: ports[3].fixed_ips: an HA port has one address, by which the hosts find "
            "each other; remove the others",
        ),
        (
            "hosts: [a, b], fixed_ips: [10",
            "hosts: [a, b], host: c, fixed_ips: [10",
            "0.yaml:10: ports[0].host: c is not one of hosts, which the port is on; remove host",
        ),
        (
            "host: b, ",
            "host: b, hosts: [a, b], ",
            "0.yaml:13: ports[3].hosts: an HA port is on one host; state host instead",
        ),
        (
            "router: r, hosts: [a, b], fixed_ips: [10",
            "router: r, hots: [a, b], fixed_ips: [10",
            "0.yaml:10: ports[0].hots: unknown attribute, did you mean 'hosts'?",
        ),
        (
            "host: a, fixed_ips",
            "host: a, 'binding:host_id': a, fixed_ips",
            "0.yaml:12: ports[2].host: is the short name of an attribute that is there, too; "
            "remove one of them",
        ),
        (
            "{service: l3, host: b, router: r}",
            "{service: l3, host: b, ruoter: r}",
            "0.yaml:16: assignments[1].ruoter: unknown attribute, did you mean 'router'?",
        ),
        (
            "hosts: [a, b], fixed_ips: [10",
            "hosts: [a], fixed_ips: [10",
            "0.yaml:10: ports[0].hosts: the router is on b too; state all hosts of the router",
        ),
    ],
)
def test_an_ha_router_that_no_host_could_implement_is_an_error(
    old: str, new: str, error: str
) -> None:
    assert old in CLOUD
    assert errors_of(CLOUD.replace(old, new, 1)) == [error]


@pytest.mark.spec("DRV-21")
def test_ha_ports_of_a_router_are_on_one_network() -> None:
    assert errors_of(CLOUD.replace("ha2, network: ha", "ha2, network: ha2"), OTHER_HA_NETWORK) == [
        "0.yaml:13: ports[3].network: is another one than that of ports[2] in 0.yaml; the HA ports "
        "of a router are on one network; state the same one"
    ]


@pytest.mark.spec("DRV-21")
def test_an_ha_router_without_ha_ports_is_an_error_for_each_host_that_has_it() -> None:
    lines = [line for line in CLOUD.splitlines() if "router_ha_interface" not in line]
    errors = errors_of("\n".join(lines))
    assert [error.partition(";")[0] for error in errors] == [
        f"0.yaml:{line}: assignments[{line - 13}]: the router has no HA port on {host}"
        for line, host in ((13, "a"), (14, "b"))
    ]
    good("\n".join(line for line in lines if "service: l3" not in line).replace("assignments:", ""))


@pytest.mark.spec("DRV-21")
def test_an_ha_network_that_vrrp_cannot_use_is_an_error() -> None:
    wide = CLOUD.replace("169.254.192.0/18", "169.254.0.0/16")
    use = "by which hosts mark the routers that are active there; state another subnet"
    problem = f"169.254.0.0/16 overlaps 169.254.0.0/24, {use}"
    assert errors_of(wide) == [
        f"0.yaml:{12 + at}: ports[{2 + at}].fixed_ips[0]: {problem}" for at in (0, 1)
    ]
    v6 = CLOUD.replace("169.254.192.0/18", "fd00:7::/64").replace("169.254.192.", "fd00:7::")
    assert errors_of(v6) == [
        f"0.yaml:{12 + at}: ports[{2 + at}].fixed_ips: VRRP needs an IPv4 address; state one"
        for at in (0, 1)
    ]


@pytest.mark.spec("DRV-21")
def test_a_host_of_ports_that_does_not_have_the_router_is_a_warning() -> None:
    found = good(CLOUD.replace("- {service: l3, host: b, router: r}", ""))
    problem = "b has no assignment of the router, so it takes no part in it"
    advice = "add {service: l3, host: b, router: r}, or remove the host here"
    assert [str(each) for each in found.warnings] == [
        f"0.yaml:{line}: ports[{line - 10}].{field}: {problem}; {advice}"
        for line, field in ((10, "hosts"), (11, "hosts"), (13, "host"))
    ]


@pytest.mark.spec("DRV-21")
def test_parts_of_a_highly_available_router_at_a_plain_one_are_warnings() -> None:
    found = good(CLOUD.replace("ha: true, vrid: 7", "ha: false"))
    advice = "or state ha: true and a vrid at the router"
    hosts = "the router is not highly available, so its ports are on one host; state host instead"
    ha_port = "is an HA port, and its router is not highly available; remove it"
    assert [str(warning) for warning in found.warnings] == [
        f"0.yaml:10: ports[0].hosts: {hosts}, {advice}",
        f"0.yaml:11: ports[1].hosts: {hosts}, {advice}",
        f"0.yaml:12: ports[2]: {ha_port}, {advice}",
        f"0.yaml:13: ports[3]: {ha_port}, {advice}",
        "0.yaml:16: assignments[1]: the router is not highly available, and on a by assignments[0] "
        f"in 0.yaml; remove one of the assignments, {advice}",
    ]
    (distributed,) = good(CLOUD.replace("ha: true, vrid: 7", "distributed: true")).warnings
    assert "an interface of a distributed router is on every host" in str(distributed)


@pytest.mark.spec("DRV-21")
def test_a_virtual_router_id_is_that_of_one_router_of_an_ha_network() -> None:
    assert errors_of(CLOUD, SECOND.replace("VRID", "7")) == [
        "1.yaml:3: routers[0].vrid: 7 is also that of routers[0] in 0.yaml, on the same HA "
        "network; state another one"
    ]
    good(CLOUD, SECOND.replace("VRID", "8"))
    elsewhere = SECOND.replace("VRID", "7").replace("network: ha,", "network: ha2,")
    good(CLOUD, elsewhere, OTHER_HA_NETWORK)


@pytest.mark.spec("DRV-21")
@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "10.0.0.",
            "169.254.0.",
            "0.yaml:10: ports[0].fixed_ips[0]: 169.254.0.0/24 overlaps 169.254.0.0/24, which the "
            "hosts of the router use among themselves; state another subnet",
        ),
        (
            "vrid: 7",
            "vrid: 7, routes: [{destination: 169.254.200.0/24, nexthop: 10.0.0.9}]",
            "0.yaml:8: routers[0].routes[0].destination: 169.254.200.0/24 would override "
            "169.254.192.0/18, which the hosts of the router use among themselves; remove the "
            "route",
        ),
        (
            "10.0.0.",
            "169.254.192.",
            "0.yaml:10: ports[0].fixed_ips[0]: 169.254.192.0/24 overlaps 169.254.192.0/18, which "
            "the hosts of the router use among themselves; state another subnet",
        ),
    ],
)
def test_an_address_or_route_that_hides_the_ha_network_is_an_error(
    old: str, new: str, error: str
) -> None:
    assert errors_of(CLOUD.replace(old, new)) == [error]


def test_a_host_of_several_that_is_not_described_is_a_warning() -> None:
    found = topology(
        CLOUD.replace("[a, b], fixed_ips: [10", "[a, b, c], fixed_ips: [10"),
        "hosts: {a: {}, b: {}}",
    ).warnings
    assert "0.yaml:10: ports[0].hosts: c is not among the hosts" in map(str, found)


def test_each_host_gets_everything_that_the_sample_says_of_its_ha_router() -> None:
    items = read_topology(ROOT / "samples/topologies/ha-router.yaml").items
    for host in ("host1", "host2"):
        found = reachable(items, Subscription(host, {Service.L3})).values()
        assert {each.name for each in found if isinstance(each, Port)} == {
            "edge-blue", "edge-outside", "edge-ha1", "edge-ha2", "web1",
        }  # fmt: skip
