"""A core plugin with schedulers, and agents that only report."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.values.ids import RouterId
from netfw.server.core.resource_handler import StoredResourceHandler
from netfw.server.db import Database
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import ADMIN, Calls, settings, type_drivers

DHCP, L3, OVS = "DHCP agent", "L3 agent", "Open vSwitch agent"


class Routers(StoredResourceHandler[Router]):
    """Routers without rules: what schedulers see of them is all that matters here."""

    name, kind, quota = "router", Kind.ROUTER, None

    def do_create(self, unit: Any, bodies: Any) -> Any:
        return unit.insert(*(Router(id=RouterId(uuid4()), **body) for body in bodies))

    def do_update(self, unit: Any, before: Router, body: Any) -> Router:
        return unit.update(before, unit.evolved(before, **body))

    def do_delete(self, unit: Any, before: Router) -> None:
        unit.delete(before)


class Cloud:
    """A core plugin, schedulers, and agents that only report."""

    def __init__(self, database: Database, **options: Any) -> None:
        drivers = Drivers(
            ipam=InternalIpamDriver(),
            types=type_drivers(),
            mechanisms=(OvsMechanismDriver(),),
        )
        core = build_core(database, drivers, settings(**{"failover_grace": 0.0, **options}))
        self.database, self.context = database, core.context
        self.calls = Calls(Ml2Plugin(core.context, (*core.handlers(), Routers())))
        self.context.start()
        self.hear, self.rescheduler = core.agent_services.agents, core.agent_services.rescheduler
        self.statuses = core.agent_services.statuses

    def agents(self, kind: str, *hosts: str, **options: Any) -> None:
        """Have agents be heard of; ``host/zone``."""
        for each in hosts:
            host, _, zone = each.partition("/")
            self.hear([beat(host, kind, zone=zone or None, **options)])

    def network(self, **attributes: Any) -> str:
        """Create a network with DHCP, and return its id."""
        made = self.calls.network(**attributes)
        self.calls.subnet(made, "10.0.0.0/24")
        return str(made["id"])

    def router(self, *, leads: bool = True, **attributes: Any) -> str:
        """Create a router, with a port on a network, and return its id."""
        made = self.calls.make("router", **attributes)
        if leads:
            self.calls.make(
                "port",
                ADMIN,
                network_id=self.network(),
                device_owner="network:router_interface",
                device_id=made["id"],
            )
        return str(made["id"])

    def hosts(self, id: str) -> list[str]:
        """Return the hosts that serve a network or a router."""
        found = self.database.read(
            lambda view: [
                each
                for service in (Service.DHCP, Service.L3)
                for each in AssignmentRows(view.connection).at(service)
            ]
        )
        return sorted(each.host for each in found if str(each.ref.id) == id)

    def agent(self, host: str, kind: str) -> str:
        return str(self.calls.all("agent", host=host, agent_type=kind)[0]["id"])
