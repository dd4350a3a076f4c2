"""PortBinder: binds ports in the transaction of a request, and again when their host changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import BindingRequest, MechanismDriver
from netfw.drivers.server.query import Query
from netfw.drivers.values.qos_support import effective_policy
from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.binding import Binding, VifDetails, VifType
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy, rule_type
from netfw.model.resource import Kind, ref
from netfw.model.segment import Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_distributed
from netfw.model.values.ids import PortId, SegmentId
from netfw.server.binding.algorithm import bind
from netfw.server.binding.inactive_bindings import (
    LEVELS,
    StoredBinding,
    active_binding,
    dynamic_segments,
    inactive_bindings,
    render_inactive,
)
from netfw.server.core.driver_exits import exits_as_errors
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import AgentWithAge, agents_on


class Mechanisms:
    """The mechanism drivers, in the order of the configuration."""

    def __init__(self, drivers: Sequence[MechanismDriver]) -> None:
        self.drivers = tuple(drivers)

    def check(self, unit: UnitOfWork, change: Change) -> None:
        """Have each driver validate a change, inside the transaction, before the commit.

        :raises RequestError: a driver refuses; later drivers are not called.
        :raises DriverCrashed: a driver exits, which counts as any other defect.
        """
        if isinstance(change.resource, Network | Subnet | Port):
            for driver in self.drivers:
                with exits_as_errors(driver):
                    driver.validate(change)


HOST = "binding:host_id"

Agents = Mapping[str, tuple[Agent, ...]]
"""Agents by host."""


class PortBinder:
    """Binds ports by the mechanism drivers, and allocates the dynamic segments that they
    request."""

    def __init__(self, mechanisms: Mechanisms, types: TypeDrivers) -> None:
        self._mechanisms, self._types = mechanisms, types

    def agents(self, unit: UnitOfWork, hosts: Iterable[str]) -> Agents:
        """Return the agents on *hosts*, dead ones included, in one statement."""
        wanted = {host for host in hosts if host}
        return usable_agents(unit, agents_on(unit.tx.connection, wanted)) if wanted else {}

    def bind(self, unit: UnitOfWork, port: Port, agents: Agents) -> Port:
        """Return *port* bound to its host, to none, or to all; it is not stored yet.

        If no driver binds it, it is ``binding_failed`` with the reasons.
        """
        requested = port.binding
        levels: list[dict[str, Any]] = []
        if is_distributed(port.device_owner):
            answer = _plain(requested, VifType.DISTRIBUTED)
        elif not requested.host:
            answer = _plain(requested, VifType.UNBOUND)
        else:
            answer, levels = self._bind(unit, port, agents.get(requested.host, ()))
        if levels or LEVELS in unit.extra_of(port):
            unit.set_extra(ref(port), {LEVELS: levels})
        return port if answer == requested else evolve(port, binding=answer)

    def rebind(
        self, unit: UnitOfWork, before: Port, after: Port, agents: Agents | None = None
    ) -> Port:
        """Return *after*, bound anew instead of *before*; it is DOWN until its host reports.

        A port on several hosts stays as it is when another one of them becomes the active host.
        """
        former = dynamic_segments(unit.extra_of(before))
        if agents is None:
            agents = self.agents(unit, (after.binding.host,))
        bound = _without_inactive(unit, self.bind(unit, after, agents))
        self._clear(unit, before, former)
        if before.binding.hosts & bound.binding.hosts:
            return bound
        if before.binding.host:
            unit.tx.statuses.delete([ref(before)], Service.L2)
        return evolve(bound, status=Status.DOWN)

    def unbind(self, unit: UnitOfWork, gone: Port) -> None:
        """Release the dynamic segments of a deleted port's bindings."""
        former = dynamic_segments(unit.extras.pop(ref(gone), {}))
        self._clear(unit, gone, former)

    def prepare(self, unit: UnitOfWork, port: Port, requested: Binding) -> StoredBinding:
        """Return a binding of *port* to another host than its own; it is not stored yet.

        If no driver binds it, it is ``binding_failed`` with the reasons.
        """
        agents = self.agents(unit, (requested.host,))
        prepared = evolve(port, binding=requested)
        binding, levels = self._bind(unit, prepared, agents.get(requested.host, ()))
        return StoredBinding(binding=binding, levels=levels)

    def store_inactive(
        self, unit: UnitOfWork, port: Port, inactive: Iterable[StoredBinding]
    ) -> Port:
        """Return *port* with these inactive bindings; only those beside it are stored yet."""
        every = tuple(inactive)
        former = dynamic_segments(unit.extra_of(port))
        unit.set_extra(ref(port), render_inactive(every))
        self._clear(unit, port, former)
        hosts = frozenset(each.host for each in every)
        return evolve(port, binding=evolve(port.binding, prepared_hosts=hosts))

    def activate(self, unit: UnitOfWork, port: Port, host: str) -> Port:
        """Return *port* with its inactive binding to *host* activated; it is not stored yet.

        The binding that was active becomes inactive.  The port is DOWN until its host reports.
        """
        extra = unit.extra_of(port)
        every = inactive_bindings(extra)
        chosen = every.pop(host)
        every[port.binding.host] = active_binding(port.binding, extra)
        unit.set_extra(ref(port), {LEVELS: list(chosen.levels), **render_inactive(every.values())})
        unit.tx.statuses.delete([ref(port)], Service.L2)
        binding = evolve(chosen.binding, prepared_hosts=frozenset(every))
        return evolve(port, binding=binding, status=Status.DOWN)

    def rebind_failed(self, unit: UnitOfWork, host: str, port: PortId | None = None) -> int:
        """Retry the failed bindings of ports on *host*, of all or of one; return how many are
        bound now."""
        failed = {"binding:host_id": (host,), "binding:vif_type": (VifType.BINDING_FAILED.value,)}
        if port is not None:
            failed["id"] = (str(port),)
        found = [row.ref.id for row in unit.tx.resources.find(Kind.PORT, Query(filters=failed))]
        rows = unit.tx.statuses.get_for_update(Kind.PORT, found)
        for row in rows.values():
            unit.extras.setdefault(row.ref, dict(row.extra))
        locked = [cast(Port, row.resource()) for row in rows.values()]
        ports = [each for each in locked if _has_failed(each)]  # others are bound meanwhile
        agents = self.agents(unit, (each.binding.host for each in ports))
        count = 0
        for before in ports:
            former = _levels(unit, before)
            after = self.rebind(unit, before, before, agents)
            if after.binding != before.binding or _levels(unit, after) != former:
                unit.update(before, after)
                count += not _has_failed(after)
        return count

    def _bind(
        self, unit: UnitOfWork, port: Port, agents: Sequence[Agent]
    ) -> tuple[Binding, list[dict[str, Any]]]:
        network = unit.network(port.network_id)
        policy = _policy(unit, port, network)
        request = BindingRequest(
            port=port,
            host=port.binding.host,
            network=network,
            segments=_offered(network, unit.segments(network.id)),
            subnets=unit.subnets(network.id),
            agents=tuple(agents),
            qos_rules=() if policy is None else policy.rules,
        )
        made: list[Segment] = []
        result = bind(
            self._mechanisms.drivers,
            request,
            lambda want: self._below(unit, network, want, made),
            {} if policy is None else _unable(unit, policy),
        )
        used = {level.segment for level in result.levels}
        for segment in made:
            if segment.id not in used:
                self._drop(unit, segment)
        answer = evolve(port.binding, vif_type=result.vif_type, vif_details=result.vif_details)
        return answer, [level.body() for level in result.levels]

    def _below(
        self, unit: UnitOfWork, network: Network, wants: Provider, made: list[Segment]
    ) -> Segment:
        """Return the dynamic segment that a driver requests; equal requests share one."""
        for segment in unit.segments(network.id):
            if segment.provider not in network.segments and _fits(segment.provider, wants):
                return segment
        provider = self._types.reserve(unit.tx, wants)
        (segment,) = unit.insert(
            Segment(id=SegmentId(uuid4()), network_id=network.id, provider=provider)
        )
        made.append(segment)
        return segment

    def _clear(self, unit: UnitOfWork, port: Port, former: frozenset[str]) -> None:
        """Delete dynamic segments among *former* that neither this port uses now nor another."""
        gone = set(former - dynamic_segments(unit.extra_of(port)))
        if not gone:
            return
        query = Query(filters={"network_id": (str(port.network_id),)})
        for row in unit.tx.resources.find(Kind.PORT, query):
            if row.ref != ref(port):
                gone -= dynamic_segments(row.extra)
        for segment in unit.segments(port.network_id):
            if str(segment.id) in gone:
                self._drop(unit, segment)

    def _drop(self, unit: UnitOfWork, segment: Segment) -> None:
        self._types.release(unit.tx, segment.provider)
        unit.delete(segment)


