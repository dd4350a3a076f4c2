"""PacketLogWriter: receives packets from the switch, and writes a line for each."""

from __future__ import annotations

import logging
import time
from logging.handlers import RotatingFileHandler
from typing import Final

from attrs import frozen

from netfw.errors import BackendUnavailable
from netfw.ovs.openflow.packets import PacketIn
from netfw_drivers.ovs.common.packet_receiver import PacketReceiver
from netfw_drivers.ovs.packet_log.plan.explanation import (
    PacketState,
    passes_without_rule,
    render_line,
)
from netfw_drivers.ovs.packet_log.plan.flows import CONTROLLER_ID
from netfw_drivers.ovs.packet_log.plan.frames import parse_frame
from netfw_drivers.ovs.packet_log.plan.log_subject import decode_subject
from netfw_drivers.ovs.pipeline.tables import POLICY

LOG = logging.getLogger(__name__)
PACKETS = logging.getLogger("netfw.packets")
"""The lines themselves, for a host without a file of its own for them."""
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


class PacketLogWriter(PacketReceiver):
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
        self._second, self._admitted = 0, 0
        self._dropped, self._unreported = 0, 0
        try:
            super().__init__(target, CONTROLLER_ID, name="packet-log", timeout=timeout)
        except BackendUnavailable:
            self._close_file()
            raise

    def close(self) -> None:
        super().close()
        self._close_file()

    def _close_file(self) -> None:
        if self._logger is not PACKETS:
            for handler in list(self._logger.handlers):
                handler.close()

    def admit(self, packet: PacketIn) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._admitted = second, 0
        if self._admitted >= self._lines:
            return False
        self._admitted += 1
        return True

    def drop(self, packet: PacketIn) -> None:
        self._dropped += 1

    def take(self, packet: PacketIn) -> None:
        self._unreported, self._dropped = self._dropped, 0

    def handle(self, packet: PacketIn) -> None:
        try:
            if self._unreported:
                count = self._unreported
                self._logger.info("%d packets were not logged: too many at once", count)
            line = packet_line(packet)
            if line is not None:
                self._logger.info("%s", line)
        except Exception:
            LOG.exception("packet log: a packet was not logged")
