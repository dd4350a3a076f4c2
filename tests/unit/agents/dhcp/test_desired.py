"""What a host should serve, from what its source says."""

from ipaddress import ip_address, ip_interface
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.dhcp.desired import DesiredDhcp, DhcpHostContext
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.agents.dhcp.resource_index import DhcpResourceIndex
from netfw.drivers.values.keys import NetworkKey, PortKey, RouterKey
from netfw.model.port import DnsAssignment, FixedIp
from netfw.model.resource import ref
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import RouterId
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE
from tests.unit.agents.dhcp.environment import (
    HERE,
    NET,
    OTHER,
    OTHER_SUBNET,
    SUBNET,
    port,
    router_interface,
    server_port,
    subnet,
)
from tests.unit.agents.l2.environment import learn

ONE, TWO = port(11, NET), port(12, NET)
VIEW = DhcpHostContext(host=HERE)


def desired(*resources, **view):
    found = DesiredDhcp(DhcpHostContext(host=HERE, **view), DhcpResourceIndex())
    learn(found, resources)
    return found


def network_spec(*resources, **view):
    return desired(*resources, **view).networks.get(NET.id)


@pytest.mark.spec("DHCP-05")
def test_networks_that_are_down_or_have_no_dhcp_are_not_served():
    assert network_spec(NET, SUBNET) is not None
    assert network_spec(evolve(NET, admin_up=False), SUBNET) is None
    assert network_spec(NET, evolve(SUBNET, enable_dhcp=False)) is None
    assert network_spec(NET) is None
    assert network_spec(SUBNET) is None
    assert not desired(evolve(NET, admin_up=False), SUBNET, ONE).ports


def test_ports_with_addresses_are_served_except_server_ports():
    router, bare = router_interface(1, NET), port(13, NET, fixed_ips=())
    found = desired(NET, SUBNET, ONE, router, bare, server_port(2, NET), server_port(3, NET, HERE))
    assert found.ports.keys() == {ONE.id, router.id}


def test_a_port_brings_its_name_options_and_addresses():
    name = DnsAssignment(address=ONE.fixed_ips[0].address, hostname="web", fqdn="web.example.org.")
    option = DhcpOption(name="bootfile-name", value="x")
    named = evolve(ONE, dns_domain="example.org", dns_assignment=(name,), dhcp_options=(option,))
    value = desired(NET, SUBNET, named).ports[ONE.id]
    assert (value.hostname, value.domain, value.options) == ("web", "example.org", (option,))
    assert (value.network, value.mac, value.fixed_ips) == (NET.id, ONE.mac, ONE.fixed_ips)
    other = evolve(name, address=ip_address("10.1.0.99"), hostname="host-10-1-0-99")
    value = desired(NET, SUBNET, evolve(ONE, dns_assignment=(name, other))).ports[ONE.id]
    assert value.hostname == ""


def test_a_port_that_says_no_domain_has_none_of_its_own_whatever_the_source_takes_for_it():
    name = DnsAssignment(
        address=ONE.fixed_ips[0].address, hostname="web", fqdn="web.openstacklocal."
    )
    value = desired(NET, SUBNET, evolve(ONE, dns_assignment=(name,))).ports[ONE.id]
    assert (value.hostname, value.domain) == ("web", "")


def test_a_port_to_which_no_names_are_assigned_is_called_as_it_says():
    named = evolve(ONE, dns_name="web", dns_domain="example.org.")
    value = desired(NET, SUBNET, named).ports[ONE.id]
    assert (value.hostname, value.domain) == ("web", "example.org.")


OWNED = evolve(NET, project_id="owner")
OWNERS = evolve(ONE, project_id="owner", dns_name="Web")
MEMBERS = evolve(TWO, project_id="member", dns_name="web")
OTHERS = evolve(port(13, NET), project_id="other", dns_name="web")


def names(found):
    return {id: (value.hostname, value.domain) for id, value in found.ports.items()}


def test_a_domain_of_a_port_is_served_for_the_owner_of_the_network_alone():
    theirs = [evolve(each, dns_domain="bank.example") for each in (OWNERS, MEMBERS)]
    found = desired(OWNED, SUBNET, evolve(theirs[0], dns_name="a"), theirs[1])
    assert names(found) == {ONE.id: ("a", "bank.example"), TWO.id: ("web", "")}


def test_client_identifiers_are_served_for_the_owner_of_the_network_alone():
    boot = DhcpOption(name="bootfile-name", value="x")
    stolen = (
        DhcpOption(name="client-id", value="01:02:03:04:05"),
        DhcpOption(name="61", value="01:02:03:04:05"),
        DhcpOption(name="1", value="00:03:00:01:ff", ip_version=6),
    )
    theirs = [evolve(each, dhcp_options=(*stolen, boot)) for each in (OWNERS, MEMBERS)]
    found = desired(OWNED, SUBNET, *theirs)
    assert found.ports[ONE.id].options == (*stolen, boot)
    assert found.ports[TWO.id].options == (boot,)


