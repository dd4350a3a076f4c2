"""The suite that every core plugin passes.

In your own tests, with plain pytest::

    class TestMyPlugin(CorePluginConformance):
        def make_plugin(self, host: HostResources) -> CorePlugin:
            return MyPlugin.from_conf({}, host)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar
from uuid import UUID, uuid4

import pytest
from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.server.core_plugin import CorePlugin
from netfw.drivers.server.query import Body, Query
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.values.agent_requests import EnsureDhcpPort, Request
from netfw.drivers.values.reports import Heartbeat, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict, NotSupported, RequestError
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import AgentId, NetworkId, SubnetId
from netfw.model.values.json_document import JsonDocument
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.server.resource_plugin import (
    ADMIN,
    OWNER,
    STRANGER,
    MemberAction,
    PluginEnvironment,
    ResourcePluginConformance,
)
from netfw.testing.conformance.server.server_environment import REFUSED_HOST

HOST = "host-1"
RESOURCES = frozenset({"network", "segment", "subnet", "port", "agent"})
ORDER = ("extension driver", "binding", "mechanism driver", "service plugin", "outbox")
"""The order in which a request passes drivers and plugins."""
At = PluginEnvironment[CorePlugin]


@frozen
class UnknownCoreRequest(Request[None]):
    """A request that no plugin answers."""


class CorePluginConformance(ResourcePluginConformance[CorePlugin]):
    """One test or more per promise of :class:`CorePlugin`; the hook is `make_plugin`."""

    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def resource_name(self) -> str:
        return "network"

    def body(self, environment: At) -> Body:
        return {"name": f"network {next(self.numbers)}", "description": "of the suite"}

    def impossible_body(self, environment: At) -> Body | None:
        return {"name": "no such type", "provider:network_type": "vlan"}

    def used_resource(self, environment: At) -> str | None:
        network = self.create(environment)
        self.port(environment, network)
        return str(network["id"])

    def contradiction(self, environment: At) -> tuple[str, Body] | None:
        shared = {**self.body(environment), "project_id": OWNER.project_id, "shared": True}
        (network,) = environment.plugin.create(ADMIN, "network", [shared])
        foreign = {"network_id": network["id"], "project_id": STRANGER.project_id, "fixed_ips": []}
        environment.plugin.create(STRANGER, "port", [foreign])
        return str(network["id"]), {"shared": False}

    def member_action(self, environment: At) -> MemberAction | None:
        id = str(self.create(environment)["id"])
        return MemberAction(id=id, action="add_tags", body={"tags": ["gold"]})

    def impossible_action(self, environment: At) -> MemberAction | None:
        id = str(self.create(environment)["id"])
        return MemberAction(id=id, action="remove_tags", body={"tags": ["gold"]})

    def port(self, at: At, network: Body, **attributes: str) -> Body:
        """Create a port of *network* without addresses."""
        owned = {"project_id": OWNER.project_id, "network_id": network["id"]}
        (made,) = at.plugin.create(ADMIN, "port", [{**owned, "fixed_ips": [], **attributes}])
        return made

    def bound_port(self, at: At, host: str = HOST) -> Body:
        """Create a port for an instance on *host*, which has an agent."""
        self.beat(at, host)
        return self.port(at, self.create(at), **{"binding:host_id": host})

    def beat(self, at: At, host: str) -> None:
        """Report the L2 agent of *host* as alive."""
        agent = Agent(
            id=AgentId(UUID(int=len(host))),
            agent_type="Open vSwitch agent",
            binary="netfw-ovs-agent",
            host=host,
            configurations=JsonDocument({"tunneling_ip": f"192.0.2.{len(host)}"}),
        )
        at.plugin.handle_reports([Heartbeat(agent=agent, start=True)])

    @proves(CorePlugin, 1)
    def test_networks_segments_subnets_ports_and_agents_are_stored(self) -> None:
        with self.make_environment() as at:
            assert at.plugin.resource_names >= RESOURCES
            self.beat(at, HOST)
            (agent,) = at.plugin.find(ADMIN, "agent", Query())
            assert agent["host"] == HOST
            network = self.create(at)
            body = {"network_id": network["id"], "project_id": OWNER.project_id}
            at.plugin.create(OWNER, "subnet", [{**body, "cidr": "192.0.2.0/24", "ip_version": 4}])
            self.port(at, network)
            for name in ("segment", "subnet", "port"):
                assert len(at.plugin.find(ADMIN, name, Query())) == 1, name

    @proves(CorePlugin, 2)
    def test_a_request_passes_drivers_and_plugins_in_order(self) -> None:
        with self.make_environment() as at:
            network = self.create(at)
            self.beat(at, HOST)
            at.server.deliver()
            at.server.record_validation()
            at.server.record.calls.clear()
            self.port(at, network, **{"binding:host_id": HOST})
            assert "outbox" not in at.server.record.calls, "delivered before the commit"
            at.server.deliver()
            calls = list(dict.fromkeys(at.server.record.calls))
            assert calls == list(ORDER)

    @proves(CorePlugin, 2)
    def test_the_refusal_of_a_mechanism_driver_leaves_nothing(self) -> None:
        with self.make_environment() as at:
            before = self.ids(at)
            at.server.record.refusals.append(Conflict("not in this fabric"))
            with pytest.raises(Conflict, match="not in this fabric"):
                self.create(at)
            assert self.ids(at) == before
            at.server.deliver()
            assert "outbox" not in at.server.record.calls

    @proves(CorePlugin, 3)
    def test_a_port_is_bound_or_its_binding_failed_when_it_is_created(self) -> None:
        with self.make_environment() as at:
            assert self.bound_port(at)["binding:vif_type"] == "other"
            failed = self.bound_port(at, REFUSED_HOST)
            assert failed["binding:vif_type"] == "binding_failed"
            change = {"binding:host_id": HOST}
            moved = at.plugin.update(ADMIN, "port", str(failed["id"]), change)
            assert moved["binding:vif_type"] == "other"

    @proves(CorePlugin, 4)
    def test_a_port_is_active_by_a_report_of_its_present_revision_alone(self) -> None:
        with self.make_environment() as at:
            made = self.bound_port(at)
            at.server.deliver()
            port = at.plugin.update(ADMIN, "port", str(made["id"]), {"admin_state_up": False})
            port = at.plugin.update(ADMIN, "port", str(made["id"]), {"admin_state_up": True})
            at.server.deliver()
            self.report(at, made)
            assert self.status(at, port) != Status.ACTIVE, "a late report made the port active"
            self.report(at, port)
            self.report(at, port)
            assert self.status(at, port) == Status.ACTIVE

    def report(self, at: At, port: Body) -> None:
        """Report *port* as wired, at the revision of this body."""
        revision = port["revision_number"]
        assert isinstance(revision, int)
        report = StatusReport(
            ref=Ref(Kind.PORT, UUID(str(port["id"]))),
            revision=revision,
            host=HOST,
            service=Service.L2,
            status=Status.ACTIVE,
        )
        at.plugin.handle_reports([report])

    def status(self, at: At, port: Body) -> object:
        """Return the status of a port now."""
        return at.plugin.show(ADMIN, "port", str(port["id"]))["status"]

    @proves(CorePlugin, 5)
    def test_a_repeated_request_has_an_equal_answer_and_no_second_effect(self) -> None:
        with self.make_environment() as at:
            network = self.create(at)
            body = {"network_id": network["id"], "project_id": OWNER.project_id}
            subnet = {**body, "cidr": "192.0.2.0/24", "ip_version": 4}
            (made,) = at.plugin.create(OWNER, "subnet", [subnet])
            request = EnsureDhcpPort(
                network=NetworkId(UUID(str(network["id"]))),
                host=HOST,
                subnets=frozenset({SubnetId(UUID(str(made["id"])))}),
            )
            first = at.plugin.handle_request(request)
            assert at.plugin.handle_request(request) == first
            assert len(at.plugin.find(ADMIN, "port", Query())) == 1

    @proves_raise(CorePlugin, "handle_request", NotSupported)
    def test_an_unknown_request_is_not_supported(self) -> None:
        with self.make_environment() as at, pytest.raises(NotSupported):
            at.plugin.handle_request(UnknownCoreRequest())

    @proves_raise(CorePlugin, "handle_request", RequestError)
    def test_an_impossible_request_is_refused(self) -> None:
        with self.make_environment() as at, pytest.raises(RequestError):
            at.plugin.handle_request(
                EnsureDhcpPort(network=NetworkId(uuid4()), host=HOST, subnets=frozenset())
            )


CONTRACTS = (Driver, ResourcePlugin, CorePlugin)
"""The contracts that the suite tests."""
