"""Routers and their gateways, in a whole core on a real database."""

from __future__ import annotations

from uuid import uuid4

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import (
    ConfigError,
    Conflict,
    Exhausted,
    InvalidInput,
    NotFound,
    NotSupported,
    Outdated,
)
from netfw.server.db import Database
from netfw.server.ml2.builder import publish
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Layer3

pytestmark = pytest.mark.spec("API-06")


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def owners(core: Layer3, router: str) -> list[str]:
    return sorted(port["device_owner"] for port in core.ports_of(router))


class TestRouters:
    def test_begin_without_anything(self, core: Layer3) -> None:
        made = core.create("router", name="r", description="d")
        assert made["status"] == "ACTIVE"
        assert made["external_gateway_info"] is None
        assert (made["ha"], made["distributed"], made["routes"]) == (False, False, [])
        assert core.show("router", made["id"], ANNA) == made
        with pytest.raises(NotFound):
            core.show("router", made["id"], BERT)

    def test_change_in_parts(self, core: Layer3) -> None:
        id = core.router()
        after = core.update("router", id, name="other", admin_state_up=False)
        assert (after["name"], after["admin_state_up"], after["revision_number"]) == (
            "other",
            False,
            2,
        )
        with pytest.raises(Outdated):
            core.plugin("router").update(ANNA, "router", id, {"name": "x"}, 1)

    def test_are_counted(self, file_database: Database) -> None:
        core = Layer3(file_database, {"router": 1})
        id = core.router()
        with pytest.raises(Exhausted, match="router"):
            core.router()
        core.delete("router", id)
        core.router()

    def test_become_of_another_kind_only_while_they_are_down(self, core: Layer3) -> None:
        _, subnet = core.inside()
        id = core.router()
        core.connect(id, subnet_id=subnet)
        for kind in ("ha", "distributed"):
            with pytest.raises(InvalidInput, match="admin_state_up"):
                core.update("router", id, ADMIN, **{kind: True})
        assert owners(core, id) == ["network:router_interface"]
        core.update("router", id, ADMIN, admin_state_up=False, ha=True)
        assert owners(core, id) == ["network:ha_router_replicated_interface"]
        core.update("router", id, ADMIN, ha=False, distributed=True)
        assert owners(core, id) == ["network:router_interface_distributed"]
        core.update("router", id, ADMIN, distributed=False)
        assert owners(core, id) == ["network:router_interface"]

    def test_have_no_other_actions(self, core: Layer3) -> None:
        with pytest.raises(NotSupported, match="explode"):
            core.act(core.router(), "explode")

    def test_are_hinted_only_to_zones_that_exist(self, core: Layer3) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            core.router(availability_zone_hints=["nowhere"])

    def test_are_not_deleted_while_they_have_interfaces(self, core: Layer3) -> None:
        network, subnet = core.inside()
        outside, _ = core.outside()
        id = core.router()
        answer = core.connect(id, subnet_id=subnet)
        core.lead_out(id, outside)
        with pytest.raises(Conflict, match=answer["port_id"]):
            core.delete("router", id)
        core.disconnect(id, subnet_id=subnet)
        core.delete("router", id)
        assert core.ports_of(id) == []
        core.delete("subnet", subnet)
        core.delete("network", network)


