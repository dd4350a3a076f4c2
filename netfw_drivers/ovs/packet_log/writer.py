"""PacketLogWriter: receives packets from the switch, and writes a line for each."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from logging.handlers import RotatingFileHandler
from typing import Final

from attrs import frozen

from netfw.ovs.openflow.packets import PacketConnection, PacketIn
from netfw_drivers.ovs.packet_log.plan.explanation import (
    PacketState,
    passes_without_rule,
    render_line,
)
from netfw_drivers.ovs.packet_log.plan.flows import CONTROLLER_ID
from netfw_drivers.ovs.packet_log.plan.frames import parse_frame
from netfw_drivers.ovs.packet_log.plan.subject import decode_subject
from netfw_drivers.ovs.pipeline.tables import POLICY

LOG = logging.getLogger(__name__)
PACKETS = logging.getLogger("netfw.packets")
"""The lines themselves, for a host without a file of its own for them."""
MAX_WAITING: Final = 1024
"""Packets that wait for their lines at most."""
MAX_LINES: Final = 1000
"""Lines in a second at most, of all ports of the host."""


@frozen
class LogFile:
    """Where lines are written: *count* older files of *size* octets are kept."""

    path: str
    size: int
    count: int


def open_logger(file: LogFile | None) -> logging.Logger:
    """Return the logger of lines; the agent's own without a file, or if it cannot be written."""
    if file is None:
        return PACKETS
    try:
        handler = RotatingFileHandler(file.path, maxBytes=file.size, backupCount=file.count)
    except OSError as exc:
        LOG.error("packet log: %s: %s; the agent's own log has the lines", file.path, exc)
        return PACKETS
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.Logger("netfw.packets.file", logging.INFO)
    logger.addHandler(handler)
    return logger


def packet_line(packet: PacketIn) -> str | None:
    """Return the line of *packet*; ``None``: no log is for it.

    Packets that pass without a rule (address configuration, neighbour discovery) have no line.
    """
    subject, frame = decode_subject(packet.userdata), parse_frame(packet.data)
    if subject is None or frame is None or passes_without_rule(subject, frame):
        return None
    policy = packet.registers.get(POLICY.number, 0) & 0xFFFF
    return render_line(
        subject, frame, PacketState(ct_state=packet.ct_state, has_policy=bool(policy))
    )


class PacketLogWriter:
    """Writes the packets that flows send to the agent, on a thread of its own.

    Meters of the switch limit each port; what exceeds *lines* in a second or waits too long is
    counted, and the number is logged.
    """

    def __init__(
        self,
        target: str,
        file: LogFile | None,
        *,
        timeout: float,
        lines: int = MAX_LINES,
    ) -> None:
        self._logger, self._lines = open_logger(file), lines
        self._changed = threading.Condition()
        self._waiting: deque[PacketIn] = deque()
        self._lost, self._closing = 0, False
        self._second, self._written = 0, 0
        self._thread = threading.Thread(target=self._run, name="packet-log", daemon=True)
        self._connection = PacketConnection(target, CONTROLLER_ID, self.receive, timeout=timeout)
        self._thread.start()

    def close(self) -> None:
        """Stop writing; the flows stay."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._connection.close()
        self._thread.join()
        if self._logger is not PACKETS:
            for handler in list(self._logger.handlers):
                handler.close()

    def receive(self, packet: PacketIn) -> None:
        """Queue *packet*; it is counted only if too many wait or were written in this second."""
        with self._changed:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._written = second, 0
            if self._written >= self._lines or len(self._waiting) >= MAX_WAITING:
                self._lost += 1
                return
            self._written += 1
            self._waiting.append(packet)
            self._changed.notify_all()

    def _run(self) -> None:
        while (packet := self._next()) is not None:
            try:
                line = packet_line(packet)
                if line is not None:
                    self._logger.info("%s", line)
            except Exception:
                LOG.exception("packet log: a packet was not logged")

    def _next(self) -> PacketIn | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._waiting)
            if self._closing:
                return None
            lost, self._lost = self._lost, 0
            packet = self._waiting.popleft()
        if lost:
            self._logger.info("%d packets were not logged: too many at once", lost)
        return packet
