"""FailedBindings: retries the failed bindings of ports whose host has a live agent.

A binding fails while the agents of its host are dead, and their next heartbeat retries it.  That
heartbeat does not see a port that is committed at the same moment, and a clock that is set back
makes an agent alive without one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import cast

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import BackendError
from netfw.model.binding import VifType
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource
from netfw.server.binding.binder import PortBinder
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import agents_on
from netfw.server.db.database import ReadSnapshot

_FAILED = (VifType.BINDING_FAILED.value,)


class FailedBindings:
    """Remembers hosts with failed bindings, and retries those with a live agent.

    Several server processes may do so at once: each retry reads again.

    :param trigger: has `reconcile` called soon.
    """

    def __init__(
        self, context: ServerContext, binder: PortBinder, trigger: Callable[[], None]
    ) -> None:
        self._context, self._binder, self._trigger = context, binder, trigger
        self._hosts: set[str] | None = None
        self._lock = threading.Lock()

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Check the host of a binding that failed once more, after the commit."""
        host = _failed_host(change.after)
        if host and host != _failed_host(change.before):
            unit.after_commit.append(partial(self._check, host))

    def reconcile(self) -> int:
        """Retry the failed bindings of hosts with a live agent; return how many are bound."""
        with self._lock:
            if self._hosts is None:
                self._hosts = {each.binding.host for each in self._context.read(_failures)}
            hosts = frozenset(self._hosts)
        return sum(map(self._retry, sorted(self._with_live_agent(hosts))))

    def _check(self, host: str) -> None:
        self._add(host)
        with suppress(BackendError):  # what was committed is done; the next pass reads again
            if self._with_live_agent({host}):
                self._trigger()

    def _retry(self, host: str) -> int:
        with self._lock:
            (self._hosts or set()).discard(host)
        some_are_left = True
        try:
            count = self._context.run(SERVER, lambda unit: self._binder.rebind_failed(unit, host))
            some_are_left = self._context.read(lambda view: bool(_failures(view, host)))
        finally:
            if some_are_left:
                self._add(host)
        return count

    def _add(self, host: str) -> None:
        with self._lock:
            if self._hosts is not None:
                self._hosts.add(host)

    def _with_live_agent(self, hosts: Collection[str]) -> frozenset[str]:
        if not hosts:
            return frozenset()
        longest = self._context.settings.agent_down_time
        found = self._context.read(lambda view: agents_on(view.connection, hosts))
        return frozenset(
            host
            for host, agents in found.items()
            if any(each.silence is not None and each.silence <= longest for each in agents)
        )


def _failed_host(resource: Resource | None) -> str:
    """Return the host of a port whose binding failed; empty for anything else."""
    if isinstance(resource, Port) and resource.binding.vif_type in _FAILED:
        return resource.binding.host
    return ""


def _failures(view: ReadSnapshot, *hosts: str) -> tuple[Port, ...]:
    """Return the ports whose binding failed, on *hosts* or on all."""
    on_hosts = {"binding:host_id": hosts} if hosts else {}
    query = Query(filters={"binding:vif_type": _FAILED, **on_hosts})
    return tuple(cast(Port, row.resource()) for row in view.resources.find(Kind.PORT, query))
