"""Port forwardings of floating IPs, in a whole core on a real database."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event

from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import Conflict, InvalidInput, NotFound, OverQuota
from netfw.errors.routers import PortHasPortForwarding
from netfw.model.resource import Kind, Ref
from netfw.server.db import Database
from netfw.server.state_source import CommitWatcher, DatabaseSource
from netfw.state.dependencies import Assignment
from netfw.testing.conformance.state_source.environment import Follower
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Json, Layer3

pytestmark = pytest.mark.spec("API-07")


class Site:
    """A network with a router that leads out, a floating IP, and an instance's port."""

    def __init__(self, core: Layer3) -> None:
        self.core = core
        self.outside, _ = core.outside()
        self.network, self.subnet = core.inside()
        self.router = core.router(external_gateway_info={"network_id": self.outside})
        core.connect(self.router, subnet_id=self.subnet)
        self.floating = self.floating_ip()
        self.port = core.port(self.network)
        self.address = self.port["fixed_ips"][0]["ip_address"]

    def floating_ip(self, **body: Any) -> str:
        made = self.core.create("floatingip", floating_network_id=self.outside, **body)
        return str(made["id"])

    def forward(self, external: int | str, internal: int | str | None = None, **body: Any) -> Json:
        inner = external if internal is None else internal
        attributes: Json = {
            "floatingip_id": self.floating,
            "protocol": "tcp",
            "internal_port_id": self.port["id"],
            "external_port" if isinstance(external, int) else "external_port_range": external,
            "internal_port" if isinstance(inner, int) else "internal_port_range": inner,
        }
        return dict(
            self.core.plugin("port_forwarding").create(
                ANNA, "port_forwarding", [attributes | body]
            )[0]
        )

    def own_id(self, made: Json) -> str:
        return f"{self.floating}/{made['id']}"

    def change(self, made: Json, **body: Any) -> Json:
        return self.core.update("port_forwarding", self.own_id(made), **body)

    def remove(self, made: Json) -> None:
        self.core.delete("port_forwarding", self.own_id(made))

    def shown(self) -> Json:
        return self.core.show("floatingip", self.floating)


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database, {"port_forwarding": 3})


@pytest.fixture
def site(core: Layer3) -> Site:
    return Site(core)


class TestTheFloatingIp:
    def test_has_the_router_while_it_has_port_forwardings(self, site: Site) -> None:
        assert (site.shown()["router_id"], site.shown()["port_forwardings"]) == (None, [])
        first, second = site.forward(2222, 22), site.forward("8000:8009", 80)
        assert first["internal_ip_address"] == site.address
        shown = site.shown()
        assert (shown["router_id"], shown["port_id"]) == (site.router, None)
        same = {
            "internal_port_id": site.port["id"],
            "internal_ip_address": site.address,
            "protocol": "tcp",
        }
        expected = [
            {"id": first["id"], "external_port": 2222, "internal_port": 22, **same},
            {"id": second["id"], "external_port_range": "8000:8009", "internal_port": 80, **same},
        ]
        assert sorted(shown["port_forwardings"], key=str) == sorted(expected, key=str)
        site.remove(first)
        assert site.shown()["router_id"] == site.router
        site.remove(second)
        assert (site.shown()["router_id"], site.shown()["port_forwardings"]) == (None, [])

    def test_with_port_forwardings_is_neither_deleted_nor_associated(self, site: Site) -> None:
        site.forward(80)
        with pytest.raises(Conflict, match="port forwardings; delete them first"):
            site.core.delete("floatingip", site.floating)
        other = site.core.port(site.network)
        with pytest.raises(Conflict, match="port forwardings; delete them first"):
            site.core.update("floatingip", site.floating, port_id=other["id"])
        for nothing in ({}, {"port_id": None}):
            site.core.update("floatingip", site.floating, **nothing)
            assert site.shown()["router_id"] == site.router

    def test_with_a_port_forwards_nothing(self, site: Site) -> None:
        site.core.update("floatingip", site.floating, port_id=site.port["id"])
        with pytest.raises(Conflict, match=r"stands for port .*; disassociate it"):
            site.forward(80)

    def test_does_not_take_an_address_that_has_the_other_sort(self, site: Site) -> None:
        other = site.floating_ip()
        site.forward(80)
        with pytest.raises(
            PortHasPortForwarding, match=r"has port forwarding .*; delete that first"
        ):
            site.core.update("floatingip", other, port_id=site.port["id"])
        second = site.core.port(site.network)
        site.core.update("floatingip", other, port_id=second["id"])
        with pytest.raises(Conflict, match=r"has floating IP .* already; disassociate that first"):
            site.forward(81, internal_port_id=second["id"])


