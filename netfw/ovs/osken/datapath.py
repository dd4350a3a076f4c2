"""os-ken's ``Datapath`` on a connection of netfw."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from netfw.errors import BackendError, BackendUnavailable
from netfw.ovs.openflow import messages
from netfw.ovs.openflow.client import OpenFlow
from netfw.ovs.openflow.errors import OpenFlowError
from netfw.ovs.openflow.messages import OpenFlowMessage, Type
from netfw.ovs.osken.event_loop import EventLoop
from netfw.ovs.osken.handlers import Handlers

LOG = logging.getLogger(__name__)
_WHOLE_PACKETS = 0xFFFF


class MessageRefused(OpenFlowError):
    """The switch refused a message; ``msg`` is its error as os-ken's ``OFPErrorMsg``."""

    def __init__(self, why: str, msg: Any) -> None:
        super().__init__(why)
        self.msg = msg


class Datapath(ProtocolDesc):  # type: ignore[misc]  # os-ken has no types
    """Carries os-ken's messages of OpenFlow 1.4 on the connection of *client*.

    1. It has the attributes of os-ken's ``Datapath`` that applications use: ``id``, ``ofproto``,
       ``ofproto_parser``, ``state``, ``is_active``, ``address``, ``set_xid``, ``send_msg`` and
       ``send_barrier``; and :meth:`ask`.
    2. Handlers of *apps*, decorated by os-ken's ``set_ev_cls``, are called one after the other on
       a thread of its own, in the phases they name, and may call :meth:`ask`.  A handler that
       raises is reported in the log.
    3. After a lost connection its state is ``DEAD_DISPATCHER`` until the switch is back; then the
       phases are run through again, and ``EventOFPStateChange`` reports each.
    4. It receives packets if an application handles ``EventOFPPacketIn``.
    5. While handlers are slower than the switch, a thousand messages wait; beyond, they are
       dropped, which the log says.  Changes of state are never dropped.
    """

    def __init__(self, client: OpenFlow, *apps: object) -> None:
        """Offer the connection of *client* to applications.

        :raises ValueError: an application does not support OpenFlow 1.4.
        :raises BackendUnavailable: the machine has no thread left.
        """
        super().__init__(messages.VERSION)
        self._connection = client.connection
        self._handlers = Handlers(apps, self.ofproto_parser)
        self.address = self._connection.target
        self.id: int | None = None
        self.state = DEAD_DISPATCHER
        self._main: Future[None] = Future()
        self._loop = EventLoop(f"os-ken {self.address}", self._receive, self._change)
        for kind in self._handlers.message_types:
            self._connection.on_message(kind, self._loop.add_message)
        self._connection.on_state(self._loop.add_change)

    def close(self) -> None:
        """Stop to call handlers, and wait for the one that is called now; the client stays."""
        self._loop.close()

    @property
    def is_active(self) -> bool:
        return self._connection.connected

    def wait_main(self, timeout: float | None = None) -> None:
        """Wait until the switch has told its features, and ``id`` is known.

        :raises BackendUnavailable: it did not in time; the message says why.
        """
        limit = self._connection.timeout if timeout is None else timeout
        self._connection.wait_connected(limit)
        try:
            self._main.result(limit)
        except TimeoutError as exc:
            raise BackendUnavailable(f"{self.address} did not tell its features") from exc

    def set_xid(self, msg: Any) -> int:
        """Give *msg* the next number of the connection, and return it."""
        xid = self._connection.next_xid()
        msg.set_xid(xid)
        return xid

    def send_msg(self, msg: Any) -> bool:
        """Send *msg*; return whether there is a connection, as os-ken does.

        Replies and refusals arrive as events; :meth:`ask` returns them.
        """
        try:
            self._connection.send(self._serialized(msg))
        except BackendUnavailable:
            LOG.debug("%s: not sent, there is no connection: %s", self.address, type(msg).__name__)
            return False
        return True

    def send_barrier(self) -> bool:
        return self.send_msg(self.ofproto_parser.OFPBarrierRequest(self))

    def ask(self, msg: Any) -> list[Any]:
        """Send *msg* and a barrier, and return the replies; none if it is executed in silence.

        :raises MessageRefused: the switch refused it.
        :raises BackendUnavailable: there is no connection, or no answer in time.
        :raises BackendError: os-ken cannot read a reply.
        """
        data = self._serialized(msg)
        answer = self._connection.ask(msg.xid, data)
        try:
            xid = self._connection.next_xid()
            self._connection.request(xid, messages.message(Type.BARRIER_REQUEST, xid))
        finally:
            self._connection.forget(msg.xid)
        if not answer.done():
            return []
        try:
            return [self._parsed(reply) for reply in answer.result()]
        except OpenFlowError as exc:
            if exc.answer is None:
                raise
            raise MessageRefused(str(exc), self._parsed(exc.answer)) from exc

    def _serialized(self, msg: Any) -> bytes:
        if msg.xid is None:
            self.set_xid(msg)
        msg.serialize()
        return bytes(msg.buf)

    def _parsed(self, received: OpenFlowMessage) -> Any:
        data = received.data
        found = ofproto_parser.msg(self, *messages.HEADER.unpack_from(data), data)
        if found is None:
            raise BackendError(f"os-ken cannot read a message of type {received.type}; see the log")
        return found

    # The thread of the handlers

    def _receive(self, received: OpenFlowMessage) -> None:
        msg = self._parsed(received)
        self._handlers.call(ofp_event.ofp_msg_to_ev(msg), self.state)

    def _change(self, up: bool) -> None:
        if not up:
            if self._main.done():  # else a caller may wait for it, also over lost connections
                self._main = Future()
            self._enter(DEAD_DISPATCHER)
            return
        with suppress(BackendUnavailable):  # it is lost again, which is reported next
            self._enter(CONFIG_DISPATCHER)
            (features,) = self.ask(self.ofproto_parser.OFPFeaturesRequest(self))
            self.id = features.datapath_id
            self._handlers.call(ofp_event.ofp_msg_to_ev(features), self.state)
            if Type.PACKET_IN in self._handlers.message_types:
                self._request_packets()
            self._enter(MAIN_DISPATCHER)
            self._main.set_result(None)

    def _request_packets(self) -> None:
        """Ask for whole packets, and leave how fragments are matched as the bridge has it."""
        (config,) = self.ask(self.ofproto_parser.OFPGetConfigRequest(self))
        self.ask(self.ofproto_parser.OFPSetConfig(self, config.flags, _WHOLE_PACKETS))

    def _enter(self, state: str) -> None:
        self.state = state
        event = ofp_event.EventOFPStateChange(self)
        event.state = state
        self._handlers.call(event, state)
