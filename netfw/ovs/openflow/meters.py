"""Meters: limits of the packets that flows send to the controller.

The switch resolves the meter of a flow when the flow is added, and accepts a flow whose meter is
missing: its packets are not limited then.  So meters are written before flows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

from netfw.flows import Flow, PacketLimit, SendToController
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import Connection
from netfw.ovs.openflow.errors import OpenFlowError
from netfw.ovs.openflow.messages import Message, Type

LOG = logging.getLogger(__name__)


class Meters:
    """Writes the meters that flows name, each once for each connection.

    Meters are not removed: there is one at most for each number that flows name.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._written: dict[int, PacketLimit] = {}
        connection.on_state(self._invalidate)

    def ensure(self, flows: Iterable[Flow]) -> None:
        """Write the meters of *flows* that this connection has not written.

        A switch without meters is reported in the log.

        :raises BackendUnavailable: there is no connection, or no answer in time.
        """
        wanted = {limit.meter: limit for flow in flows for limit in limits_of(flow)}
        with self._lock:
            new = [limit for limit in wanted.values() if self._written.get(limit.meter) != limit]
            if not new:
                return
            present = self._write(new, messages.add_meter)
            refused = self._write(list(present), messages.modify_meter)
            self._written |= {limit.meter: limit for limit in new}
        if refused:
            _, error = next(iter(refused.items()))
            LOG.warning(
                "%s: packets to the controller are not limited, of %d meters: %s",
                self._connection.target, len(refused), error,
            )  # fmt: skip

    def _invalidate(self, up: bool) -> None:
        self._written = {}

    def _write(
        self, limits: list[PacketLimit], render: Callable[[int, PacketLimit], bytes]
    ) -> dict[PacketLimit, OpenFlowError]:
        """Send a message for each of *limits*; return those that the switch refuses."""
        if not limits:
            return {}
        connection = self._connection
        asked: dict[PacketLimit, tuple[int, Future[list[Message]]]] = {}
        try:
            for limit in limits:
                xid = connection.next_xid()
                asked[limit] = xid, connection.ask(xid, render(xid, limit))
            xid = connection.next_xid()
            connection.request(xid, messages.message(Type.BARRIER_REQUEST, xid))
        finally:
            for number, _ in asked.values():
                connection.forget(number)
        return {limit: error for limit, (_, answer) in asked.items() for error in _errors(answer)}


def limits_of(flow: Flow) -> Iterator[PacketLimit]:
    """Yield the limits of the packets that *flow* sends to the controller."""
    for action in flow.actions:
        if type(action) is SendToController and action.limit is not None:
            yield action.limit


def _errors(answer: Future[list[Message]]) -> Iterator[OpenFlowError]:
    error = answer.exception() if answer.done() else None
    if isinstance(error, OpenFlowError):
        yield error
