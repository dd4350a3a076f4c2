"""FailedBindings: retries the failed bindings of ports whose host has a live agent.

A binding fails while the agents of its host are dead, and their next heartbeat retries it.  That
heartbeat does not see a port that is committed at the same moment, and a clock that is set back
makes an agent alive without one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import cast

from attrs import define, frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import BackendError, RequestError
from netfw.model.agent import Agent
from netfw.model.binding import VifType
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource
from netfw.server.binding.binder import PortBinder
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import AgentWithAge, agents_on
from netfw.server.db.database import ReadSnapshot

LOG = logging.getLogger(__name__)

_FAILED = (VifType.BINDING_FAILED.value,)
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 120.0
"""Seconds until a host is retried of which no port could be bound; each pause is twice as long."""


@define
class _Retry:
    """When the ports of a host are retried."""

    due: float = 0.0
    pause: float = 0.0


class FailedBindings:
    """Remembers hosts with failed bindings, and retries those with a live agent.

    Several server processes may do so at once: each retry reads again.

    :param trigger: has `reconcile` called soon.
    :param others: types of agents by which no port is bound.
    """

    def __init__(
        self,
        context: ServerContext,
        binder: PortBinder,
        trigger: Callable[[], None],
        others: Collection[str] = (),
    ) -> None:
        self._context, self._binder, self._trigger = context, binder, trigger
        self._others = frozenset(others)
        self._hosts: dict[str, _Retry] | None = None
        self._lock = threading.Lock()

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Check the host of a binding that failed once more, after the commit."""
        host = _failed_host(change.after)
        check = _HostCheck(self, host)
        if host and host != _failed_host(change.before) and check not in unit.after_commit:
            unit.after_commit.append(check)

    def check(self, host: str) -> None:
        """Remember a host with failed bindings; retry them soon if it has a live agent."""
        with suppress(BackendError):  # what was committed is done; the next pass reads again
            if self._is_due(host) and self._with_live_agent({host}):
                self._trigger()

    def on_agent_up(self, unit: UnitOfWork, agent: Agent) -> None:
        """Retry the failed bindings of the host after the commit.

        A driver that refuses one of them does not keep the agent away.
        """
        failed = {"binding:vif_type": _FAILED, "binding:host_id": (agent.host,)}
        if unit.tx.resources.find(Kind.PORT, Query(filters=failed, limit=1)):
            unit.after_commit.append(partial(self._retry_now, agent.host))

    def _retry_now(self, host: str) -> None:
        try:
            self._retry(host)
        except BackendError as exc:  # what was committed is done; the next pass retries
            LOG.warning("ports of host %s are not bound: %s", host, exc)
        except Exception:
            LOG.exception("ports of host %s are not bound: internal error", host)

    def reconcile(self) -> int:
        """Retry the failed bindings of hosts with a live agent; return how many are bound."""
        with self._lock:
            if self._hosts is None:
                failures = self._context.read(_failures)
                self._hosts = {each.binding.host: _Retry() for each in failures}
            now = time.monotonic()
            due = frozenset(host for host, retry in self._hosts.items() if retry.due <= now)
        count = 0
        for host in sorted(self._with_live_agent(due)):
            count += self._retry(host)
        return count

    def _is_due(self, host: str) -> bool:
        """Remember *host*; return whether its ports are retried by the next pass.

        The first pass reads the hosts of all failed bindings.
        """
        with self._lock:
            if self._hosts is None:
                return True
            return self._hosts.setdefault(host, _Retry()).due <= time.monotonic()

    def _retry(self, host: str) -> int:
        with self._lock:
            former = (self._hosts or {}).pop(host, _Retry())
        count, some_are_left = 0, True
        try:
            count = self._rebind(host)
            some_are_left = self._context.read(lambda view: bool(_failures(view, host)))
        finally:
            if some_are_left:
                longer = min(2 * former.pause or FIRST_PAUSE, LONGEST_PAUSE)
                self._retry_after(host, FIRST_PAUSE if count else longer)
        return count

    def _rebind(self, host: str) -> int:
        """Retry all ports of *host* at once, or, if one is refused, each by itself."""
        rebind, run = self._binder.rebind_failed, self._context.run
        try:
            return run(SERVER, rebind, host)
        except RequestError:
            failures = self._context.read(lambda view: _failures(view, host))
        count = 0
        for port in failures:
            try:
                count += run(SERVER, rebind, host, port.id)
            except RequestError as exc:
                LOG.warning("port %s of host %s is not bound: %s", port.id, host, exc)
        return count

    def _retry_after(self, host: str, pause: float) -> None:
        with self._lock:
            if self._hosts is not None:
                self._hosts[host] = _Retry(time.monotonic() + pause, pause)

    def _with_live_agent(self, hosts: Collection[str]) -> frozenset[str]:
        if not hosts:
            return frozenset()
        longest = self._context.settings.agent_down_time
        found = self._context.read(lambda view: agents_on(view.connection, hosts))
        return frozenset(
            host
            for host, agents in found.items()
            if any(self._is_live(each, longest) for each in agents)
        )

    def _is_live(self, agent: AgentWithAge, longest: float) -> bool:
        is_alive = agent.silence is not None and agent.silence <= longest
        return is_alive and agent.agent.agent_type not in self._others


@frozen
class _HostCheck:
    """A call of `FailedBindings.check`; equal ones are one."""

    bindings: FailedBindings
    host: str

    def __call__(self) -> None:
        self.bindings.check(self.host)


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