class TestGateways:
    def test_are_ports_of_the_server_itself(self, core: Layer3) -> None:
        outside, subnet = core.outside()
        made = core.create("router", external_gateway_info={"network_id": outside})
        (port,) = core.ports_of(made["id"])
        assert (port["device_owner"], port["project_id"]) == ("network:router_gateway", "")
        assert port["security_groups"] == []
        assert made["external_gateway_info"] == {
            "network_id": outside,
            "enable_snat": True,
            "external_fixed_ips": port["fixed_ips"],
            "qos_policy_id": None,
        }
        assert port["fixed_ips"][0]["subnet_id"] == subnet
        assert core.find("port", ANNA, device_id=made["id"]) == []

    def test_come_and_go_with_what_the_router_says(self, core: Layer3) -> None:
        (one, _), (two, _) = core.outside(), core.outside("198.51.100.0/24")
        id = core.router()
        assert core.lead_out(id, one)["external_gateway_info"]["network_id"] == one
        assert core.lead_out(id, two)["external_gateway_info"]["network_id"] == two
        (port,) = core.ports_of(id)
        assert port["network_id"] == two
        for nothing in (None, {}):
            core.lead_out(id, two)
            after = core.update("router", id, external_gateway_info=nothing)
            assert after["external_gateway_info"] is None
            assert core.ports_of(id) == []

    def test_keep_what_a_request_does_not_say(self, core: Layer3) -> None:
        outside, subnet = core.outside()
        id = core.router()
        chosen = [{"subnet_id": subnet, "ip_address": "203.0.113.50"}]
        core.lead_out(id, outside, ADMIN, enable_snat=False, external_fixed_ips=chosen)
        (port,) = core.ports_of(id)
        after = core.lead_out(id, outside)["external_gateway_info"]
        assert (after["enable_snat"], after["external_fixed_ips"]) == (False, chosen)
        after = core.lead_out(id, outside, ADMIN, enable_snat=True)["external_gateway_info"]
        assert (after["enable_snat"], after["external_fixed_ips"]) == (True, chosen)
        other = [{"subnet_id": subnet, "ip_address": "203.0.113.60"}]
        after = core.lead_out(id, outside, ADMIN, external_fixed_ips=other)
        assert after["external_gateway_info"]["external_fixed_ips"] == other
        assert [each["id"] for each in core.ports_of(id)] == [port["id"]]

    def test_are_shown_as_their_ports_are(self, core: Layer3) -> None:
        outside, subnet = core.outside()
        id = core.router(external_gateway_info={"network_id": outside})
        (port,) = core.ports_of(id)
        moved = [{"subnet_id": subnet, "ip_address": "203.0.113.99"}]
        core.update("port", port["id"], ADMIN, fixed_ips=moved)
        shown = core.show("router", id)["external_gateway_info"]
        assert shown["external_fixed_ips"] == moved

    def test_lead_only_to_external_networks_that_exist(self, core: Layer3) -> None:
        network, _ = core.inside()
        id = core.router()
        with pytest.raises(InvalidInput, match="not external"):
            core.lead_out(id, network)
        with pytest.raises(NotFound):
            core.lead_out(id, str(uuid4()))
        with pytest.raises(NotFound):  # of another project, and not external
            core.lead_out(core.router(BERT), network, BERT)
        assert core.ports_of(id) == []

    def test_get_no_address_that_is_taken_or_not_there(self, core: Layer3) -> None:
        outside, _ = core.outside()
        taken = core.router(external_gateway_info={"network_id": outside})
        (port,) = core.ports_of(taken)
        address = port["fixed_ips"][0]["ip_address"]
        id = core.router()

        def set_gateway(address: str) -> None:
            core.lead_out(id, outside, ADMIN, external_fixed_ips=[{"ip_address": address}])

        with pytest.raises(Conflict, match=address):
            set_gateway(address)
        with pytest.raises(InvalidInput) as caught:
            set_gateway("192.0.2.1")
        assert "external_gateway_info.external_fixed_ips[0].ip_address" in caught.value.problems
        with pytest.raises(InvalidInput, match="the gateway of the external subnet"):
            set_gateway("203.0.113.1")
        assert core.ports_of(id) == []

    def test_are_apart_from_the_networks_inside(self, core: Layer3) -> None:
        outside, _ = core.outside("10.0.0.0/16")
        _, subnet = core.inside("10.0.7.0/24")
        id = core.router()
        core.connect(id, subnet_id=subnet)
        with pytest.raises(InvalidInput, match="overlaps"):
            core.lead_out(id, outside)
        other = core.router(external_gateway_info={"network_id": outside})
        with pytest.raises(InvalidInput, match="overlaps"):
            core.connect(other, subnet_id=subnet)

    def test_stand_against_withdrawing_their_network(self, core: Layer3) -> None:
        outside, subnet = core.outside()
        core.router(external_gateway_info={"network_id": outside})
        with pytest.raises(Conflict, match="routers"):
            core.update("network", outside, ADMIN, **{"router:external": False})
        with pytest.raises(Conflict):
            core.delete("network", outside, ADMIN)
        with pytest.raises(Conflict):
            core.delete("subnet", subnet, ADMIN)

    def test_are_not_deleted_as_ports(self, core: Layer3) -> None:
        outside, _ = core.outside()
        (port,) = core.ports_of(core.router(external_gateway_info={"network_id": outside}))
        with pytest.raises(Conflict, match="router"):
            core.delete("port", port["id"], ADMIN)

    def test_are_no_matter_of_quotas(self, file_database: Database) -> None:
        core = Layer3(file_database, {"port": 0})
        outside, _ = core.outside()
        core.router(external_gateway_info={"network_id": outside})

    def test_fail_together_with_the_router(self, core: Layer3) -> None:
        network, _ = core.inside()
        with pytest.raises(InvalidInput):
            core.router(external_gateway_info={"network_id": network})
        assert core.find("router") == []


@pytest.mark.spec("ML2-13")
@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("router", {"router", "floatingip", "floatingip_pool"}),
        (
            "security_groups",
            {
                "security_group",
                "security_group_rule",
                "address_group",
                "default_security_group_rule",
            },
        ),
    ],
)
def test_service_plugins_are_loaded_by_name_within_a_server(
    core: Layer3, name: str, resources: set[str]
) -> None:
    with LocalHostResources() as host:
        with pytest.raises(ConfigError, match="within a netfw server only"):
            create(ServicePlugin, name, {}, host)
        publish(core.core, host)
        plugin = create(ServicePlugin, name, {}, host)
        assert plugin.resource_names == resources
        assert plugin.describe().name == name
