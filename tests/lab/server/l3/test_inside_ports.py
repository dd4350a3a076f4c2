"""Ports that floating IPs and port forwardings lead to, in a whole core on a real database."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw.errors import Conflict, InvalidInput
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.server.db import Database
from netfw.server.db.database import Transaction
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.processes import forward

pytestmark = pytest.mark.spec("API-06", "API-07")

OWNERS = ("network:dhcp", "network:router_gateway", "network:distributed")


class Inside:
    """A network behind a router, and a floating IP."""

    def __init__(self, core: Layer3) -> None:
        self.core = core
        outside, _ = core.outside()
        self.network, subnet = core.inside()
        self.router = core.router(external_gateway_info={"network_id": outside})
        self.interface = core.connect(self.router, subnet_id=subnet)["port_id"]
        self.floating = core.create("floatingip", floating_network_id=outside)["id"]

    def port(self, who: Any = ANNA, **body: Any) -> str:
        return str(self.core.port(self.network, who, **body)["id"])

    def associate(self, port: str) -> None:
        self.core.update("floatingip", self.floating, ADMIN, port_id=port)

    def forward(self, port: str) -> None:
        forward(self.core, self.floating, port, 80)

    def shown(self) -> tuple[Any, Any, Any]:
        body = self.core.show("floatingip", self.floating)
        return body["port_id"], body["router_id"], body["port_forwardings"]


@pytest.fixture
def inside(file_database: Database) -> Inside:
    return Inside(Layer3(file_database))


@pytest.mark.parametrize("use", ["associate", "forward"])
def test_a_port_of_the_network_itself_is_refused(inside: Inside, use: str) -> None:
    ports = [inside.port(ADMIN, device_owner=owner, project_id="anna") for owner in OWNERS]
    for port in (inside.interface, *ports):
        with pytest.raises(InvalidInput) as caught:
            getattr(inside, use)(port)
        ((name, text),) = caught.value.problems.items()
        assert name == {"associate": "port_id", "forward": "internal_port_id"}[use]
        assert "belongs to the network itself" in text
    assert inside.shown() == (None, None, [])


@pytest.mark.parametrize("use", ["associate", "forward"])
def test_a_port_in_use_does_not_become_one_of_the_network_itself(inside: Inside, use: str) -> None:
    port = inside.port()
    getattr(inside, use)(port)
    before = inside.shown()
    with pytest.raises(Conflict, match=r"203\.0\.113\.\d+"):
        inside.core.update("port", port, device_owner="network:dhcp")
    with pytest.raises(Conflict, match=r"203\.0\.113\.\d+"):
        inside.core.connect(inside.core.router(), port_id=port)
    assert inside.shown() == before
    inside.core.update("port", port, device_owner="compute:nova")


@pytest.mark.parametrize("use", ["associate", "forward"])
@pytest.mark.parametrize("owner", ["", "compute:nova", "Octavia", *OWNERS])
def test_any_deleted_port_is_released(inside: Inside, use: str, owner: str) -> None:
    # Former releases accepted ports of the network itself.
    port = inside.port()
    getattr(inside, use)(port)

    def change_owner(tx: Transaction) -> None:
        stored = cast(Port, tx.resources.get(Kind.PORT, UUID(port)).resource())
        tx.resources.update(stored, evolve(stored, device_owner=owner))

    inside.core.context.database.transaction(change_owner)
    inside.core.delete("port", port, ADMIN)
    assert inside.shown() == (None, None, [])