class TestThePorts:
    @pytest.mark.parametrize(
        ("external", "internal", "path"),
        [
            (80, 81, "external_port"),
            ("75:80", "1:6", "external_port"),
            ("80:90", 99, "external_port"),
            (81, 8080, "internal_port"),
            ("90:91", "8079:8080", "internal_port"),
        ],
    )
    def test_overlap_with_no_others_of_the_protocol(
        self, site: Site, external: int | str, internal: int | str, path: str
    ) -> None:
        site.forward(80, 8080)
        with pytest.raises(InvalidInput) as caught:
            site.forward(external, internal)
        assert caught.value.problems.keys() == {path}
        site.forward(external, internal, protocol="udp")

    def test_are_as_many_inside_as_outside_or_one(self, site: Site) -> None:
        made = site.forward("100:109", "200:209")
        assert (made["external_port_range"], made["internal_port_range"]) == ("100:109", "200:209")
        assert "external_port" not in made
        with pytest.raises(InvalidInput, match="internal_port: 1:5 is neither one port nor as"):
            site.forward("300:309", "1:5")

    def test_can_be_changed(self, site: Site) -> None:
        made = site.forward("100:109", "200:209")
        changed = site.change(made, external_port=80, internal_port=8080)
        assert (changed["external_port"], changed["external_port_range"]) == (80, "80:80")
        assert changed["revision_number"] == made["revision_number"] + 1
        changed = site.change(made, external_port_range="90:92", internal_port_range="20:22")
        assert "external_port" not in changed
        assert changed["internal_port_range"] == "20:22"
        assert site.change(made, description="web")["description"] == "web"
        site.forward(80)
        with pytest.raises(InvalidInput, match="external_port"):
            site.change(made, external_port_range="79:81")


class TestTheTarget:
    def test_is_an_address_of_the_port(self, site: Site) -> None:
        with pytest.raises(InvalidInput, match=r"internal_ip_address: .*does not have 10\.9\.9\.9"):
            site.forward(80, internal_ip_address="10.9.9.9")
        two = site.core.port(site.network, fixed_ips=[{"subnet_id": site.subnet}] * 2)
        with pytest.raises(InvalidInput, match=r"internal_ip_address: .*several"):
            site.forward(80, internal_port_id=two["id"])
        for number, fixed in enumerate(two["fixed_ips"]):
            site.forward(
                80 + number,
                80,
                internal_port_id=two["id"],
                internal_ip_address=fixed["ip_address"],
            )

    def test_can_move_to_another_port(self, site: Site) -> None:
        other = site.core.port(site.network)
        made = site.forward(80)
        moved = site.change(made, internal_port_id=other["id"])
        assert moved["internal_ip_address"] == other["fixed_ips"][0]["ip_address"]

    def test_is_behind_a_router_that_leads_to_the_floating_ip(self, site: Site) -> None:
        network, subnet = site.core.inside("10.5.0.0/24")
        alone = site.core.port(network)
        with pytest.raises(InvalidInput, match="no router leads"):
            site.forward(80, internal_port_id=alone["id"])
        site.forward(81)
        second = site.core.router(external_gateway_info={"network_id": site.outside})
        site.core.connect(second, subnet_id=subnet)
        with pytest.raises(InvalidInput, match="which has the other port forwardings"):
            site.forward(80, internal_port_id=alone["id"])

    def test_the_only_one_can_move_behind_another_router(self, site: Site) -> None:
        network, subnet = site.core.inside("10.5.0.0/24")
        second = site.core.router(external_gateway_info={"network_id": site.outside})
        site.core.connect(second, subnet_id=subnet)
        made = site.forward(80)
        site.change(made, internal_port_id=site.core.port(network)["id"])
        assert site.shown()["router_id"] == second

    def test_is_no_port_of_the_network_itself_or_of_others(self, site: Site) -> None:
        (interface,) = (
            port
            for port in site.core.ports_of(site.router)
            if port["device_owner"] == "network:router_interface"
        )
        with pytest.raises(InvalidInput, match=r"internal_port_id: .*belongs to the network"):
            site.forward(80, internal_port_id=interface["id"])
        with pytest.raises(NotFound):
            site.forward(80, internal_port_id=str(uuid4()))

    def test_takes_its_port_forwardings_with_it(self, site: Site) -> None:
        other = site.core.port(site.network)
        site.forward(80)
        kept = site.forward(81, internal_port_id=other["id"])
        site.core.delete("port", site.port["id"])
        assert [each["id"] for each in site.shown()["port_forwardings"]] == [kept["id"]]
        site.core.update("port", other["id"], fixed_ips=[])
        assert (site.shown()["port_forwardings"], site.shown()["router_id"]) == ([], None)
        site.core.delete("floatingip", site.floating)

    def test_keeps_the_interface_and_the_gateway_of_the_router(self, site: Site) -> None:
        made = site.forward(80)
        with pytest.raises(Conflict, match="delete their port forwardings"):
            site.core.disconnect(site.router, subnet_id=site.subnet)
        with pytest.raises(Conflict, match="delete their port forwardings"):
            site.core.update("router", site.router, external_gateway_info=None)
        site.remove(made)
        site.core.disconnect(site.router, subnet_id=site.subnet)


