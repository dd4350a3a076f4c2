"""Trunks and the hosts of their ports: binding, migration, status."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import InvalidInput
from netfw.errors.trunk import PortInUseAsSubPort, TrunkInErrorState
from netfw.model.resource import ref
from netfw.model.segment import NetworkType
from netfw.model.trunk import TrunkMembership
from netfw.model.values.common_fields import Status
from netfw.server.core.server_context import ServerContext
from netfw.server.l2.port_status import PortStatuses
from netfw.server.l2.trunk_status import trunk_status
from netfw.server.l2.trunks import TrunkPlugin
from tests.server.l2.environment import ADMIN, PortsEnvironment, provider

pytestmark = pytest.mark.spec("API-07", "L2-81")


class Site:
    """A bound parent port, and what makes trunks of it."""

    def __init__(self, context: ServerContext) -> None:
        self.env = PortsEnvironment(context)
        self.plugin = TrunkPlugin(context)
        for host in ("h1", "h2"):
            self.env.host(host, bridge_mappings={"phys": "br-phys"})
        self.network = self.env.network()
        self.parent = self.port(binding__host_id="h1", device_owner="compute:nova")

    def port(self, **body: Any) -> Any:
        network = body.pop("network", self.network)
        return self.env.create(network, ADMIN, **body)

    def trunk(self, *subs: Any, **body: Any) -> Any:
        body = {
            "port_id": self.parent["id"],
            "sub_ports": list(subs),
            "project_id": "admin",
            **body,
        }
        return self.plugin.create(ADMIN, "trunk", [body])[0]

    def act(self, trunk: Any, action: str, *subs: Any) -> Any:
        return self.plugin.member_action(
            ADMIN, "trunk", trunk["id"], action, {"sub_ports": list(subs)}
        )

    def status(self, trunk: Any) -> str:
        return str(self.plugin.show(ADMIN, "trunk", trunk["id"])["status"])

    def report(self, port: Any, status: Status = Status.ACTIVE, host: str = "h1") -> None:
        value = self.env.value(port)
        report = StatusReport(
            ref=ref(value), revision=value.revision, host=host, service=Service.L2, status=status
        )
        PortStatuses(self.env.context)([report])

    def hosts(self, port: Any) -> tuple[str, set[str]]:
        binding = self.env.value(port).binding
        return binding.host, set(binding.prepared_hosts)


@pytest.fixture
def site(context: ServerContext) -> Site:
    return Site(context)


def sub(port: Any, tag: int, type: str = "vlan") -> dict[str, Any]:
    return {"port_id": port["id"], "segmentation_type": type, "segmentation_id": tag}


def test_sub_ports_are_bound_with_their_parent(site: Site) -> None:
    first, second = site.port(), site.port()
    trunk = site.trunk(sub(first, 5))
    site.act(trunk, "add_subports", sub(second, 6))
    for port, tag in ((first, 5), (second, 6)):
        value = site.env.value(port)
        assert (value.binding.host, value.binding.vif_type) == ("h1", "ovs")
        assert value.trunk == TrunkMembership(
            trunk_id=site.env.value(site.parent).trunk.trunk_id,  # type: ignore[union-attr]
            parent_id=site.env.value(site.parent).id,
            segmentation_id=tag,
        )
    site.act(trunk, "remove_subports", {"port_id": first["id"]})
    gone = site.env.value(first)
    assert (gone.binding.host, gone.binding.vif_type, gone.trunk) == ("", "unbound", None)
    site.plugin.delete(ADMIN, "trunk", trunk["id"])
    assert site.hosts(second) == ("", set())
    assert site.env.value(site.parent).trunk is None
    assert site.hosts(site.parent) == ("h1", set())


def test_sub_ports_follow_their_parent(site: Site) -> None:
    child = site.port()
    site.trunk(sub(child, 5))
    site.env.update(site.parent, ADMIN, binding__host_id="h2")
    assert site.hosts(child) == ("h2", set())
    site.env.update(site.parent, ADMIN, binding__host_id="")
    assert site.hosts(child) == ("", set())


def test_sub_ports_migrate_with_their_parent(site: Site) -> None:
    first, second = site.port(), site.port()
    trunk = site.trunk(sub(first, 5))
    body = {"port_id": site.parent["id"], "host": "h2", "vnic_type": "normal", "profile": {}}
    site.env.plugin.create(ADMIN, "binding", [body])
    site.act(trunk, "add_subports", sub(second, 6))
    assert site.hosts(first) == site.hosts(second) == ("h1", {"h2"})
    member = f"{site.parent['id']}/h2"
    site.env.plugin.member_action(ADMIN, "binding", member, "activate", {})
    assert site.hosts(first) == site.hosts(second) == ("h2", {"h1"})
    site.env.plugin.delete(ADMIN, "binding", f"{site.parent['id']}/h1")
    assert site.hosts(first) == site.hosts(second) == ("h2", set())


def test_a_sub_port_is_not_bound_elsewhere(site: Site) -> None:
    child = site.port()
    site.trunk(sub(child, 5))
    with pytest.raises(PortInUseAsSubPort, match="parent port"):
        site.env.update(child, ADMIN, binding__host_id="h2")
    site.env.update(child, ADMIN, name="other")
    assert site.hosts(child) == ("h1", set())


def test_the_status_follows_from_the_ports(site: Site) -> None:
    child = site.port()
    trunk = site.trunk()
    assert site.status(trunk) == "DOWN"
    site.report(site.parent)
    assert site.status(trunk) == "ACTIVE"
    site.act(trunk, "add_subports", sub(child, 5))
    assert site.status(trunk) == "BUILD"
    site.report(child)
    assert site.status(trunk) == "ACTIVE"
    query = Query(filters={"status": ("ACTIVE",)}, sort=(("status", True),))
    assert [each["id"] for each in site.plugin.find(ADMIN, "trunk", query)] == [trunk["id"]]
    for refusal in (Status.ERROR, Status.DEGRADED):
        site.report(child, refusal)
        assert site.status(trunk) == "DEGRADED"
    site.report(child, Status.DOWN)
    assert site.status(trunk) == "BUILD"
    site.env.update(site.parent, ADMIN, binding__host_id="")
    assert site.status(trunk) == "DOWN"


def test_no_sub_port_is_added_to_a_trunk_whose_port_cannot_be_bound(site: Site) -> None:
    lost = site.env.network(provider(NetworkType.VLAN, 150, "elsewhere"))
    child, other = site.port(network=lost), site.port()
    trunk = site.trunk(sub(child, 5))
    assert site.status(trunk) == "ERROR"
    with pytest.raises(TrunkInErrorState, match="cannot be bound"):
        site.act(trunk, "add_subports", sub(other, 6))
    site.act(trunk, "remove_subports", {"port_id": child["id"]})
    site.act(trunk, "add_subports", sub(other, 6))


def test_a_sub_port_inherits_the_vlan_of_its_network(site: Site) -> None:
    vlan = site.env.network(provider(NetworkType.VLAN, 150, "phys"))
    child = site.port(network=vlan)
    inherit = {"port_id": child["id"], "segmentation_type": "inherit"}
    trunk = site.trunk(inherit)
    assert trunk["sub_ports"] == [sub(child, 150)]
    with pytest.raises(InvalidInput, match="no VLAN to inherit"):
        site.act(trunk, "add_subports", {**inherit, "port_id": site.port()["id"]})


@pytest.mark.parametrize(
    ("parent", "subs", "refused", "status"),
    [
        ("DOWN", ["ACTIVE"], "", Status.DOWN),
        ("ACTIVE", [], "", Status.ACTIVE),
        ("ACTIVE", ["ACTIVE", "DOWN"], "", Status.BUILD),
        ("ACTIVE", ["ACTIVE", "DOWN"], "1", Status.DEGRADED),
        ("ACTIVE", ["ACTIVE", "DOWN"], "0", Status.BUILD),
        ("ACTIVE", ["ACTIVE", "ACTIVE"], "", Status.ACTIVE),
    ],
)
def test_statuses(parent: str, subs: list[str], refused: str, status: Status) -> None:
    def body(status: str, id: str = "") -> dict[str, Any]:
        return {"id": id, "status": status, "binding:vif_type": "ovs", "admin_state_up": True}

    ports = [body(each, str(at)) for at, each in enumerate(subs)]
    assert trunk_status(body(parent), ports, frozenset(refused)) is status
    off = {**body("DOWN", "1"), "admin_state_up": False}
    assert trunk_status(body("ACTIVE"), [off], frozenset("1")) is Status.ACTIVE
    failed = {**body("DOWN"), "binding:vif_type": "binding_failed"}
    assert trunk_status(body(parent), [failed]) is Status.ERROR
