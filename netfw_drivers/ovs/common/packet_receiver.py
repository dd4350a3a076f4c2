"""PacketReceiver: packets that flows send to the agent, handled one by one on a thread."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow.packets import PacketConnection, PacketIn


class PacketReceiver(ABC):
    """A bounded queue of packets from the switch, and the thread that handles them.

    ``admit``, ``drop`` and ``take`` are called under the lock of the queue, ``handle`` is called by
    the thread without it.

    :raises BackendUnavailable: the machine has no thread left.
    """

    MAX_WAITING: ClassVar[int] = 1024
    """Packets that wait at most."""

    def __init__(self, target: str, controller: int, *, name: str, timeout: float) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[PacketIn] = deque()
        self._closing = False
        self.connection = PacketConnection(target, controller, self.receive, timeout=timeout)
        try:
            self._thread = start_daemon_thread(name, f"packets of {target}", self._run)
        except BackendUnavailable:
            self.connection.close()
            raise

    @abstractmethod
    def admit(self, packet: PacketIn) -> bool:
        """Return whether *packet* is queued, for which there is room."""

    @abstractmethod
    def handle(self, packet: PacketIn) -> None:
        """Handle *packet*.  Never raises."""

    def drop(self, packet: PacketIn) -> None:  # noqa: B027 - most count nothing
        """Record that *packet* is not handled."""

    def take(self, packet: PacketIn) -> None:  # noqa: B027 - most count nothing
        """Record that *packet* leaves the queue."""

    def receive(self, packet: PacketIn) -> None:
        """Queue *packet*, or drop it."""
        with self._changed:
            if len(self._waiting) < self.MAX_WAITING and self.admit(packet):
                self._waiting.append(packet)
                self._changed.notify_all()
            else:
                self.drop(packet)

    def close(self) -> None:
        """Stop handling packets; the flows stay."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self.connection.close()
        self._thread.join()

    def _run(self) -> None:
        while (packet := self._next()) is not None:
            self.handle(packet)

    def _next(self) -> PacketIn | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._waiting)
            if self._closing:
                return None
            packet = self._waiting.popleft()
            self.take(packet)
            return packet