class TestTheOwner:
    def test_is_that_of_the_floating_ip(self, site: Site) -> None:
        made = site.forward(80)
        assert made["project_id"] == "anna"
        own = site.own_id(made)
        assert site.core.show("port_forwarding", own, ANNA)["id"] == made["id"]
        with pytest.raises(NotFound):
            site.core.show("port_forwarding", own, BERT)
        assert site.core.find("port_forwarding", BERT) == []
        with pytest.raises(NotFound):
            site.core.delete("port_forwarding", own, BERT)
        wrong = f"{site.floating_ip()}/{made['id']}"
        with pytest.raises(NotFound, match="there is no port_forwarding"):
            site.core.show("port_forwarding", wrong)
        with pytest.raises(NotFound, match="there is no port_forwarding"):
            site.core.delete("port_forwarding", wrong)

    def test_has_a_quota(self, site: Site) -> None:
        made = [site.forward(port) for port in (1, 2, 3)]
        with pytest.raises(OverQuota, match="port_forwarding"):
            site.forward(4)
        site.remove(made[0])
        site.forward(4)
        site.core.delete("port", site.port["id"])
        used = site.core.context.read(lambda view: view.quotas.of_project("anna"))
        assert used["port_forwarding"].used == 0

    def test_of_a_bulk_count_for_the_project_of_the_floating_ip(self, site: Site) -> None:
        site.core.context.database.transaction(
            lambda tx: tx.quotas.set_limit("admin", "port_forwarding", 0)
        )
        wanted = {"floatingip_id": site.floating, "internal_port_id": site.port["id"]}
        bodies = [
            {"protocol": "tcp", "external_port": port, "internal_port": port, **wanted}
            for port in (1, 2)
        ]
        plugin = site.core.plugin("port_forwarding")
        made = plugin.create(
            ADMIN, "port_forwarding", [{**each, "project_id": "admin"} for each in bodies]
        )
        assert len(made) == 2


def test_many_port_forwardings_cost_few_more_statements_than_one(file_database: Database) -> None:
    core = Layer3(file_database, {"port_forwarding": -1})
    site, statements = Site(core), list[str]()

    def count(first: int, number: int) -> int:
        wanted = {"floatingip_id": site.floating, "internal_port_id": site.port["id"]}
        bodies = [
            {"protocol": "tcp", "external_port": port, "internal_port": port, **wanted}
            for port in range(first, first + number)
        ]
        statements.clear()
        core.plugin("port_forwarding").create(ANNA, "port_forwarding", bodies)
        return len(statements)

    event.listen(
        core.context.database.writing,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )
    count(1, 1)
    assert count(10, 500) <= count(2, 1) + 2
    with pytest.raises(InvalidInput):
        count(9, 2)


@pytest.mark.spec("RPC-02")
def test_the_agent_of_the_router_receives_port_forwardings(core: Layer3, site: Site) -> None:
    router = Ref(Kind.ROUTER, UUID(site.router))
    core.context.run(
        ADMIN, lambda unit: unit.tx.assignments.add(Assignment(Service.L3, "l3", router))
    )
    commits = CommitWatcher(core.context.database)
    source = DatabaseSource(
        core.context.database,
        commits,
        handle_reports=core.plugin("network").handle_reports,
        handle_request=core.plugin("network").handle_request,
    )
    try:
        follower = Follower(source, Subscription("l3", {Service.L3}))

        def received() -> list[str]:
            kinds = (Kind.PORT_FORWARDING, Kind.FLOATING_IP)
            return sorted(str(key.id) for key in follower.catch_up() if key.kind in kinds)

        assert received() == []
        first = site.forward(80)
        assert received() == sorted([first["id"], site.floating])
        second = site.forward(81)
        assert received() == sorted([first["id"], second["id"], site.floating])
        site.remove(first)
        assert received() == sorted([second["id"], site.floating])
        core.delete("port", site.port["id"])
        assert received() == []
    finally:
        source.close()
        commits.close()
