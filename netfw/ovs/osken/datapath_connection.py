"""netfw's clients on the connection of an os-ken application."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_handler
from os_ken.ofproto import ofproto_v1_4_parser as parser

from netfw.ovs.openflow import messages
from netfw.ovs.openflow.connection import OpenFlowConnection, StateListener
from netfw.ovs.openflow.messages import OpenFlowMessage

_HALF = 0x80000000


class DatapathConnection(OpenFlowConnection):
    """Carries netfw's messages on os-ken's *datapath*, which stays the application's.

    1. The datapath speaks OpenFlow 1.4 and has reached ``MAIN_DISPATCHER``.
    2. It lasts as long as the datapath: when the switch is back, os-ken makes another datapath,
       and the application another client.  Of a lost connection requests learn at once when the
       application calls :meth:`close`, and by their timeout otherwise: os-ken does not report it
       where it runs on threads.
    3. The application sees the messages that netfw receives as events of its own.
    4. os-ken parses everything before it is handed on, which costs about 100 us for each flow that
       is read; writing costs what it always does.
    """

    def __init__(self, datapath: Any, *, timeout: float = 10.0) -> None:
        """Use the connection of an application's datapath.

        :raises ValueError: the datapath has another version, or is not ready.
        """
        if datapath.ofproto.OFP_VERSION != messages.VERSION:
            raise ValueError(
                "the datapath does not speak OpenFlow 1.4: set OFP_VERSIONS of the application "
                "to [ofproto_v1_4.OFP_VERSION]"
            )
        if datapath.state != MAIN_DISPATCHER:
            raise ValueError(f"the datapath is in phase {datapath.state}: wait for MAIN_DISPATCHER")
        super().__init__(f"os-ken:{datapath.address}", timeout)
        self._datapath = datapath
        self._closed = threading.Event()
        # Far from the numbers that the application gives to its own messages.
        self._last_xid = (datapath.xid + _HALF) % (2 * _HALF)
        self._handler = set_ev_handler(list(_event_classes()), MAIN_DISPATCHER)(
            partial(self._handle_event)  # a method cannot carry what os-ken notes on it
        )
        for event_class in self._handler.callers:
            datapath.ofp_brick.register_handler(event_class, self._handler)

    @property
    def connected(self) -> bool:
        datapath = self._datapath
        alive = datapath.state != DEAD_DISPATCHER and datapath.socket.fileno() >= 0
        return alive and not self._closed.is_set()

    def wait_connected(self, timeout: float | None = None) -> None:
        """See that the datapath is connected; one that is lost never comes back.

        :raises BackendUnavailable: it is lost.
        """
        if not self.connected:
            self._last_error = "the datapath is closed: make a client of the next one"
            raise self._unavailable()

    def on_state(self, listener: StateListener) -> None:
        """Call *listener* with True if the datapath is connected."""
        if self.connected:
            listener(True)

    def send(self, data: bytes) -> None:
        """Send whole messages.

        :raises BackendUnavailable: the datapath is closed.
        """
        self.wait_connected()
        if not self._datapath.send(data):
            raise self._unavailable()

    def close(self) -> None:
        """Stop to use the datapath; requests that wait fail."""
        if not self._closed.is_set():
            self._closed.set()
            for event_class in self._handler.callers:
                self._datapath.ofp_brick.unregister_handler(event_class, self._handler)
            self._last_error = "the datapath is closed: make a client of the next one"
            self._fail_waiting()

    def _handle_event(self, event: Any) -> None:
        """Take a message on the datapath's own thread, in the order of arrival."""
        msg = event.msg
        if msg.datapath is self._datapath:
            self._deliver(OpenFlowMessage(msg.version, msg.msg_type, msg.xid, bytes(msg.buf)))


def _event_classes() -> Iterator[type]:
    """Yield the event of every message that os-ken knows in OpenFlow 1.4."""
    for _, known in inspect.getmembers(parser, inspect.isclass):
        if hasattr(known, "cls_msg_type"):
            yield ofp_event.ofp_msg_to_ev_cls(known)