def test_a_name_that_two_projects_use_is_served_for_the_network_owner_alone():
    found = desired(OWNED, SUBNET, MEMBERS)
    assert names(found) == {TWO.id: ("web", "")}
    found.take_changed()
    learn(found, [OTHERS])
    assert names(found) == {TWO.id: ("", ""), OTHERS.id: ("", "")}
    assert found.take_changed() == {PortKey(TWO.id), PortKey(OTHERS.id)}
    learn(found, [OWNERS])
    assert names(found) == {ONE.id: ("Web", ""), TWO.id: ("", ""), OTHERS.id: ("", "")}
    learn(found, drop=[ref(OTHERS), ref(OWNERS)])
    assert names(found) == {TWO.id: ("web", "")}


def test_ports_of_one_project_can_share_a_name():
    again = evolve(OTHERS, project_id="member")
    found = desired(OWNED, SUBNET, MEMBERS, again)
    assert names(found) == {TWO.id: ("web", ""), again.id: ("web", "")}
    found.take_changed()
    learn(found, [evolve(port(14, NET), project_id="member", dns_name="web")])
    assert found.take_changed() == {PortKey(port(14, NET).id)}, "the others are as they were"


@pytest.mark.parametrize("name", [
    "wpad", "WPAD.example.org.", "isatap", "localhost", "host-10-1-0-12", "Host-10-1-0-12",
    "host-fd00-0000-0000-0000-0000-0000-0000-000c",
])  # fmt: skip
def test_reserved_names_are_not_served(name):
    assert desired(NET, SUBNET, evolve(ONE, dns_name=name)).ports[ONE.id].hostname == ""


@given(st.permutations([OWNED, SUBNET, OWNERS, MEMBERS, OTHERS]), st.integers(0, 4))
def test_names_depend_on_no_order(resources, cut):
    found = desired(*resources[:cut])
    learn(found, resources[cut:])
    learn(found, drop=[ref(OTHERS)])
    assert names(found) == {ONE.id: ("Web", ""), TWO.id: ("", "")}
    learn(found, [evolve(OWNERS, dns_name="", revision=2)])
    assert names(found) == {ONE.id: ("", ""), TWO.id: ("web", "")}


@pytest.mark.spec("DHCP-20")
def test_the_servers_port_is_taken_from_the_source_when_it_is_as_it_should_be():
    second = evolve(subnet(NET, 7), enable_dhcp=True)
    own = server_port(2, NET, HERE)
    assert network_spec(NET, SUBNET, own).own.addresses == (ip_interface("10.1.0.2/24"),)
    assert network_spec(NET, SUBNET, second, own).own is None
    assert network_spec(NET, SUBNET, second, own).request.subnets == {SUBNET.id, second.id}
    silent = evolve(second, enable_dhcp=False)
    assert network_spec(NET, SUBNET, silent, own).own is not None
    assert network_spec(NET, SUBNET, evolve(own, device_id=RESERVED_DHCP_DEVICE)).own is None


@pytest.mark.spec("DHCP-21")
def test_a_fabric_that_routes_serves_from_the_gateways_addresses():
    bare = server_port(2, NET, HERE, fixed_ips=())
    found = network_spec(NET, SUBNET, evolve(subnet(NET, 7), gateway=None), bare, gateways=True)
    assert found.request.subnets == frozenset()
    assert found.own.addresses == (ip_interface("10.1.0.1/24"),)


def test_other_servers_are_peers_while_they_serve():
    others = [server_port(2, NET), server_port(3, NET, device_id=RESERVED_DHCP_DEVICE)]
    found = network_spec(NET, SUBNET, *others, server_port(4, NET, HERE))
    assert found.peers == (ip_interface("10.1.0.2/24"),)


@pytest.mark.spec("DHCP-02", "DHCP-80")
def test_one_more_port_concerns_itself_alone():
    found = desired(NET, SUBNET, OTHER, OTHER_SUBNET, *(port(n, NET) for n in range(11, 200)))
    found.take_changed()
    learn(found, [port(201, NET)])
    assert found.take_changed() == {PortKey(port(201, NET).id)}
    learn(found, [evolve(ONE, name="another", revision=2)])
    assert not found.take_changed()
    assert PortKey(ONE.id) in found.take_touched()
    learn(found, drop=[ref(ONE)])
    assert found.take_changed() == {PortKey(ONE.id)}
    learn(found, [evolve(SUBNET, dns_nameservers=("192.0.2.53",))])
    assert found.take_changed() == {NetworkKey(NET.id)}


FORCED, ISOLATED, META = (
    MetadataPolicy(force=True), MetadataPolicy(isolated=True), MetadataPolicy(network=True),
)  # fmt: skip
LINK_LOCAL = subnet(NET, cidr="169.254.0.0/16", gateway="169.254.0.1")


def lead(rules, *resources):
    found = network_spec(NET, *resources, metadata=rules)
    return None if found is None else found.proxy


