"""DhcpResponder: receives requests from the switch, and sends the replies."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow.packets import PacketConnection, PacketIn
from netfw_drivers.ovs.dhcp.plan.flows import CONTROLLER_ID
from netfw_drivers.ovs.dhcp.plan.replies import make_reply

LOG = logging.getLogger(__name__)
MAX_WAITING = 1024
"""Requests that wait for their replies at most; clients repeat what is dropped."""
MAX_WAITING_OF_PORT = 8
"""Requests of one port that wait at most: a port that floods delays others little."""


class DhcpResponder:
    """Answers the requests that flows send to the agent; each reply goes to the port that asked.

    It stores nothing: the reply follows from the request and from what its flow carries.
    """

    def __init__(self, target: str, *, timeout: float) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[PacketIn] = deque()
        self._of_port: Counter[int] = Counter()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="dhcp", daemon=True)
        self._connection = PacketConnection(target, CONTROLLER_ID, self._receive, timeout=timeout)
        self._thread.start()

    def close(self) -> None:
        """Stop answering; the flows stay."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._connection.close()
        self._thread.join()

    def _receive(self, packet: PacketIn) -> None:
        with self._changed:
            is_full = len(self._waiting) >= MAX_WAITING
            if is_full or self._of_port[packet.in_port] >= MAX_WAITING_OF_PORT:
                return
            self._of_port[packet.in_port] += 1
            self._waiting.append(packet)
            self._changed.notify_all()

    def _run(self) -> None:
        while (packet := self._next()) is not None:
            try:
                reply = make_reply(packet.data, packet.userdata)
                if reply is not None:
                    self._connection.send(packet.in_port, reply)
            except BackendUnavailable as exc:
                LOG.warning("a DHCP reply was not sent: %s; the client repeats its request", exc)
            except Exception:
                LOG.exception("a DHCP request was not answered")

    def _next(self) -> PacketIn | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._waiting)
            if self._closing:
                return None
            packet = self._waiting.popleft()
            self._of_port[packet.in_port] -= 1
            if not self._of_port[packet.in_port]:
                del self._of_port[packet.in_port]
            return packet
