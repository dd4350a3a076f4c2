"""Who has to wait until somebody else has given up an address."""

from __future__ import annotations

from attrs import evolve

from netfw.model.subnet import Ipv6Mode
from netfw.model.values.dhcp_option import DhcpOption
from netfw.testing.conformance.dhcp.factories import Tenant, a_subnet, a_subnet6, make_network
from netfw_drivers.dnsmasq.config.file_parsers import addresses_in, read_host
from netfw_drivers.dnsmasq.config.render import render_port
from netfw_drivers.dnsmasq.plan.steps import DropPort, MarkReload, PutPort, SignalServer
from tests.unit.backends.dnsmasq.plan.samples import TERMS, found_network, planned, stages


def moved(port: Tenant, to: Tenant) -> Tenant:
    return port.but(fixed_ips=to.value.fixed_ips)


def test_port_with_an_address_in_use_waits_and_names_its_holder() -> None:
    net = make_network()
    keeper, other = net.tenant(20), net.tenant(30)
    observed = found_network(net, keeper, other)
    late, same_mac = net.tenant(20), net.tenant(40, mac=keeper.mac)
    more = other.but(fixed_ips=other.value.fixed_ips + keeper.value.fixed_ips)
    plan = planned(observed, late, same_mac, more)
    assert not plan
    assert plan.waiting == {
        late.key: f"{late.ip} is still of port {keeper.port}",
        same_mac.key: f"{keeper.mac} is still of port {keeper.port}",
        other.key: f"{keeper.ip} is still of port {keeper.port}",
    }


def test_holder_of_an_address_has_precedence_in_any_order() -> None:
    net = make_network()
    keeper, late = net.tenant(20), net.tenant(20)
    observed = found_network(net, keeper)
    for order in ([late, keeper.but(hostname="a")], [keeper.but(hostname="a"), late]):
        plan = planned(observed, *order)
        assert plan.waiting.keys() == {late.key}
        assert PutPort in stages(plan)
    first, second = net.tenant(50), net.tenant(50)
    assert planned(observed, first, second).waiting.keys() == {second.key}


def test_addresses_are_passed_on_within_one_update() -> None:
    net = make_network()
    one, two, three = net.tenant(20), net.tenant(21), net.tenant(22)
    observed = found_network(net, one, two, three)
    turned = [moved(one, two), moved(two, three), moved(three, one)]
    assert not planned(observed, *turned).waiting
    assert not planned(observed, moved(one, two), drop=[two]).waiting


def test_waiting_port_releases_its_former_address() -> None:
    # Two ports that swap one after the other would wait for each other for ever.
    net = make_network()
    one, two, three = net.tenant(20), net.tenant(21), net.tenant(22)
    observed = found_network(net, one, two, three)
    plan = planned(observed, moved(one, two), moved(two, three))
    assert plan.waiting.keys() == {two.key}
    assert stages(plan) == [MarkReload, PutPort, DropPort, SignalServer]
    assert stages(planned(observed, moved(one, two))) == [DropPort]
    more = two.but(fixed_ips=two.value.fixed_ips + three.value.fixed_ips)
    plan = planned(observed, more)
    assert not plan.stages, "it keeps what is its own"
    assert plan.waiting.keys() == {two.key}


def test_refused_port_releases_its_former_address() -> None:
    net = make_network()
    port, successor = net.tenant(20), net.tenant(20)
    observed = found_network(net, port)
    refused = port.but(fixed_ips=net.tenant(21).value.fixed_ips, hostname="a\nb")
    plan = planned(observed, refused)
    assert plan.refused.keys() == {port.key}
    assert stages(plan) == [DropPort]
    both = planned(observed, refused, successor)
    assert not both.waiting
    assert stages(both) == [MarkReload, PutPort, DropPort, SignalServer]
    assert not planned(observed, port.but(hostname="a\nb")).stages, "it is served as it was"


def test_changed_network_gives_no_port_the_address_of_another() -> None:
    net = make_network()
    keeper, late = net.tenant(20), net.tenant(20)
    observed = found_network(net, keeper)
    (found,) = observed.networks.values()
    waited = {keeper.port: keeper.value, late.port: late.value}
    observed = evolve(observed, networks={net.id: evolve(found, desired_ports=waited)})
    plan = planned(observed, net.but(dns_domain="a.org"))
    assert [o.payload.port for o in plan if isinstance(o.payload, PutPort)] == [keeper.port]


def test_the_addresses_in_a_file_are_read_alike_in_both_ways() -> None:
    net = make_network(a_subnet(), a_subnet6(Ipv6Mode.STATEFUL), a_subnet())
    options = (
        DhcpOption(name="client-id", value="01:02:03:04:05:06:07"),
        DhcpOption(name="42", value="10.0.0.9"),
    )
    for hostname, own in (
        ("", ()),
        ("10.0.0.7.example", options),
        ("cafe", ()),
        ("1.2.3", options),
    ):
        port = net.tenant(20, on=(0, 1, 2), hostname=hostname, domain="4.org", options=own)
        host = render_port(port.port, port.value, net.value, TERMS.settings).host
        assert addresses_in(host) == read_host(host).words == {port.mac, *map(str, port.addresses)}
    assert addresses_in("") == frozenset()


def test_broken_lines_of_a_file_are_passed_over() -> None:
    whole = "fa:16:3e:00:00:01,10.0.0.5"
    assert addresses_in(f"\n{whole}\n,\nfa:16:3e:00:00:02,\n") == {
        "fa:16:3e:00:00:01", "10.0.0.5", "fa:16:3e:00:00:02",
    }  # fmt: skip
