"""DhcpResponder: receives requests from the switch, and sends the replies."""

from __future__ import annotations

import logging
from collections import Counter

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow.packets import PacketIn
from netfw_drivers.ovs.common.packet_receiver import PacketReceiver
from netfw_drivers.ovs.dhcp.plan.flows import CONTROLLER_ID
from netfw_drivers.ovs.dhcp.plan.replies import make_reply

LOG = logging.getLogger(__name__)
MAX_WAITING_OF_PORT = 8
"""Requests of one port that wait at most: a port that floods delays others little."""


class DhcpResponder(PacketReceiver):
    """Answers the requests that flows send to the agent; each reply goes to the port that asked.

    It stores nothing: the reply follows from the request and from what its flow carries.  Clients
    repeat what is dropped.
    """

    def __init__(self, target: str, *, timeout: float) -> None:
        self._of_port: Counter[int] = Counter()
        super().__init__(target, CONTROLLER_ID, name="dhcp", timeout=timeout)

    def admit(self, packet: PacketIn) -> bool:
        if self._of_port[packet.in_port] >= MAX_WAITING_OF_PORT:
            return False
        self._of_port[packet.in_port] += 1
        return True

    def take(self, packet: PacketIn) -> None:
        self._of_port[packet.in_port] -= 1
        if not self._of_port[packet.in_port]:
            del self._of_port[packet.in_port]

    def handle(self, packet: PacketIn) -> None:
        try:
            reply = make_reply(packet.data, packet.userdata)
            if reply is not None:
                self.connection.send(packet.in_port, reply)
        except BackendUnavailable as exc:
            LOG.warning("a DHCP reply was not sent: %s; the client repeats its request", exc)
        except Exception:
            LOG.exception("a DHCP request was not answered")
