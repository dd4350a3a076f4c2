"""Everyday work with an unchanged openstacksdk."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions

pytestmark = [pytest.mark.spec("API-11"), pytest.mark.filterwarnings("ignore::Warning:openstack")]


@pytest.fixture
def net(cloud: Any) -> Any:
    """Return the SDK's network service."""
    return cloud.network


@pytest.fixture
def blue(net: Any) -> Any:
    """Yield a network with a subnet of each family, and remove it with all its ports afterwards."""
    network = net.create_network(name="blue")
    net.create_subnet(network_id=network.id, name="four", ip_version=4, cidr="10.1.0.0/24")
    net.create_subnet(
        network_id=network.id,
        name="six",
        ip_version=6,
        cidr="2001:db8:1::/64",
        ipv6_ra_mode="slaac",
        ipv6_address_mode="slaac",
    )
    yield net.get_network(network.id)
    for port in net.ports(network_id=network.id):
        if port.device_owner.startswith("network:router_interface"):
            net.remove_interface_from_router(port.device_id, port=port.id)
        else:
            net.delete_port(port)
    net.delete_network(network, ignore_missing=False)


def test_networks_of_all_types(net: Any) -> None:
    wanted: list[dict[str, Any]] = [
        {"provider_network_type": "local"},
        {"provider_network_type": "flat", "provider_physical_network": "physnet2"},
        {
            "provider_network_type": "vlan",
            "provider_physical_network": "physnet1",
            "provider_segmentation_id": 142,
        },
        {"provider_network_type": "vxlan", "provider_segmentation_id": 4242},
        {"provider_network_type": "gre", "provider_segmentation_id": 42},
        {"provider_network_type": "geneve", "provider_segmentation_id": 42},
    ]
    made = [net.create_network(name=f"typed-{count}", **one) for count, one in enumerate(wanted)]
    for network, asked in zip(made, wanted, strict=True):
        shown = net.get_network(network.id)
        assert {name: getattr(shown, name) for name in asked} == asked
    found = list(net.networks(provider_network_type="vlan", provider_segmentation_id=142))
    assert [each.id for each in found] == [made[2].id]
    changed = net.update_network(made[0], description="words", is_shared=True, mtu=1400)
    assert (changed.description, changed.is_shared, changed.mtu) == ("words", True, 1400)
    assert net.find_network("typed-3").id == made[3].id
    with pytest.raises(exceptions.ConflictException):
        net.create_network(**wanted[2])
    for network in made:
        net.delete_network(network, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        net.get_network(made[0].id)


def test_ports_with_everything_on_them(net: Any, blue: Any) -> None:
    four, six = (net.find_subnet(name, network_id=blue.id) for name in ("four", "six"))
    group = net.create_security_group(name="web")
    port = net.create_port(
        network_id=blue.id,
        name="p",
        mac_address="02:00:00:00:00:42",
        fixed_ips=[{"subnet_id": four.id, "ip_address": "10.1.0.42"}, {"subnet_id": six.id}],
        security_group_ids=[group.id],
        allowed_address_pairs=[{"ip_address": "10.9.0.0/24"}],
        extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1400"}],
        binding_host_id="nowhere",
        device_owner="compute:nova",
        device_id="vm-1",
        description="d",
        tags=["red"],
    )
    result = net.get_port(port.id)
    addresses = {each["ip_address"] for each in result.fixed_ips}
    assert addresses == {"10.1.0.42", "2001:db8:1::ff:fe00:42"}
    assert result.mac_address == "02:00:00:00:00:42"
    assert result.security_group_ids == [group.id]
    assert result.allowed_address_pairs[0]["ip_address"] == "10.9.0.0/24"
    assert result.extra_dhcp_opts[0]["opt_value"] == "1400"
    assert (result.binding_host_id, result.binding_vif_type) == ("nowhere", "binding_failed")
    assert result.tags == ["red"]
    assert result.status == "DOWN"
    assert [each.id for each in net.ports(fixed_ips="ip_address=10.1.0.42")] == [port.id]
    assert [each.id for each in net.ports(device_id="vm-1")] == [port.id]
    assert [each.id for each in net.ports(mac_address="02:00:00:00:00:42")] == [port.id]
    for taken in ({"fixed_ips": [{"ip_address": "10.1.0.42"}]}, {"mac_address": port.mac_address}):
        with pytest.raises(exceptions.ConflictException):
            net.create_port(network_id=blue.id, **taken)
    with pytest.raises(exceptions.ConflictException):
        net.delete_security_group(group, ignore_missing=False)
    changed = net.update_port(port, name="q", is_admin_state_up=False, security_group_ids=[])
    assert (changed.name, changed.is_admin_state_up, changed.security_group_ids) == ("q", False, [])
    net.delete_port(port, ignore_missing=False)
    net.delete_security_group(group, ignore_missing=False)


def test_many_ports_at_once_and_in_pages(net: Any, blue: Any) -> None:
    made = list(net.create_ports([{"network_id": blue.id, "name": f"m{i}"} for i in range(25)]))
    assert len({each.id for each in made}) == 25
    paged = list(net.ports(network_id=blue.id, limit=10))
    assert {each.id for each in paged} >= {each.id for each in made}
    named = list(net.ports(network_id=blue.id, sort_key="name", sort_dir="desc", limit=7))
    assert [each.name for each in named] == sorted((each.name for each in named), reverse=True)
    few = next(net.ports(network_id=blue.id, fields="id"))
    assert few.name is None


def test_revisions_guard_updates(net: Any, blue: Any) -> None:
    stale = blue.revision_number
    net.update_network(blue, description="first")
    with pytest.raises(exceptions.PreconditionFailedException):
        net.update_network(blue.id, if_revision=stale, description="second")


def test_routers_with_interfaces_gateways_and_routes(net: Any, blue: Any) -> None:
    four = net.find_subnet("four", network_id=blue.id)
    public = net.create_network(
        name="public",
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network="physnet1",
    )
    outside = net.create_subnet(
        network_id=public.id, ip_version=4, cidr="203.0.113.0/24", is_dhcp_enabled=False
    )
    router = net.create_router(name="r", external_gateway_info={"network_id": public.id})
    assert router.external_gateway_info["enable_snat"] is True
    added = net.add_interface_to_router(router, subnet=four.id)
    assert added["subnet_id"] == four.id
    port = net.create_port(network_id=blue.id)
    route = {"destination": "10.99.0.0/16", "nexthop": "10.1.0.77"}
    assert net.update_router(router, routes=[route]).routes == [route]
    more = {"destination": "10.98.0.0/16", "nexthop": "10.1.0.77"}
    assert len(net.add_extra_routes_to_router(router, {"router": {"routes": [more]}}).routes) == 2
    left = net.remove_extra_routes_from_router(router, {"router": {"routes": [route]}})
    assert left.routes == [more]

    floating = net.create_ip(floating_network_id=public.id, port_id=port.id)
    assert floating.router_id == router.id
    assert floating.fixed_ip_address == net.get_port(port.id).fixed_ips[0]["ip_address"]
    assert net.find_ip(floating.floating_ip_address).id == floating.id
    with pytest.raises(exceptions.ConflictException):
        net.remove_interface_from_router(router, subnet=four.id)
    assert net.update_ip(floating, port_id=None).router_id is None
    net.delete_ip(floating, ignore_missing=False)
    with pytest.raises(exceptions.ConflictException):
        net.delete_router(router, ignore_missing=False)
    net.update_router(router, routes=[])
    net.remove_interface_from_router(router, subnet=four.id)
    assert net.update_router(router, external_gateway_info={}).external_gateway_info is None
    net.delete_router(router, ignore_missing=False)
    net.delete_subnet(outside, ignore_missing=False)
    net.delete_network(public, ignore_missing=False)


@pytest.mark.spec("API-07")
def test_port_forwardings(net: Any, blue: Any) -> None:
    four = net.find_subnet("four", network_id=blue.id)
    public = net.create_network(name="forwarding", is_router_external=True)
    net.create_subnet(network_id=public.id, ip_version=4, cidr="198.18.0.0/24")
    router = net.create_router(name="edge", external_gateway_info={"network_id": public.id})
    net.add_interface_to_router(router, subnet=four.id)
    port = net.create_port(network_id=blue.id, fixed_ips=[{"subnet_id": four.id}])
    floating = net.create_ip(floating_network_id=public.id)
    inside = {
        "internal_port_id": port.id,
        "internal_ip_address": port.fixed_ips[0]["ip_address"],
        "protocol": "tcp",
    }
    web = net.create_floating_ip_port_forwarding(
        floating, internal_port=80, external_port=8080, **inside
    )
    assert (web.internal_port, web.external_port, web.protocol) == (80, 8080, "tcp")
    with pytest.raises(exceptions.BadRequestException, match="overlaps"):
        net.create_floating_ip_port_forwarding(
            floating, internal_port=81, external_port=8080, **inside
        )
    found = list(net.floating_ip_port_forwardings(floating, protocol="tcp"))
    assert [each.id for each in found] == [web.id]
    assert net.get_floating_ip_port_forwarding(floating, web.id).external_port == 8080
    changed = net.update_floating_ip_port_forwarding(floating, web.id, external_port=8081)
    assert changed.external_port == 8081
    shown = net.get_ip(floating.id)
    assert (shown.router_id, shown.port_id, len(shown.port_details or ())) == (router.id, None, 0)
    with pytest.raises(exceptions.ConflictException, match="port forwardings"):
        net.delete_ip(floating)
    net.delete_floating_ip_port_forwarding(floating, web.id, ignore_missing=False)
    net.delete_ip(floating, ignore_missing=False)
    net.delete_port(port)
    net.remove_interface_from_router(router, subnet=four.id)
    net.delete_router(router, ignore_missing=False)
    net.delete_network(public, ignore_missing=False)


def test_security_groups_and_rules(net: Any) -> None:
    group = net.create_security_group(name="db", description="d")
    assert {each["ethertype"] for each in group.security_group_rules} == {"IPv4", "IPv6"}
    rule = net.create_security_group_rule(
        security_group_id=group.id,
        direction="ingress",
        protocol="tcp",
        port_range_min=5432,
        port_range_max=5432,
        remote_ip_prefix="10.0.0.0/8",
    )
    assert (rule.protocol, rule.ether_type) == ("tcp", "IPv4")
    with pytest.raises(exceptions.ConflictException):
        net.create_security_group_rule(
            security_group_id=group.id,
            direction="ingress",
            protocol="tcp",
            port_range_min=5432,
            port_range_max=5432,
            remote_ip_prefix="10.0.0.0/8",
        )
    rules = list(net.security_group_rules(security_group_id=group.id, direction="ingress"))
    assert [each.id for each in rules] == [rule.id]
    assert net.update_security_group(group, name="db2").name == "db2"
    net.delete_security_group_rule(rule, ignore_missing=False)
    net.delete_security_group(group, ignore_missing=False)


@pytest.mark.spec("API-07")
def test_address_groups_in_rules(net: Any) -> None:
    office = net.create_address_group(name="office", addresses=["10.0.0.1/24", "2001:db8::/64"])
    assert office.addresses == ["10.0.0.0/24", "2001:db8::/64"]
    assert net.find_address_group("office").id == office.id
    changed = net.add_addresses_to_address_group(office, ["192.0.2.7/32"])
    assert "192.0.2.7/32" in changed.addresses
    net.remove_addresses_from_address_group(office, ["10.0.0.0/24"])
    assert net.get_address_group(office.id).addresses == ["192.0.2.7/32", "2001:db8::/64"]
    assert net.update_address_group(office, description="both floors").description == "both floors"
    group = net.create_security_group(name="sdk-offices")
    rule = net.create_security_group_rule(
        security_group_id=group.id, direction="ingress", remote_address_group_id=office.id
    )
    assert rule.remote_address_group_id == office.id
    with pytest.raises(exceptions.ConflictException):
        net.delete_address_group(office, ignore_missing=False)
    net.delete_security_group(group, ignore_missing=False)
    net.delete_address_group(office, ignore_missing=False)
    assert net.find_address_group("office") is None


@pytest.mark.spec("API-07")
def test_default_rules_of_new_groups(net: Any) -> None:
    assert len(list(net.default_security_group_rules())) == 4
    rule = net.create_default_security_group_rule(
        direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22
    )
    assert (rule.used_in_default_sg, rule.used_in_non_default_sg) == (False, True)
    group = net.create_security_group(name="sdk-new")
    ports = [each["port_range_min"] for each in group.security_group_rules]
    assert sorted(ports, key=str) == [22, None, None]
    net.delete_security_group(group, ignore_missing=False)
    net.delete_default_security_group_rule(rule, ignore_missing=False)
    assert len(list(net.default_security_group_rules(used_in_non_default_sg=True))) == 2


def test_tags(net: Any, blue: Any) -> None:
    net.set_tags(blue, ["one", "two"])
    assert net.get_network(blue.id).tags == ["one", "two"]
    assert [each.id for each in net.networks(tags="one,two")] == [blue.id]
    assert list(net.networks(tags="one,three")) == []
    net.set_tags(blue, [])
    assert net.get_network(blue.id).tags == []


def test_quotas(net: Any) -> None:
    project = "some-project"
    assert net.get_quota(project).networks == 100
    net.update_quota(project, networks=7)
    assert net.get_quota(project).networks == 7
    details = net.get_quota(project, details=True)
    assert details.networks == {"limit": 7, "used": 0, "reserved": 0}
    assert net.get_quota_default(project).networks == 100
    assert [each.project_id for each in net.quotas()] == [project]
    net.delete_quota(project)
    assert net.get_quota(project).networks == 100


def test_what_clients_look_around_for(net: Any) -> None:
    aliases = {each.alias for each in net.extensions()}
    assert {"router", "security-group", "port-security", "binding"} <= aliases
    assert net.find_extension("quotas").alias == "quotas"
    assert list(net.agents()) == []
    assert list(net.availability_zones()) == []
    assert {each.name for each in net.service_providers()} == {"single_node", "ha", "dvr", "dvrha"}
    assert all(each.network_type for each in net.segments())
    refused = net.get("/networks?nmae=x")
    assert (refused.status_code, "did you mean 'name'" in refused.text) == (400, True)


@pytest.mark.spec("API-07")
def test_networks_and_groups_shared_by_policies(net: Any, blue: Any) -> None:
    group = net.create_security_group(name="offered")
    shared = {"action": "access_as_shared", "target_project_id": "f" * 32}
    policies = [
        net.create_rbac_policy(object_type=kind, object_id=each.id, **shared)
        for kind, each in (("network", blue), ("security_group", group))
    ]
    assert [each.target_project_id for each in policies] == ["f" * 32] * 2
    assert net.find_rbac_policy(policies[0].id) == net.get_rbac_policy(policies[0].id)
    found = list(net.rbac_policies(object_type="network", target_project_id="f" * 32))
    assert [each.id for each in found] == [policies[0].id]
    with pytest.raises(exceptions.ConflictException):
        net.create_rbac_policy(object_type="network", object_id=blue.id, **shared)
    changed = net.update_rbac_policy(policies[0], target_project_id="*")
    assert (changed.target_project_id, net.get_network(blue.id).is_shared) == ("*", True)
    net.update_network(blue.id, is_shared=False)
    assert net.find_rbac_policy(policies[0].id) is None
    net.delete_security_group(group, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        net.get_rbac_policy(policies[1].id)
