"""A vendor's type of segment: from the API to the binding, and to the agent of its switch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID, uuid4

import pytest

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.drivers.server.type_driver import AllocationStore, Pool, Range, TypeDriver
from netfw.errors import ConfigError, Conflict, InvalidInput
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.resource import Kind
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.model.wire import parse, render
from netfw.server.core.settings import Settings
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.db import Database, Transaction
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.segment_ranges.ranges import SegmentRangesPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from netfw_drivers.type_drivers.tunnel import VxlanTypeDriver
from tests.server.api.environment import Client, api

pytestmark = [pytest.mark.real, pytest.mark.spec("ML2-02")]

FABRIC = NetworkType("acme-fabric")
HOST = "h1"


class FabricTypeDriver(TypeDriver):
    """Numbers 0 to 9 of the fabric `leaf`."""

    VERSION: ClassVar[int] = 2
    POOL: ClassVar = Pool(FABRIC, "leaf")

    def __init__(self, type: Any = FABRIC) -> None:
        self._type = type

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("acme-fabric")

    def network_type(self) -> NetworkType:
        return NetworkType(self._type) if self._type == "no name" else self._type

    def ranges(self) -> tuple[Range, ...]:
        return (Range(self.POOL, 0, 9),)

    def validate(self, request: Provider) -> None:
        if request.physical_network not in (None, "leaf"):
            raise InvalidInput({"physical_network": "the only fabric is leaf"})

    def reserve(self, request: Provider, store: AllocationStore) -> Provider:
        if request.segmentation_id is None:
            found = self.allocate(store)
            assert found is not None
            return found
        if not store.acquire(self.POOL, request.segmentation_id):
            raise Conflict(f"{request.segmentation_id} is taken")
        return self._segment(request.segmentation_id)

    def allocate(self, store: AllocationStore) -> Provider | None:
        number = store.acquire_any(self.POOL)
        return None if number is None else self._segment(number)

    def release(self, segment: Provider, store: AllocationStore) -> None:
        assert segment.segmentation_id is not None
        store.release(self.POOL, segment.segmentation_id)

    def mtu(self, physical_network: str | None) -> int:
        return 9000

    def _segment(self, number: int) -> Provider:
        return Provider(network_type=FABRIC, physical_network="leaf", segmentation_id=number)


class FabricMechanismDriver(MechanismDriver):
    """Binds ports to segments of the fabric."""

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("fabric")

    def bind(self, request: BindingRequest) -> Binding:
        for segment in request.segments:
            if segment.provider.network_type == FABRIC:
                return Bound(segment=segment.id, vif_type="acme")
        return Refused("it has no segment of the fabric")


@pytest.fixture
def database(empty_tables: Path, tmp_path: Path) -> Iterator[Database]:
    shutil.copy(empty_tables, tmp_path / "netfw.db")
    database = Database(f"sqlite:///{tmp_path}/netfw.db")
    yield database
    database.close()


def make_admin(database: Database, *mechanisms: MechanismDriver) -> Client:
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=(FabricTypeDriver(), VxlanTypeDriver([(1, 9)], 1450)),
        mechanisms=mechanisms,
    )
    core = build_core(database, drivers, Settings(tenant_network_types=(FABRIC,)))
    plugin = Ml2Plugin(core.context, core.handlers())
    ranges = SegmentRangesPlugin(core.context, core.types)
    core.context.start()
    return api([plugin, ranges]).as_("ops/admin")


@pytest.fixture
def admin(database: Database) -> Client:
    return make_admin(database, FabricMechanismDriver())


def test_port_on_a_segment_of_a_vendors_type_is_bound(admin: Client, database: Database) -> None:
    network = admin.network(name="of the fabric")
    assert network["provider:network_type"] == "acme-fabric"
    assert network["provider:physical_network"] == "leaf"
    assert network["provider:segmentation_id"] in range(10)
    assert network["mtu"] == 9000
    port = admin.make("ports", network_id=network["id"], binding__host_id=HOST)
    assert port["binding:vif_type"] == "acme"
    (segment,) = admin.list("segments", network_type="acme-fabric")
    assert segment["network_id"] == network["id"]
    assert admin.names("networks", ("provider:network_type", "acme-fabric")) == ["of the fabric"]
    row = database.read(lambda view: view.resources.get(Kind.SEGMENT, UUID(segment["id"])))
    assert row is not None
    stored = row.resource()
    assert isinstance(stored, Segment)
    assert stored.provider.network_type == FABRIC
    assert parse(Kind.SEGMENT, render(stored)) == stored, "as agents read it"
    assert admin.delete(f"ports/{port['id']}").status == 204
    assert admin.delete(f"networks/{network['id']}").status == 204


def test_chosen_segment_of_a_vendors_type_is_reserved_once(admin: Client) -> None:
    chosen = {"provider__network_type": "acme-fabric", "provider__segmentation_id": 0}
    assert admin.network(**chosen)["provider:segmentation_id"] == 0
    reply = admin.post(
        "networks",
        {"network": {name.replace("__", ":"): value for name, value in chosen.items()}},
    )
    assert reply.status == 409


@pytest.mark.parametrize(
    ("attributes", "status", "message"),
    [
        (
            {"provider:network_type": "acme-fabrik"},
            400,
            "acme-fabrik is not among the types of this server: acme-fabric, vxlan, did you mean "
            "'acme-fabric'?",
        ),
        ({"provider:network_type": "geneve"}, 400, "geneve is not among the types of this server"),
        ({"provider:network_type": "Acme Fabric"}, 400, "is no name of a network type"),
        ({"provider:network_type": "a" * 33}, 400, "is no name of a network type"),
        (
            {"provider:network_type": "acme-fabric", "provider:physical_network": "spine"},
            400,
            "the only fabric is leaf",
        ),
        (
            {"provider:network_type": "acme-fabric", "provider:segmentation_id": 2**32},
            400,
            "provider:segmentation_id",
        ),
    ],
)
def test_unknown_type_is_refused_with_the_types_of_the_server(
    admin: Client, attributes: Mapping[str, Any], status: int, message: str
) -> None:
    reply = admin.post("networks", {"network": attributes})
    assert reply.status == status
    assert message in reply.error["message"]


def test_network_segment_ranges_of_a_vendors_type_are_used(admin: Client) -> None:
    made = admin.make(
        "network-segment-ranges",
        name="more",
        shared=True,
        network_type="acme-fabric",
        physical_network="leaf",
        minimum=20,
        maximum=21,
    )
    assert made["network_type"] == "acme-fabric"
    taken = {admin.network()["provider:segmentation_id"] for _ in range(12)}
    assert taken == {*range(10), 20, 21}


def test_openvswitch_binds_no_port_of_a_vendors_type(database: Database) -> None:
    admin = make_admin(database, OvsMechanismDriver())
    agent = Agent(
        id=AgentId(uuid4()),
        agent_type="Open vSwitch agent",
        binary="agent",
        host=HOST,
        configurations=JsonDocument({"bridge_mappings": {"leaf": "br-leaf"}}),
    )

    def work(tx: Transaction) -> None:
        tx.resources.insert(agent)
        tx.heartbeats.record(agent.id)

    database.transaction(work)
    port = admin.make("ports", network_id=admin.network()["id"], binding__host_id=HOST)
    assert port["binding:vif_type"] == "binding_failed"


@pytest.mark.parametrize(
    ("type", "problem"),
    [
        ("acme-fabric", "its network_type is 'acme-fabric', not a NetworkType"),
        (None, "its network_type is None, not a NetworkType"),
        ("no name", "'no name' is no name of a network type"),
    ],
)
def test_type_driver_without_a_network_type_is_refused(type: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TypeDrivers((FabricTypeDriver(type),), Settings(tenant_network_types=()))
    assert problem in str(caught.value)


def test_tenant_type_without_a_driver_is_refused_with_the_nearest() -> None:
    settings = Settings(tenant_network_types=(NetworkType("acme-fabrik"),))
    with pytest.raises(ConfigError) as caught:
        TypeDrivers((FabricTypeDriver(),), settings)
    assert str(caught.value) == (
        "tenant_network_types: acme-fabrik is not among type_drivers (acme-fabric), did you mean "
        "'acme-fabric'?"
    )


def test_network_of_a_vendors_type_survives_its_wire_format() -> None:
    network = Network(id=uuid4(), segments=[FabricTypeDriver()._segment(3)])
    assert parse(Kind.NETWORK, render(network)) == network
