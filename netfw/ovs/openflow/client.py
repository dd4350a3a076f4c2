"""OpenFlow client of one bridge: reads, changes and watches its flows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from netfw import tracing
from netfw.errors import BackendError
from netfw.flows import RateLimit
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.bundle import Bundles
from netfw.ovs.openflow.connection import OpenFlowConnection
from netfw.ovs.openflow.encode import Key, State
from netfw.ovs.openflow.errors import OpenFlowError
from netfw.ovs.openflow.flow_diff import EVERYBODY, CookieSpace, FlowChanges
from netfw.ovs.openflow.megaflows import Megaflows
from netfw.ovs.openflow.messages import OpenFlowMessage, Type
from netfw.ovs.openflow.meters import Meters
from netfw.ovs.openflow.socket_connection import SocketConnection

if TYPE_CHECKING:
    from netfw.ovs.openflow.tls import SwitchTls


class OpenFlow:
    """Speaks OpenFlow 1.4 with the bridge behind *target*.

    *target* is as :class:`~netfw.ovs.openflow.socket_connection.SocketConnection` says, or a
    connection.

    1. It connects by itself, and again whenever the connection is lost; ``on_state`` reports it.
    2. Without a connection every call raises ``BackendUnavailable`` at once; nothing is queued.
    3. Calls may come from any thread.  Listeners are called on the client's own thread and must
       not call it back.
    4. Several clients, to one or many switches, share nothing.
    """

    def __init__(
        self,
        target: str | OpenFlowConnection,
        *,
        timeout: float = 10.0,
        probe: float = 5.0,
        tls: SwitchTls | None = None,
    ) -> None:
        """Take a connection that exists, or make one by the options.

        :raises ConfigError: the files of TLS are missing or cannot be used.
        :raises BackendUnavailable: the machine has no thread left.
        """
        self.connection = (
            target
            if isinstance(target, OpenFlowConnection)
            else SocketConnection(target, timeout=timeout, probe=probe, tls=tls)
        )
        self._bundles = Bundles(self.connection)
        self._meters = Meters(self.connection)
        self._megaflows = Megaflows(self.connection)

    def close(self) -> None:
        """Close the connection and stop the thread; the switch keeps its flows."""
        self.connection.close()

    @property
    def connected(self) -> bool:
        return self.connection.connected

    def wait_connected(self, timeout: float | None = None) -> None:
        """Wait for the switch.

        :raises BackendUnavailable: it did not answer in time; the message says why.
        """
        self.connection.wait_connected(timeout)

    def on_state(self, listener: Callable[[bool], None]) -> None:
        """Call *listener* with True when the connection is up, and with False when it is lost."""
        self.connection.on_state(listener)

    def datapath_id(self) -> int:
        """Return the datapath id of the switch."""
        (reply,) = self._ask(Type.FEATURES_REQUEST)
        return int.from_bytes(reply.data[8:16], "big")

    def barrier(self) -> None:
        """Wait until the switch has handled all earlier messages."""
        self._ask(Type.BARRIER_REQUEST)

    def flows(
        self, space: CookieSpace = EVERYBODY, table: int = messages.ALL_TABLES
    ) -> list[tuple[Key, State]]:
        """Return the flows of *space* that the switch holds now, as raw entries."""
        xid = self.connection.next_xid()
        request = messages.dump_request(xid, table, space.value, space.mask)
        with _reading():
            return [
                entry
                for part in self.connection.stream(xid, request)
                for entry in messages.read_dump(part.data)
            ]

    def commit(
        self,
        changes: FlowChanges,
        committed: Callable[[], None] | None = None,
        by: object = None,
    ) -> None:
        """Execute *changes* atomically; see :meth:`~netfw.ovs.openflow.bundle.Bundles.commit`.

        Meters that flows name are written before.  Megaflows that the switch could keep from
        before the changes are deleted after; those of an unknown outcome by the next call, also
        if that has no changes.
        """
        if changes:
            self._meters.ensure(each.flow for each in (*changes.changed, *changes.added))
            self._megaflows.mark_outdated()
            with tracing.inner_span("openflow bundle", flows=len(changes)):
                self._bundles.commit(changes, committed, by)
        elif committed is not None:
            committed()
        self._megaflows.delete_outdated()

    def meters(self) -> dict[int, RateLimit] | None:
        """Return the limits of all meters; ``None``: the switch has no meters."""
        xid = self.connection.next_xid()
        try:
            with _reading():
                parts = self.connection.request(xid, messages.meters_request(xid))
                limits = (limit for part in parts for limit in messages.read_meters(part.data))
                return {limit.meter: limit for limit in limits}
        except OpenFlowError:
            return None

    def delete_meters(self, meters: Iterable[int]) -> None:
        """Delete *meters*, which no flow names any more."""
        self._meters.delete(meters)

    def is_by(self, who: object, xid: int) -> bool:
        """Return whether *xid* is of the latest commit, and that was on behalf of *who*."""
        return self._bundles.is_by(who, xid)

    def match_first_fragments(self) -> None:
        """Make the switch match first fragments by their ports and ICMP types from now on.

        By default fragments have neither, so that a fragmented packet passes all flows that match
        on them.
        """

        def connected(up: bool) -> None:
            if up:
                xid = self.connection.next_xid()
                self.connection.send(messages.match_first_fragments(xid))

        self.connection.on_state(connected)

    def flush_zone(self, zone: int) -> None:
        """Flush the conntrack entries of *zone*.

        :raises OpenFlowError: the switch has no connection tracking.
        """
        self._confirmed(messages.flush_zone(self.connection.next_xid(), zone))

    def _confirmed(self, data: bytes) -> None:
        """Send a message that the switch answers only with an error, and a barrier after it.

        :raises OpenFlowError: it refused.
        """
        xid = int.from_bytes(data[4:8], "big")
        refusal = self.connection.ask(xid, data)
        self.barrier()
        self.connection.forget(xid)
        if refusal.done():
            refusal.result()

    def _ask(self, kind: Type) -> list[OpenFlowMessage]:
        xid = self.connection.next_xid()
        return self.connection.request(xid, messages.message(kind, xid))


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (ValueError, IndexError, struct.error) as exc:
        raise BackendError(f"the switch sent what is not OpenFlow: {exc}") from exc
