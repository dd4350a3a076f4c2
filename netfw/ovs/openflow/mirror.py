"""Flow mirror: the flows of a bridge, kept current by the flow monitor of the switch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.flows import RateLimit
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.client import OpenFlow
from netfw.ovs.openflow.encode import Key, canonical, cookie_of
from netfw.ovs.openflow.errors import reason
from netfw.ovs.openflow.flow_cache import (
    Digest,
    Drift,
    FlowCache,
    FlowGroup,
    FlowPlan,
    Owner,
    digest,
)
from netfw.ovs.openflow.flow_diff import CookieSpace
from netfw.ovs.openflow.messages import FlowUpdateEvent, OpenFlowMessage

_NOT_READ = "not all flows were read yet"
_OUTDATED = "planned before another plan of the same flows was executed; plan again"


class FlowMirror:
    """A cache of the flows of a bridge; all drivers that write flows to that bridge share it.

    A client has one mirror at most.

    1. It follows the flow monitor of the switch: every change is in the mirror within milliseconds.
    2. When another client changed flows of this one, or an audit finds that their meters are wrong,
       *on_drift* is called on the client's thread; the next plan of their owners repairs them.
    3. After a lost connection it reads all flows again, and reports the differences as drift.
    4. The switch abbreviates reports of changes by this client itself.  Plans are recorded when
       they are committed; after any other change of this client, and when it is unknown whether a
       plan was executed, it reads all flows again.  Learned flows are reported with the next
       change.
    5. While it is not current, plans are refused: a plan from a stale mirror would be wrong.
    """

    def __init__(self, client: OpenFlow, on_drift: Callable[[Drift], None] | None = None) -> None:
        self._client = client
        self._on_drift = on_drift
        self._cache = FlowCache()
        self._lock = threading.RLock()
        self._applying = threading.Lock()
        self._current = threading.Event()
        self._problem = _NOT_READ
        self._monitor = 0
        self._initial: dict[Key, Digest] = {}
        self._meters: dict[int, RateLimit] | None = None
        client.connection.on_message(messages.Type.MULTIPART_REPLY, self._reported)
        client.on_state(self._connected)

    def wait_current(self, timeout: float | None = None) -> None:
        """Wait until all flows were read.

        :raises BackendUnavailable: they were not in time.
        """
        if not self._current.wait(self._client.connection.timeout if timeout is None else timeout):
            self._client.wait_connected(0)
            raise BackendUnavailable(f"{self._client.connection.target}: {self._problem}")

    def __len__(self) -> int:
        """Return how many flows the switch holds."""
        return len(self._cache.observed)

    def __contains__(self, key: Key) -> bool:
        return canonical(key) in self._cache.observed

    def cookie(self, key: Key) -> int | None:
        """Return the cookie of a flow that the switch holds."""
        state = self._cache.observed.get(canonical(key))
        return None if state is None else cookie_of(state)

    def plan(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
        keep: Collection[Owner] = (),
        erase: Collection[CookieSpace] = (),
    ) -> FlowPlan:
        """Plan changes; see :meth:`~netfw.ovs.openflow.flow_cache.FlowCache.plan`.

        :raises BackendUnavailable: there is no connection, or not everything was read yet.
        """
        with self._lock:
            if not self._current.is_set():
                self.wait_current(0)
            return self._cache.plan(put, drop, complete=complete, keep=keep, erase=erase)

    def adopt(self, put: Mapping[Owner, Collection[Key]]) -> None:
        """Assign owners to the flows of an earlier run, without changing them.

        See :meth:`~netfw.ovs.openflow.flow_cache.FlowCache.adopt`.

        :raises BackendUnavailable: there is no connection, or not everything was read yet.
        """
        with self._lock:
            if not self._current.is_set():
                self.wait_current(0)
            self._cache.adopt(put)

    def apply(self, plan: FlowPlan) -> None:
        """Execute *plan*, all of it or nothing.

        :raises OperationRefused: the switch refused flows, or *plan* is older than one that was
            executed for the same owners; nothing was done.
        :raises BackendUnavailable: it is unknown whether it was done; the mirror reads all flows
            again by itself, and resolves that.
        """

        unused: frozenset[int] = frozenset()

        def committed() -> None:
            nonlocal unused
            with self._lock:
                named = self._cache.meters_of(plan)
                drift = self._cache.confirm(plan)
                unused = self._cache.take_unnamed(named)
            self._publish(drift)

        with self._applying:
            with self._lock:
                outdated = self._cache.outdated(plan)
            if outdated:
                raise OperationRefused(dict.fromkeys(outdated, _OUTDATED))
            try:
                self._client.commit(plan.changes, committed, by=self)
            except BackendUnavailable:
                self._mark_uncertain(plan)
                raise
            self._client.delete_meters(unused)

    def converge(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
    ) -> FlowPlan:
        """Plan and apply; return the plan that was executed."""
        plan = self.plan(put, drop, complete=complete)
        self.apply(plan)
        return plan

    def audit(self) -> None:
        """Read all flows and meters again, and report to *on_drift* what the monitor did not.

        :raises BackendUnavailable: there is no connection; once there is, all flows are read.
        """
        meters = self._client.meters()
        with self._lock:
            self._read_all()
            self._meters = meters

    def _mark_uncertain(self, plan: FlowPlan) -> None:
        """Resolve by reading all flows, after everything that was sent."""
        with self._lock:
            self._cache.mark_uncertain(plan)
            with suppress(BackendUnavailable):  # it reads again when it is connected again
                self._read_all()

    def _connected(self, up: bool) -> None:
        with self._lock:
            self._current.clear()
            if up:
                self._monitor = 0
                self._read_all()

    def _read_all(self) -> None:
        connection = self._client.connection
        ending = b""
        if self._monitor:
            xid = connection.next_xid()
            ending = messages.monitor_end(xid, self._monitor)
        self._current.clear()
        self._problem = _NOT_READ
        self._monitor += 1
        self._initial = {}
        self._meters = None
        xid = connection.next_xid()
        number = self._monitor
        connection.follow(xid, lambda reply: self._replied(number, reply))
        try:
            connection.send(ending + messages.monitor_request(xid, number))
        except BackendUnavailable:
            connection.unfollow(xid)
            raise

    def _replied(self, number: int, reply: OpenFlowMessage) -> None:
        """Handle a part of the initial dump; reports of changes follow the last part."""
        more = reply.type != messages.Type.ERROR and reply.data[11] & messages.MORE
        if not more:
            self._client.connection.unfollow(reply.xid)
        drift = Drift()
        with self._lock:
            if number != self._monitor:
                return
            if reply.type == messages.Type.ERROR:
                self._problem = f"the switch does not report its flows: {reason(reply)}"
                return
            for event in messages.read_monitor(reply.data):
                self._initial[canonical(event.key)] = digest(event.state)
            if not more:
                drift = self._cache.load(self._initial, self._meters)
                self._initial = {}
                self._current.set()
        self._publish(drift)

    def _reported(self, report: OpenFlowMessage) -> None:
        """Handle changes; those before the end of the initial dump are part of it."""
        if messages.MULTIPART.unpack_from(report.data, 8)[0] != messages.FLOW_MONITOR:
            return
        drift = Drift()
        with self._lock:
            if self._current.is_set():
                drift = self._changed(report.data)
        self._publish(drift)

    def _publish(self, drift: Drift) -> None:
        if drift and self._on_drift is not None:
            self._on_drift(drift)

    def _changed(self, report: bytes) -> Drift:
        owners: set[Owner] = set()
        unowned: set[Key] = set()
        for event in messages.read_monitor(report):
            if event.event < FlowUpdateEvent.OWN:
                drift = self._cache.on_event(event)
                owners |= drift.owners
                unowned |= drift.unowned
            elif event.event is FlowUpdateEvent.OWN and not self._client.is_by(self, event.xid):
                self._read_all()
                break
        return Drift(frozenset(owners), frozenset(unowned))