def _has_failed(port: Port) -> bool:
    return port.binding.vif_type == VifType.BINDING_FAILED.value


def _policy(unit: UnitOfWork, port: Port, network: Network) -> QosPolicy | None:
    id = effective_policy(port, network)
    return None if id is None else unit.qos_policies([id]).get(id)


def _unable(unit: UnitOfWork, policy: QosPolicy) -> Mapping[str, str]:
    """Return the drivers that do not enforce *policy*, with the reason of each."""
    support = unit.context.qos_support
    lacking = {name: support.missing(name, policy.rules) for name in support.drivers}
    return {
        name: f"it does not enforce rule {rule.id} ({rule_type(rule)}) of QoS policy {policy.id}"
        for name, rule in lacking.items()
        if rule is not None
    }


def usable_agents(unit: UnitOfWork, found: Mapping[str, Iterable[AgentWithAge]]) -> Agents:
    """Return *found* as drivers see them: alive or not."""
    longest = unit.context.settings.agent_down_time
    return {host: tuple(_agent(each, longest) for each in some) for host, some in found.items()}


def _levels(unit: UnitOfWork, port: Port) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", unit.extra_of(port).get(LEVELS, ()))


def _without_inactive(unit: UnitOfWork, port: Port) -> Port:
    """Return *port* without an inactive binding to its own host; without a host, without any."""
    every = inactive_bindings(unit.extra_of(port))
    host = port.binding.host
    kept = {each: bound for each, bound in every.items() if host and each != host}
    if kept == every:
        return port
    unit.set_extra(ref(port), render_inactive(kept.values()))
    return evolve(port, binding=evolve(port.binding, prepared_hosts=frozenset(kept)))


def _plain(requested: Binding, vif_type: VifType) -> Binding:
    return evolve(requested, vif_type=vif_type.value, vif_details=VifDetails())


def _offered(network: Network, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the network's own segments in its order, without dynamic ones."""
    position = {provider: at for at, provider in enumerate(network.segments)}
    own = [segment for segment in segments if segment.provider in position]
    return tuple(sorted(own, key=lambda segment: position[segment.provider]))


def _fits(provider: Provider, wants: Provider) -> bool:
    return (
        provider.network_type == wants.network_type
        and wants.physical_network in (None, provider.physical_network)
        and wants.segmentation_id in (None, provider.segmentation_id)
    )


def _agent(found: AgentWithAge, longest: float) -> Agent:
    alive = found.silence is not None and found.silence <= longest
    when = None if found.at is None else datetime.fromtimestamp(found.at, UTC)
    return evolve(found.agent, alive=alive, heartbeat_at=when)
