"""Logs of keepalived, which say whether a reload has begun and which routes the kernel refused."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

TAIL = 1 << 16
"""Limit of what is read of a log, in bytes."""


@frozen
class LogPosition:
    """The end of a log before a reload.

    A process that was started since then has a log of its own.
    """

    pid: int | None
    offset: int

    @classmethod
    def end_of(cls, log: Path, pid: int | None) -> LogPosition:
        """Return the present end of the log of a process."""
        return cls(pid, _size(log))


def read_since(position: LogPosition | None, log: Path, pid: int | None) -> str:
    """Return the end of the log of a process, from *position* if the process had it."""
    size = _size(log)
    same = position is not None and position.pid == pid and position.offset <= size
    start = position.offset if position is not None and same else 0
    try:
        with log.open("rb") as file:
            file.seek(max(start, size - TAIL))
            return file.read(TAIL).decode(errors="replace")
    except OSError:
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
