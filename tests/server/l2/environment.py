"""A network with subnets and hosts, and a handler of ports over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID, uuid4

from attrs import define, field

from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.query import Body, RequestContext
from netfw.model import (
    AllocationPool,
    Network,
    NetworkId,
    Port,
    Segment,
    SegmentId,
    Subnet,
    SubnetId,
)
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.address import as_network
from netfw.model.values.ids import AgentId, RouterId
from netfw.model.values.json_document import JsonDocument
from netfw.server.binding.binder import Mechanisms, PortBinder
from netfw.server.binding.inactive_bindings import LEVELS
from netfw.server.binding.port_bindings import PortBindingHandler
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.db import Transaction
from netfw.server.l2.ports import PortHandler
from netfw.server.security_groups.groups import default_group
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from netfw_drivers.type_drivers.tunnel import VxlanTypeDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver

MEMBER = RequestContext(project_id="p", user="member")
OTHER = RequestContext(project_id="q", user="other")
ADMIN = RequestContext(project_id="admin", user="admin", admin=True)


class PortsPlugin(HandlerPlugin):
    """Ports alone."""

    @classmethod
    def from_conf(cls, options: Any, host: Any) -> Any:
        raise NotImplementedError

    def describe(self) -> Any:
        raise NotImplementedError


@define
class PortsEnvironment:
    """A context whose ports have a handler, and what tests need beside ports."""

    context: ServerContext
    drivers: Sequence[MechanismDriver] = field(factory=lambda: (OvsMechanismDriver(),))
    extensions: Sequence[Any] = ()
    plugin: PortsPlugin = field(init=False)
    handler: PortHandler = field(init=False)
    binder: PortBinder = field(init=False)

    def __attrs_post_init__(self) -> None:
        types = (
            configured(VxlanTypeDriver, vni_ranges=["1:1000"]),
            configured(VlanTypeDriver, network_vlan_ranges=["phys:100:200"]),
        )
        numbered = TypeDrivers(types, self.context.settings)
        self.context.database.transaction(numbered.define)
        self.binder = PortBinder(Mechanisms(self.drivers), numbered)
        self.handler = PortHandler(self.binder, ExtensionDrivers(self.extensions))
        bindings = PortBindingHandler(self.handler, self.binder)
        self.plugin = PortsPlugin(self.context, (self.handler, bindings))

    # What ports need.

    def network(self, *providers: Provider, **other: Any) -> NetworkId:
        """Create a network with its segments, by default one of VXLAN."""
        segments = providers or (provider(NetworkType.VXLAN, 77),)
        id = NetworkId(uuid4())
        made = Network(**{"id": id, "project_id": "p", "segments": segments, **other})
        rows = [Segment(id=SegmentId(uuid4()), network_id=id, provider=each) for each in segments]
        self.context.run(ADMIN, lambda unit: (unit.insert(made), unit.insert(*rows)))
        return id

    def subnet(self, network: NetworkId, cidr: str = "10.0.0.0/24", **other: Any) -> SubnetId:
        """Create a subnet whose pool is all but its gateway, the first address."""
        block = as_network(cidr)
        last = -2 if block.version == 4 else -1
        given = {
            "id": SubnetId(uuid4()),
            "project_id": "p",
            "network_id": network,
            "cidr": block,
            "gateway": block[1],
            "allocation_pools": (AllocationPool(start=block[2], end=block[last]),),
            **other,
        }
        made = Subnet(**given)
        self.context.database.transaction(
            lambda tx: (tx.resources.insert(made), tx.addresses.define(made))
        )
        return made.id

    def host(self, name: str, *, alive: bool = True, **configurations: Any) -> AgentId:
        """Create a host with an Open vSwitch agent."""
        reported = {"tunnel_types": ["vxlan"], "bridge_mappings": {}, **configurations}
        agent = Agent(
            id=AgentId(uuid4()),
            agent_type="Open vSwitch agent",
            binary="netfw-ovs-agent",
            host=name,
            configurations=JsonDocument(reported),
        )

        def work(tx: Transaction) -> None:
            tx.resources.insert(agent)
            if alive:
                tx.heartbeats.record(agent.id)

        self.context.database.transaction(work)
        return agent.id

    def router(self) -> Router:
        """Create a router of project p."""
        made = Router(id=RouterId(uuid4()), project_id="p")
        self.context.database.transaction(lambda tx: tx.resources.insert(made))
        return made

    def group(self, project: str = "p") -> str:
        """Return the default group of a project."""
        return str(self.context.run(ADMIN, lambda unit: default_group(unit, project)))

    def used(self, project: str = "p") -> int:
        """Return how many ports are counted for a project."""
        usage = self.context.read(lambda view: view.quotas.of_project(project))
        return usage["port"].used if "port" in usage else 0

    # What is done with ports.

    def create(self, network: NetworkId, by: RequestContext = MEMBER, **body: Any) -> Any:
        """Create a port, and return it as the API shows it."""
        return self.bulk([{"network_id": str(network), **attributes(body)}], by)[0]

    def bulk(self, bodies: Sequence[Body], by: RequestContext = MEMBER) -> tuple[Any, ...]:
        """Create ports with the defaults of the API, and return them as the API shows them."""
        defaults = {"project_id": by.project_id, **DEFAULTS}
        return self.plugin.create(by, "port", [{**defaults, **body} for body in bodies])

    def update(self, port: Any, by: RequestContext = MEMBER, **body: Any) -> Any:
        """Change a port, and return it as it is afterwards."""
        return self.plugin.update(by, "port", port["id"], attributes(body))

    def delete(self, port: Any, by: RequestContext = MEMBER) -> None:
        """Delete a port."""
        self.plugin.delete(by, "port", port["id"])

    def show(self, port: Any, by: RequestContext = MEMBER) -> Any:
        """Return the port as it is now."""
        return self.plugin.show(by, "port", port["id"])

    def levels(self, port: Any) -> Any:
        """Return the driver and segment of each level of a port's binding."""
        row = self.context.read(lambda view: view.resources.get(Kind.PORT, UUID(port["id"])))
        return row.extra.get(LEVELS, [])

    def segment(self, id: SegmentId) -> Any:
        """Return a segment, if there is one."""
        rows = self.context.read(lambda view: view.resources.present([Ref(Kind.SEGMENT, id)]))
        return rows[0].resource() if rows else None

    def value(self, port: Any) -> Port:
        """Return the port as agents see it."""
        rows = self.context.read(
            lambda view: view.resources.get(Kind.PORT, UUID(port["id"])).resource()
        )
        return cast(Port, rows)


DEFAULTS: dict[str, Any] = {
    "name": "",
    "admin_state_up": True,
    "device_id": "",
    "device_owner": "",
    "allowed_address_pairs": [],
    "extra_dhcp_opts": [],
    "binding:host_id": "",
    "binding:vnic_type": "normal",
    "binding:profile": {},
    "tags": [],
}
"""What the API adds to a request that does not say it."""


def attributes(body: dict[str, Any]) -> dict[str, Any]:
    """Rename attributes from words of Python, such as ``binding__host_id``, to those of the API."""
    return {name.replace("__", ":"): value for name, value in body.items()}


def provider(type: NetworkType, number: int | None = None, physical: str | None = None) -> Provider:
    return Provider(network_type=type, physical_network=physical, segmentation_id=number)


def configured(driver: Any, **options: Any) -> Any:
    """Return a driver with the defaults of its options, and *options*."""
    defaults = {option.name: option.default for option in driver.OPTIONS}
    return driver.from_conf({**defaults, **options}, cast(Any, None))


def addresses(port: Any) -> list[str]:
    """Return the addresses of a port, in its order."""
    return [fixed["ip_address"] for fixed in port["fixed_ips"]]
