"""Ports wait for the DHCP agents of their network, and only while these are alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.values.agent_requests import EnsureDhcpPort
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.db import Database
from netfw.state.agent_requests import RESERVED_DHCP_DEVICE
from tests.server.core.agent_samples import grow_old
from tests.server.core.core_client import ADMIN, statements
from tests.server.scheduling.environment import DHCP, OVS, Cloud


class Waiting(Cloud):
    """A cloud with a host that wires ports."""

    def __init__(self, database: Database, **options: Any) -> None:
        super().__init__(database, **options)
        self.agents(OVS, "h1", tunnel_types=["vxlan"], bridge_mappings={})

    def wired(self, network: str, **attributes: Any) -> str:
        """Create a port that its host has wired, and return its id."""
        new = {"network_id": network, "binding__host_id": "h1", **attributes}
        id = str(self.calls.make("port", ADMIN, **new)["id"])
        self.say(id, Service.L2, "h1")
        return id

    def say(self, port: str, service: Service, host: str) -> None:
        """Have a host report that a port works."""
        body = self.calls.show("port", port, ADMIN)
        report = StatusReport(
            ref=Ref(Kind.PORT, UUID(port)),
            revision=body["revision_number"],
            host=host,
            service=service,
            status=Status.ACTIVE,
        )
        self.statuses([report])

    def status(self, port: str) -> str:
        return str(self.calls.show("port", port, ADMIN)["status"])

    def switch(self, host: str, *, on: bool) -> None:
        self.calls.change("agent", self.agent(host, DHCP), ADMIN, admin_state_up=on)


@pytest.fixture
def cloud(database: Database) -> Waiting:
    return Waiting(database)


def die(cloud: Waiting) -> None:
    grow_old(cloud.context, "d1", 80)
    cloud.rescheduler.reconcile()


def go(cloud: Waiting) -> None:
    cloud.calls.delete("agent", cloud.agent("d1", DHCP), ADMIN)


def be_switched_off(cloud: Waiting) -> None:
    cloud.switch("d1", on=False)


def be_relieved(cloud: Waiting) -> None:
    agent = cloud.agent("d1", DHCP)
    for network in cloud.calls.all("dhcp_network", agent_id=agent):
        cloud.calls.delete("dhcp_network", f"{agent}/{network['id']}", ADMIN)


ENDS = pytest.mark.parametrize("end", [die, go, be_switched_off, be_relieved])


@pytest.mark.spec("ML2-07")
@pytest.mark.spec("DHCP-07")
@ENDS
def test_a_port_is_active_when_no_agent_is_left_to_serve_it(
    cloud: Waiting, end: Callable[[Waiting], None]
) -> None:
    cloud.agents(DHCP, "d1")
    waiting, unwired = cloud.wired(cloud.network()), cloud.network()
    unwired = str(cloud.calls.make("port", ADMIN, network_id=unwired)["id"])
    assert cloud.status(waiting) == "DOWN"
    before = cloud.calls.show("port", waiting, ADMIN)
    end(cloud)
    assert cloud.calls.show("port", waiting, ADMIN) == {**before, "status": "ACTIVE"}
    assert cloud.status(unwired) == "DOWN"


@pytest.mark.spec("ML2-07")
@ENDS
def test_a_port_waits_for_the_agent_that_is_left(
    database: Database, end: Callable[[Waiting], None]
) -> None:
    cloud = Waiting(database, dhcp_agents_per_network=2)
    cloud.agents(DHCP, "d1", "d2")
    port = cloud.wired(cloud.network())
    end(cloud)
    assert cloud.status(port) == "DOWN"
    cloud.say(port, Service.DHCP, "d2")
    assert cloud.status(port) == "ACTIVE"


@pytest.mark.spec("ML2-07")
@pytest.mark.spec("ML2-10")
@pytest.mark.parametrize("end", [die, go, be_switched_off])
def test_a_port_waits_for_the_agent_that_gets_its_network(
    cloud: Waiting, end: Callable[[Waiting], None]
) -> None:
    cloud.agents(DHCP, "d1")
    network = cloud.network()
    port = cloud.wired(network)
    cloud.agents(DHCP, "d2")
    end(cloud)
    assert cloud.hosts(network) == ["d2"]
    assert cloud.status(port) == "DOWN"
    cloud.say(port, Service.DHCP, "d2")
    assert cloud.status(port) == "ACTIVE"


def test_a_port_waits_for_a_silent_agent_until_its_death_is_confirmed(database: Database) -> None:
    cloud = Waiting(database, failover_grace=40.0)
    cloud.agents(DHCP, "d1")
    port = cloud.wired(cloud.network())
    die(cloud)
    assert cloud.status(port) == "DOWN"


def test_without_failover_a_port_waits_for_no_dead_agent(database: Database) -> None:
    cloud = Waiting(database, allow_automatic_dhcp_failover=False)
    cloud.agents(DHCP, "d1")
    port = cloud.wired(cloud.network())
    cloud.agents(DHCP, "d2")
    die(cloud)
    assert cloud.status(port) == "ACTIVE"


def test_an_agent_that_is_switched_on_again_is_waited_for(cloud: Waiting) -> None:
    cloud.agents(DHCP, "d1")
    network = cloud.network()
    cloud.switch("d1", on=False)
    early = cloud.wired(network)
    assert cloud.status(early) == "ACTIVE"
    cloud.switch("d1", on=True)
    late = cloud.wired(network)
    assert (cloud.status(early), cloud.status(late)) == ("ACTIVE", "DOWN")


def test_a_port_does_not_wait_where_dhcp_is_switched_off(cloud: Waiting) -> None:
    cloud.agents(DHCP, "d1")
    network = cloud.calls.network()
    subnets = [cloud.calls.subnet(network, cidr) for cidr in ("10.0.0.0/24", "10.1.0.0/24")]
    one, two = (
        cloud.wired(network["id"], fixed_ips=[{"subnet_id": subnet["id"]}]) for subnet in subnets
    )
    cloud.calls.change("subnet", subnets[0]["id"], enable_dhcp=False)
    assert (cloud.status(one), cloud.status(two)) == ("ACTIVE", "DOWN")


@pytest.mark.spec("DHCP-20")
@ENDS
def test_the_next_agent_gets_the_port_of_the_former_one(
    cloud: Waiting, end: Callable[[Waiting], None]
) -> None:
    cloud.agents(DHCP, "d1")
    network = cloud.calls.network()
    subnet = cloud.calls.subnet(network, "10.0.0.0/24")
    asked = {
        "network": NetworkId(UUID(network["id"])),
        "subnets": frozenset({SubnetId(UUID(subnet["id"]))}),
    }
    answers = AgentRpcHandlers(cloud.context)
    port = answers.ensure_dhcp_port(EnsureDhcpPort(host="d1", **asked))
    cloud.agents(DHCP, "d2")
    end(cloud)
    body = cloud.calls.show("port", str(port.id), ADMIN)
    assert (body["device_id"], body["binding:host_id"]) == (RESERVED_DHCP_DEVICE, "")
    if end is not be_relieved:
        with pytest.raises(Conflict, match="is with the DHCP agent on d2, and not on d1"):
            answers.ensure_dhcp_port(EnsureDhcpPort(host="d1", **asked))
    adopted = answers.ensure_dhcp_port(EnsureDhcpPort(host="d2", **asked))
    assert (adopted.id, adopted.mac, adopted.fixed_ips) == (port.id, port.mac, port.fixed_ips)
    assert adopted.binding.host == "d2"


def test_reconciling_a_consistent_state_costs_few_statements(cloud: Waiting) -> None:
    cloud.agents(DHCP, "d1")
    networks = [cloud.network() for _ in range(20)]
    port = cloud.wired(networks[0])
    with statements(cloud.database) as recorded:
        assert cloud.rescheduler.reconcile() == 0
    assert len(recorded) <= 26, recorded
    assert cloud.status(port) == "DOWN"