@pytest.mark.spec("DHCP-60")
def test_proxy_is_forced_or_serves_isolated_subnets():
    gateway, aside = router_interface(1, NET), router_interface(5, NET)
    assert lead(MetadataPolicy(), SUBNET) is None
    assert lead(FORCED, SUBNET, gateway).key == NetworkKey(NET.id)
    assert lead(FORCED, SUBNET, gateway).subnets == {SUBNET.id}
    assert lead(ISOLATED, SUBNET).subnets == {SUBNET.id}
    assert lead(ISOLATED, SUBNET, gateway) is None
    assert lead(ISOLATED, SUBNET, aside).subnets == {SUBNET.id}
    assert lead(ISOLATED, SUBNET, evolve(gateway, device_owner="network:router_gateway"))
    assert lead(ISOLATED, evolve(SUBNET, gateway=None), gateway)
    assert lead(FORCED, evolve(SUBNET, enable_dhcp=False)) is None
    assert lead(META, SUBNET) is None


@pytest.mark.spec("DHCP-60")
def test_a_metadata_network_is_for_exactly_one_router():
    first = router_interface(1, NET, 9, on=LINK_LOCAL)
    second = router_interface(2, NET, 10, on=LINK_LOCAL)
    assert lead(META, LINK_LOCAL, first).key == RouterKey(RouterId(UUID(int=9)))
    assert lead(META, LINK_LOCAL).key == NetworkKey(NET.id)
    both = lead(META, LINK_LOCAL, first, second)
    assert both.key is None
    assert "one router" in both.problem
    nobody = lead(META, LINK_LOCAL, evolve(first, device_id="nobody"))
    assert "names no router" in nobody.problem
    assert lead(ISOLATED, LINK_LOCAL, first) is None


networks = st.sampled_from([NET, OTHER, evolve(NET, admin_up=False), evolve(OTHER, mtu=9000)])
subnets = st.sampled_from([
    SUBNET, OTHER_SUBNET, LINK_LOCAL, evolve(SUBNET, enable_dhcp=False),
    evolve(OTHER_SUBNET, enable_dhcp=False), subnet(NET, 7), subnet(OTHER, 7),
])  # fmt: skip
ports = st.builds(
    lambda kind, number, of, revision: evolve(kind(number, of), revision=revision),
    st.sampled_from([
        port, router_interface, server_port,
        lambda number, of: server_port(number, of, HERE),
        lambda number, of: port(number, of, fixed_ips=()),
    ]),
    st.integers(11, 14), st.sampled_from([NET, OTHER]), st.integers(1, 2),
)  # fmt: skip
resources = networks | subnets | ports
steps = st.tuples(st.lists(resources, max_size=4), st.lists(resources.map(ref), max_size=2))


@given(st.lists(steps, max_size=12), st.sampled_from([ISOLATED, FORCED, META, MetadataPolicy()]))
def test_a_history_ends_where_its_end_begins(history, rules):
    view = DhcpHostContext(host=HERE, metadata=rules)
    lived, known, applied = DesiredDhcp(view, DhcpResourceIndex()), {}, {}
    for put, drop in [([NET, SUBNET, OTHER, OTHER_SUBNET], []), *history]:
        new = {ref(each): each for each in put}
        gone = [key for key in drop if key not in new]
        known = {**{key: each for key, each in known.items() if key not in gone}, **new}
        learn(lived, new.values(), gone)
        for key in lived.take_changed():
            applied[key] = _value(lived, key)
    fresh = DesiredDhcp(view, DhcpResourceIndex())
    learn(fresh, known.values())
    assert (lived.networks, lived.ports) == (fresh.networks, fresh.ports)
    assert {key: value for key, value in applied.items() if value} == {
        key: _value(fresh, key) for key in fresh.all_keys()
    }


def _value(found, key):
    return (
        found.networks.get(key.network)
        if isinstance(key, NetworkKey)
        else found.ports.get(key.port)
    )


@pytest.mark.spec("L3-27")
def test_subnets_without_a_delegated_prefix_are_not_served():
    modes = dict.fromkeys(("ipv6_ra_mode", "ipv6_address_mode"), Ipv6Mode.SLAAC)
    pool = {"subnet_pool_id": "prefix_delegation", **modes}
    waiting = subnet(NET, 7, cidr="::/64", gateway="::1", **pool)
    there = evolve(waiting, cidr="2001:db8::/64", gateway="2001:db8::1")
    own = FixedIp(subnet_id=waiting.id, address=ip_address("::7"))
    both = evolve(ONE, fixed_ips=(*ONE.fixed_ips, own))
    found = desired(NET, SUBNET, waiting, both, evolve(TWO, fixed_ips=(own,)))
    spec = found.networks[NET.id]
    assert (spec.subnets, spec.request.subnets) == ((SUBNET,), {SUBNET.id})
    assert [each.fixed_ips for each in found.ports.values()] == [ONE.fixed_ips]
    assert network_spec(NET, waiting) is None
    server = server_port(3, NET, HERE)
    server = evolve(server, fixed_ips=(*server.fixed_ips, own))
    assert network_spec(NET, SUBNET, waiting, server).own is not None
    assert network_spec(NET, there).request.subnets == {there.id}
