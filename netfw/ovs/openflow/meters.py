"""Meters: limits of the packets that pass flows, or that flows send to the controller.

Meters are written before the flows that name them: the switch refuses a flow that passes packets
through a meter that is missing, and accepts one whose packets to the controller are not limited
then.  With a meter, the switch deletes the flows that pass packets through it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from netfw.flows import Flow
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import OpenFlowConnection
from netfw.ovs.openflow.errors import OpenFlowError
from netfw.ovs.openflow.flow_diff import limits_of
from netfw.ovs.openflow.messages import OpenFlowMessage, Type

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Meters:
    """Writes the meters of flows that are about to be written, and deletes unused ones."""

    def __init__(self, connection: OpenFlowConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._reported = False
        connection.on_state(self._reconnected)

    def ensure(self, flows: Iterable[Flow]) -> None:
        """Write the meters of *flows*, whether or not the switch has them.

        A switch without meters is reported in the log.

        :raises BackendUnavailable: there is no connection, or no answer in time.
        """
        wanted = {limit.meter: limit for flow in flows for limit in limits_of(flow)}
        if not wanted:
            return
        with self._lock:
            limits = list(wanted.values())
            # One round trip: a meter that exists is refused first, and changed then.
            errors, refused = self._send(limits, messages.add_meter, messages.modify_meter)
        if refused and not self._reported:
            self._reported = True
            first, error = next(iter(refused.items()))
            LOG.warning(
                "%s: limits are not in force, of %d meters: %s",
                self._connection.target, len(refused), errors.get(first, error),
            )  # fmt: skip

    def delete(self, meters: Iterable[int]) -> None:
        """Delete *meters*, which no flow names; those that are missing already are ignored.

        :raises BackendUnavailable: there is no connection, or no answer in time.
        """
        unused = list(meters)
        if unused:
            with self._lock:
                self._send(unused, messages.delete_meter)

    def _reconnected(self, up: bool) -> None:
        self._reported = False

    def _send(
        self, items: list[T], *render: Callable[[int, T], bytes]
    ) -> list[dict[T, OpenFlowError]]:
        """Send messages for each of *items*; return those that the switch refuses, by message."""
        connection = self._connection
        asked: list[list[tuple[T, int, Future[list[OpenFlowMessage]]]]] = [[] for _ in render]
        try:
            for item in items:
                for sent, make in zip(asked, render, strict=True):
                    xid = connection.next_xid()
                    sent.append((item, xid, connection.ask(xid, make(xid, item))))
            xid = connection.next_xid()
            connection.request(xid, messages.message(Type.BARRIER_REQUEST, xid))
        finally:
            for sent in asked:
                for _, number, _ in sent:
                    connection.forget(number)
        return [
            {item: error for item, _, answer in sent for error in _errors(answer)} for sent in asked
        ]


def _errors(answer: Future[list[OpenFlowMessage]]) -> Iterator[OpenFlowError]:
    error = answer.exception() if answer.done() else None
    if isinstance(error, OpenFlowError):
        yield error
