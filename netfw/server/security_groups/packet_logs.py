"""PacketLogHandler, the loggable resources, and the service plugin for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import uuid4

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors.packet_logs import (
    InvalidLogResourceType,
    InvalidResourceConstraint,
    LoggingTypeNotSupported,
)
from netfw.model.packet_log import EXTENSION, LoggedResource, PacketLog
from netfw.model.port import Port
from netfw.model.resource import Kind, ref
from netfw.model.security_group import SecurityGroup
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import (
    Reader,
    ResourceHandler,
    StoredResourceHandler,
    apply_query,
)
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.unenforceable_rules import live_l2_agents

REMEDY = (
    f"load the L2 extension {EXTENSION!r} in L2 agents whose firewall filters inside the switch"
)


class PacketLogHandler(StoredResourceHandler[PacketLog]):
    """Packet logs; they end with the port or the group that they name."""

    name = "log"
    kind = Kind.PACKET_LOG
    quota: ClassVar[str | None] = None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[PacketLog, ...]:
        for body in bodies:
            if body["resource_type"] not in set(LoggedResource):
                text = f"not a type that can be logged: give {LoggedResource.SECURITY_GROUP}"
                raise InvalidLogResourceType({"resource_type": text})
        parsed = [parse(self.kind, {**body, "id": str(uuid4())}) for body in bodies]
        logs = cast("list[PacketLog]", parsed)
        hosts = _logging_hosts(unit)
        for log in logs:
            _check_target(unit, log, hosts)
        return unit.insert(*logs)

    def do_update(self, unit: UnitOfWork, before: PacketLog, body: Body) -> PacketLog:
        after = parse(self.kind, {**render(before), **body})
        return unit.update(before, cast(PacketLog, after))

    def do_delete(self, unit: UnitOfWork, before: PacketLog) -> None:
        unit.delete(before)


class LoggableResourceHandler(ResourceHandler):
    """Types of resources that packet logs can name."""

    name = "loggable_resource"

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        bodies = [{"type": each.value} for each in LoggedResource]
        return apply_query(bodies, query, identity="type")


class PacketLogPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for packet logs; it needs the plugin for security groups."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (PacketLogHandler(), LoggableResourceHandler()))
        context.precommit_hooks.append(delete_logs_of)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("log")


def delete_logs_of(unit: UnitOfWork, change: Change) -> None:
    """Delete the packet logs of a port or group that is deleted."""
    gone = change.before
    if change.after is not None or not isinstance(gone, Port | SecurityGroup):
        return
    attribute = "target_id" if isinstance(gone, Port) else "resource_id"
    query = Query(filters={attribute: (str(gone.id),)})
    for row in unit.tx.resources.find(Kind.PACKET_LOG, query):
        unit.delete(row.resource())


def _check_target(unit: UnitOfWork, log: PacketLog, hosts: Mapping[str, bool] | None) -> None:
    """Check that *log* names what exists and can be logged.

    :raises NotFound: there is no such port or group that the requester may see.
    :raises InvalidResourceConstraint: the port is not in the group.
    :raises LoggingTypeNotSupported: no host, or not that of the port, logs packets.
    """
    seen = unit.requester.sees
    if log.resource_id is not None:
        unit.tx.resources.get(Kind.SECURITY_GROUP, log.resource_id, project=seen, lock=True)
    port: Port | None = None
    if log.target_id is not None:
        row = unit.tx.resources.get(Kind.PORT, log.target_id, project=seen, lock=True)
        port = cast(Port, row.resource())
        if log.resource_id is not None and log.resource_id not in port.security_groups:
            text = f"{ref(port)} is not in security group {log.resource_id}"
            raise InvalidResourceConstraint({"target_id": text})
    if hosts is None:
        return
    if not any(hosts.values()):
        raise LoggingTypeNotSupported(f"no live L2 agent logs packets: {REMEDY}")
    if port is not None and not hosts.get(port.binding.host or "", True):
        text = f"host {port.binding.host} of {ref(port)} does not log packets: {REMEDY}"
        raise LoggingTypeNotSupported(text)


def _logging_hosts(unit: UnitOfWork) -> Mapping[str, bool] | None:
    """Return whether each host with a live L2 agent logs packets.

    ``None``: no L2 agent is alive, or one does not report its extensions.
    """
    hosts: dict[str, bool] = {}
    for host, logs in _reported(unit):
        if logs is None:
            return None
        hosts[host] = logs
    return hosts or None


def _reported(unit: UnitOfWork) -> Iterator[tuple[str, bool | None]]:
    for agent in live_l2_agents(unit):
        configurations = agent["configurations"]
        extensions = configurations.get("extensions")
        capabilities = configurations.get("firewall_capabilities")
        if not isinstance(extensions, list) or not isinstance(capabilities, list):
            yield agent["host"], None
            continue
        in_switch = FirewallCapability.IN_SWITCH.value in capabilities
        yield agent["host"], EXTENSION in extensions and in_switch
