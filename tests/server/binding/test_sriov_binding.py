"""Ports of network cards and of switches on one network, by two mechanism drivers."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import AgentId, PortId
from netfw.model.values.json_document import JsonDocument
from netfw.server.db import Database, Transaction
from netfw.server.l2.port_status import PortStatuses
from netfw.state.dependencies import Assignment
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.mechanism_drivers.sriov import SriovMechanismDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.core.core_client import ADMIN, Calls, core_plugin

pytestmark = pytest.mark.spec("ML2-14")

HOST = "h1"
PROFILE = {"pci_slot": "0000:03:10.1", "pci_vendor_info": "8086:154c"}


class Cloud:
    """A server with both drivers, a host and a VLAN."""

    def __init__(self, database: Database, *, agent_required: bool, delivers: bool = False) -> None:
        more = (LoggerMechanismDriver(),) if delivers else ()
        drivers = (OvsMechanismDriver(), SriovMechanismDriver(agent_required=agent_required), *more)
        plugin = core_plugin(database, "vlan", mechanisms=drivers)
        self.database, self.calls = database, Calls(plugin)
        self.statuses = PortStatuses(plugin.context)
        self.network = self.calls.network(ADMIN)
        self.agent("Open vSwitch agent", bridge_mappings={"physnet1": "br-ex"})

    def agent(self, type: str, *served: Assignment, **configurations: Any) -> None:
        agent = Agent(
            id=AgentId(uuid4()),
            agent_type=type,
            binary="agent",
            host=HOST,
            configurations=JsonDocument(configurations),
        )

        def work(tx: Transaction) -> None:
            tx.resources.insert(agent)
            tx.heartbeats.record(agent.id)
            for each in served:
                tx.assignments.add(each)

        self.database.transaction(work)

    def port(self, vnic: str, **more: Any) -> dict[str, Any]:
        body = {"binding__vnic_type": vnic, "binding__host_id": HOST, **more}
        return self.calls.make("port", ADMIN, network_id=self.network["id"], **body)

    def status(self, port: dict[str, Any]) -> str:
        return str(self.calls.show("port", port["id"], ADMIN)["status"])

    def report(self, port: dict[str, Any], status: Status, service: Service = Service.L2) -> None:
        shown = self.calls.show("port", port["id"], ADMIN)
        report = StatusReport(
            ref=Ref(Kind.PORT, UUID(port["id"])),
            revision=shown["revision_number"],
            host=HOST,
            service=service,
            status=status,
        )
        self.statuses([report])


def test_both_drivers_bind_ports_of_one_network_on_one_host(database: Database) -> None:
    cloud = Cloud(database, agent_required=True)
    cloud.agent("NIC Switch agent", device_mappings={"physnet1": ["eth1"]})
    normal = cloud.port("normal")
    direct = cloud.port("direct", binding__profile=PROFILE)
    physical = cloud.port("direct-physical", binding__profile=PROFILE)
    found = [each["binding:vif_type"] for each in (normal, direct, physical)]
    assert found == ["ovs", "hw_veb", "hostdev_physical"]
    assert direct["binding:vif_details"] == {
        "port_filter": False,
        "connectivity": "l2",
        "vlan": cloud.network["provider:segmentation_id"],
        "physical_network": "physnet1",
        **PROFILE,
    }
    assert direct["binding:profile"] == PROFILE
    assert [cloud.status(each) for each in (normal, direct, physical)] == ["DOWN", "DOWN", "ACTIVE"]
    for each in (normal, direct):
        cloud.report(each, Status.ACTIVE)
        assert cloud.status(each) == "ACTIVE"


def test_without_an_agent_both_say_why_they_do_not_bind(database: Database) -> None:
    failed = Cloud(database, agent_required=True).port("direct", binding__profile=PROFILE)
    assert failed["binding:vif_type"] == "binding_failed"
    assert failed["binding:vif_details"]["binding_failure"] == [
        "openvswitch: openvswitch plugs normal cards, and direct is wanted",
        "sriovnicswitch: host h1 has no NIC Switch agent, and agent_required is true",
    ]


def test_a_port_without_agent_is_active_while_it_is_bound_and_up(database: Database) -> None:
    cloud = Cloud(database, agent_required=False)
    port = cloud.port("direct", binding__host_id="")
    assert cloud.status(port) == "DOWN"

    def change(**new: Any) -> str:
        cloud.calls.change("port", port["id"], ADMIN, **new)
        return cloud.status(port)

    assert change(binding__host_id=HOST, binding__profile=PROFILE) == "ACTIVE"
    cloud.report(port, Status.DOWN)  # of the agent of the switch, which does not have it
    assert cloud.status(port) == "ACTIVE"
    assert change(admin_state_up=False) == "DOWN"
    assert change(admin_state_up=True) == "ACTIVE"
    assert change(binding__host_id="") == "DOWN"
    assert change(binding__host_id=HOST, binding__vnic_type="normal") == "DOWN"
    cloud.report(port, Status.ACTIVE)
    assert cloud.status(port) == "ACTIVE"


def test_a_port_without_agent_waits_for_drivers_that_deliver(database: Database) -> None:
    cloud = Cloud(database, agent_required=False, delivers=True)
    port = cloud.port("direct", binding__profile=PROFILE)
    assert cloud.status(port) == "DOWN"
    ids = [PortId(UUID(port["id"]))]  # as when all is delivered
    cloud.statuses.context.run(ADMIN, lambda unit: cloud.statuses.reconsider(unit, ids))
    assert cloud.status(port) == "ACTIVE"


def test_a_port_without_agent_waits_for_its_addresses(database: Database) -> None:
    cloud = Cloud(database, agent_required=False)
    cloud.calls.subnet(cloud.network, "10.0.0.0/24", ADMIN, enable_dhcp=True)
    network = Ref(Kind.NETWORK, UUID(cloud.network["id"]))
    cloud.agent("DHCP agent", Assignment(Service.DHCP, HOST, network))
    port = cloud.port("direct", binding__profile=PROFILE)
    assert cloud.status(port) == "DOWN"
    cloud.report(port, Status.ACTIVE, Service.DHCP)
    assert cloud.status(port) == "ACTIVE"
