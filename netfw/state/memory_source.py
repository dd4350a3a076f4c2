"""MemorySource: the embedding program provides the desired state in memory.

It is also the reference for every other source: one suite checks all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.state_source import Cursor, Delta, Hint, StateSource, Stop
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    EnsureHostMac,
    FindPorts,
    ReleaseDhcpPort,
    ReleaseGatewayPort,
    Request,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import NotSupported
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import HaRole
from netfw.state.agent_requests import (
    DESCRIBED_SERVICES,
    dhcp_port,
    find_ports,
    find_released_dhcp_port,
)
from netfw.state.dependencies import AgentRoot, Assignment, Item, ResourceRole, roots
from netfw.state.distributed_routing import (
    find_gateway_port,
    find_routing_mac,
    gateway_port,
    routing_agent,
)
from netfw.state.prefix_requests import renumbered
from netfw.state.status_cache import StatusCache
from netfw.state.store import Key, Store

R = TypeVar("R")
Listener = Callable[[Report], None]
"""Callback for each report with new content, in the reporting thread; it does not raise."""


class MemorySource(StateSource):
    """Desired state in memory, for any number of hosts and agents.

    ``put``, ``remove`` and ``commit`` are one commit each.  Resources may come in any order and
    refer to what is not there yet; networks and routers are scheduled to hosts by putting an
    :class:`~netfw.state.dependencies.Assignment`.  A caller that sets revisions gives each change a
    higher one; a changed resource without one gets one here, above *start*.
    """

    VERSION: ClassVar[int] = 2

    def __init__(
        self, *items: Item, page: int = 500, retention: int = 10_000, start: int = 0
    ) -> None:
        self._page = page
        self._lock = threading.Lock()
        self._notifying = threading.RLock()
        self._store = Store(retention, start)
        self._statuses = StatusCache(self._store)
        self._watches: dict[object, tuple[frozenset[AgentRoot], Hint]] = {}
        self._listeners: dict[object, Listener] = {}
        self._store.commit(items, ())

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("memory")

    # Called by the embedding program.

    def put(self, *items: Item) -> None:
        """Store *items*, replacing earlier versions, in one commit."""
        self.commit(put=items)

    def remove(self, *keys: Key) -> None:
        """Remove *keys*, in one commit."""
        self.commit(remove=keys)

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Key] = ()) -> None:
        """Put and remove at once: no agent sees one without the other."""
        with self._lock:
            concerned = self._commit(put, remove)
        self._notify(concerned)

    def resources(self) -> Mapping[Ref, Resource]:
        """Return all resources as they are stored, with revisions."""
        with self._lock:
            return dict(self._store.resources)

    def resource(self, target: Ref) -> Resource | None:
        """Return one resource, if it exists."""
        with self._lock:
            return self._store.resources.get(target)

    def items(self) -> tuple[Item, ...]:
        """Return all resources and assignments."""
        with self._lock:
            return self._store.items

    def restore(self, *items: Item) -> None:
        """Start a new history with *items*: every agent takes a snapshot."""
        with self._lock:
            self._store.restore(items)
            self._statuses = StatusCache(self._store)
        self._notify(None)

    def forget_history(self) -> None:
        """Discard the change log: agents that have not read it take a snapshot."""
        with self._lock:
            self._store.discard_history()

    def status(self, target: Ref, service: Service = Service.L2) -> StatusReport | None:
        """Return the report that decides the status of *target*, or ``None``."""
        with self._lock:
            return self._statuses.status(target, service)

    def serves(self, root: AgentRoot, target: Ref) -> bool:
        """Return whether the service of a host implements *target*, and may report on it."""
        with self._lock:
            return self._store.serves(root, target)

    def reaches_any(self, needs: Collection[tuple[AgentRoot, ResourceRole]]) -> bool:
        """Return whether an agent depends on a node:
        :class:`~netfw.state.rpc.ReachabilitySource`."""
        with self._lock:
            return any(self._store.reaches(root, node) for root, node in needs)

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        """Return the roles of a highly available router by host."""
        with self._lock:
            return self._statuses.roles(router)

    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """Return the last heartbeat of each agent."""
        with self._lock:
            return self._statuses.heartbeats

    def listen(self, listener: Listener) -> Stop:
        """Call *listener* with every report with new content, until stopped."""
        token = object()
        with self._lock:
            self._listeners[token] = listener

        def stop() -> None:
            with self._lock:
                self._listeners.pop(token, None)

        return stop

    # The contract, called by agents.

    def snapshot(self, subscription: Subscription) -> Iterator[Delta]:
        with self._lock:
            cursor, refs = self._store.cursor, self._store.reached(roots(subscription))
        for start in range(0, max(1, len(refs)), self._page):
            end = start + self._page
            with self._lock:
                put = self._store.present(refs[start:end])
            yield Delta(put=put, cursor=cursor, more=end < len(refs))

    def changes(self, subscription: Subscription, since: Cursor) -> Delta:
        with self._lock:
            return self._store.changes(roots(subscription), since, self._page)

    def report(self, reports: Sequence[Report]) -> ReportResult:
        with self._lock:
            changed = self._statuses.record(reports)
            listeners = tuple(self._listeners.values())
        for report in changed:
            for listener in listeners:
                listener(report)
        return ReportResult()

    def request(self, request: Request[R]) -> R:
        with self._lock:
            answer, concerned = self._answer(request)
        self._notify(concerned)
        return cast(R, answer)

    def watch(self, subscription: Subscription, hint: Hint) -> Stop:
        token = object()
        with self._notifying:
            self._watches[token] = (roots(subscription), hint)

        def stop() -> None:
            with self._notifying:
                self._watches.pop(token, None)

        return stop

    def close(self) -> None:
        with self._notifying:
            self._watches.clear()

    def _commit(self, put: Sequence[Item], remove: Sequence[Key]) -> frozenset[AgentRoot]:
        touched = self._store.commit(put, remove)
        self._statuses.discard(
            key for key in remove if isinstance(key, Ref) and key not in self._store.resources
        )
        self._statuses.discard_unserved(touched)
        return frozenset(touched)

    def _notify(self, concerned: frozenset[AgentRoot] | None) -> None:
        """Notify the watches of *concerned* roots; ``None``: all.  The commit is readable."""
        with self._notifying:
            for watched, notify in tuple(self._watches.values()):
                if concerned is None or watched & concerned:
                    notify()

    def _answer(self, request: Request[Any]) -> tuple[object, frozenset[AgentRoot]]:
        resources = self._store.resources.values()
        match request:
            case EnsureDhcpPort():
                return self._answer_with_port(dhcp_port(request, resources))
            case EnsureGatewayPort():
                return self._answer_with_port(gateway_port(request, resources))
            case ReleaseDhcpPort():
                return None, self._remove_port(find_released_dhcp_port(request, resources))
            case ReleaseGatewayPort():
                return None, self._remove_port(find_gateway_port(request, resources))
            case EnsureHostMac() | SetPrefix():
                return self._answer_routing(request)
            case _:
                return self._find(request), frozenset()

    def _answer_routing(
        self, request: EnsureHostMac | SetPrefix
    ) -> tuple[object, frozenset[AgentRoot]]:
        if isinstance(request, EnsureHostMac):
            return self._ensure_host_mac(request.host)
        return None, self._commit(renumbered(request, self._store.resources.values()), ())

    def _find(self, request: Request[Any]) -> object:
        resources = self._store.resources
        match request:
            case FindPorts():
                return find_ports(request, resources.values())
            case ResolveDevices():
                found = (resources.get(Ref(Kind.PORT, id)) for id in request.ports)
                return tuple(port for port in found if isinstance(port, Port))
            case EnabledServices():
                return DESCRIBED_SERVICES
            case _:
                raise NotSupported(f"a source in memory does not answer {type(request).__name__}")

    def _remove_port(self, port: Port | None) -> frozenset[AgentRoot]:
        return self._commit((), () if port is None else (ref(port),))

    def _answer_with_port(self, port: Port) -> tuple[object, frozenset[AgentRoot]]:
        concerned = self._commit((port,), ())
        return self._store.resources[ref(port)], concerned

    def _ensure_host_mac(self, host: str) -> tuple[object, frozenset[AgentRoot]]:
        """Return the MAC address of *host*; record a derived one, so that other hosts get it."""
        resources = self._store.resources.values()
        mac = find_routing_mac(host, resources)
        if mac is not None:
            return mac, frozenset()
        agent = routing_agent(host, resources)
        return agent.routing_mac, self._commit((agent,), ())


__all__ = ["Assignment", "MemorySource"]
