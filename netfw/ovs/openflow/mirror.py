"""A mirror of a switch's flows, kept current by the switch itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from netfw.errors import BackendUnavailable, OperationRefused
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
from netfw.ovs.openflow.messages import Event, Message

_NOT_READ = "not all flows were read yet"
_OUTDATED = "planned before another plan of the same flows was carried out; plan again"


class FlowMirror:
    """What a bridge holds, without asking it; shared by all who put flows on that bridge.

    A client has one mirror at most.

    1. It follows the switch's flow monitor: what anybody changes is known within milliseconds.
    2. What somebody else did to our flows is told to *on_drift*, on the client's thread; the
       next plan of those owners puts it right.
    3. After a lost connection it reads everything again, and tells how that differs.
    4. The switch only marks what this client itself does.  Plans are noted when committed; after
       anything else, and when nobody knows whether a plan was carried out, it reads everything
       again.  Learnt flows are reported with the next change.
    5. While it is not current, plans are refused: a stale mirror would plan wrong things.
    """

    def __init__(self, client: OpenFlow, on_drift: Callable[[Drift], None] | None = None) -> None:
        self._client = client
        self._on_drift = on_drift
        self._book = FlowCache()
        self._lock = threading.RLock()
        self._applying = threading.Lock()
        self._current = threading.Event()
        self._trouble = _NOT_READ
        self._monitor = 0
        self._initial: dict[Key, Digest] = {}
        client.connection.on_message(messages.Type.MULTIPART_REPLY, self._reported)
        client.on_state(self._connected)

    def wait_current(self, timeout: float | None = None) -> None:
        """Wait until everything was read.

        :raises BackendUnavailable: it was not in time.
        """
        if not self._current.wait(self._client.connection.timeout if timeout is None else timeout):
            self._client.wait_connected(0)
            raise BackendUnavailable(f"{self._client.connection.target}: {self._trouble}")

    def __len__(self) -> int:
        """How many flows the switch holds."""
        return len(self._book.observed)

    def __contains__(self, key: Key) -> bool:
        return canonical(key) in self._book.observed

    def cookie(self, key: Key) -> int | None:
        """The cookie of a flow that the switch holds."""
        found = self._book.observed.get(canonical(key))
        return None if found is None else cookie_of(found)

    def plan(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
        keep: Collection[Owner] = (),
        erase: CookieSpace | None = None,
    ) -> FlowPlan:
        """What to change; see :meth:`~netfw.ovs.openflow.flow_cache.FlowCache.plan`.

        :raises BackendUnavailable: there is no connection, or not everything was read yet.
        """
        with self._lock:
            if not self._current.is_set():
                self.wait_current(0)
            return self._book.plan(put, drop, complete=complete, keep=keep, erase=erase)

    def adopt(self, put: Mapping[Owner, FlowGroup]) -> None:
        """Take over what an earlier run has left; touches nothing.

        See :meth:`~netfw.ovs.openflow.flow_cache.FlowCache.adopt`.

        :raises BackendUnavailable: there is no connection, or not everything was read yet.
        """
        with self._lock:
            if not self._current.is_set():
                self.wait_current(0)
            self._book.adopt(put)

    def apply(self, plan: FlowPlan) -> None:
        """Carry out *plan*, all of it or nothing.

        :raises OperationRefused: the switch refused flows, or *plan* is older than one that was
            carried out for the same owners; nothing was done.
        :raises BackendUnavailable: nobody knows whether it was done; the mirror reads again by
            itself, and then knows.
        """

        def committed() -> None:
            with self._lock:
                drift = self._book.confirm(plan)
            self._tell(drift)

        with self._applying:
            with self._lock:
                outdated = self._book.outdated(plan)
            if outdated:
                raise OperationRefused(dict.fromkeys(outdated, _OUTDATED))
            try:
                self._client.commit(plan.changes, committed, by=self)
            except BackendUnavailable:
                self._doubt(plan)
                raise

    def converge(
        self,
        put: Mapping[Owner, FlowGroup],
        drop: Collection[Owner] = (),
        *,
        complete: CookieSpace | None = None,
    ) -> FlowPlan:
        """Plan and apply; the plan that was carried out."""
        plan = self.plan(put, drop, complete=complete)
        self.apply(plan)
        return plan

    def audit(self) -> None:
        """Read everything again, and tell *on_drift* what no report had announced.

        :raises BackendUnavailable: there is no connection; once there is, everything is read.
        """
        with self._lock:
            self._read_all()

    def _doubt(self, plan: FlowPlan) -> None:
        """Find out by reading, behind everything that was sent."""
        with self._lock:
            self._book.mark_uncertain(plan)
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
        self._trouble = _NOT_READ
        self._monitor += 1
        self._initial = {}
        xid = connection.next_xid()
        number = self._monitor
        connection.follow(xid, lambda reply: self._replied(number, reply))
        try:
            connection.send(ending + messages.monitor_request(xid, number))
        except BackendUnavailable:
            connection.unfollow(xid)
            raise

    def _replied(self, number: int, reply: Message) -> None:
        """Take in a part of everything there is; reports of changes follow behind the last one."""
        more = reply.type != messages.Type.ERROR and reply.data[11] & messages.MORE
        if not more:
            self._client.connection.unfollow(reply.xid)
        drift = Drift()
        with self._lock:
            if number != self._monitor:
                return
            if reply.type == messages.Type.ERROR:
                self._trouble = f"the switch does not report its flows: {reason(reply)}"
                return
            for event in messages.read_monitor(reply.data):
                self._initial[canonical(event.key)] = digest(event.state)
            if not more:
                drift = self._book.load(self._initial)
                self._initial = {}
                self._current.set()
        self._tell(drift)

    def _reported(self, report: Message) -> None:
        """Take in changes; before everything was read they say nothing new."""
        if messages.MULTIPART.unpack_from(report.data, 8)[0] != messages.FLOW_MONITOR:
            return
        drift = Drift()
        with self._lock:
            if self._current.is_set():
                drift = self._changed(report.data)
        self._tell(drift)

    def _tell(self, drift: Drift) -> None:
        if drift and self._on_drift is not None:
            self._on_drift(drift)

    def _changed(self, report: bytes) -> Drift:
        owners: set[Owner] = set()
        strays: set[Key] = set()
        for event in messages.read_monitor(report):
            if event.event < Event.OWN:
                drift = self._book.on_event(event)
                owners |= drift.owners
                strays |= drift.strays
            elif event.event is Event.OWN and not self._client.is_by(self, event.xid):
                self._read_all()
                break
        return Drift(frozenset(owners), frozenset(strays))
