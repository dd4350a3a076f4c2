"""Health of an agent, decided from its status file and the process that wrote it.  Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import asdict, field, frozen

STALE_AFTER = 75.0
"""Seconds after which a status is outdated: an agent writes it at each heartbeat (30 s)."""
_CLOCK_TOLERANCE = 2.0
"""Seconds by which start times of processes, which the kernel counts in ticks, can differ."""


class AgentState(enum.StrEnum):
    """The state of an agent, the best one first."""

    READY = "ready"
    CONVERGING = "converging"
    WAITING = "waiting"
    DEGRADED = "degraded"
    FAILING = "failing"
    """An error concerns the agent as a whole, such as a server that does not answer."""
    STALE = "stale"
    DEAD = "dead"
    UNREADABLE = "unreadable"


@frozen(kw_only=True)
class StatusRecord:
    """A status file as it was read, and the process that has its pid now."""

    path: str
    content: Mapping[str, Any] | None = None
    """``None``: it cannot be read."""
    problem: str = ""
    """Why it cannot be read."""
    process_started: float | None = None
    """Start of the process with the pid of the file, in seconds since 1970; ``None``: none."""


@frozen(kw_only=True)
class AgentHealth:
    """An agent, its state, and every reason for it."""

    path: str
    agent: str
    host: str = ""
    state: AgentState
    pid: int | None = None
    lag: float = 0.0
    age: float | None = None
    """Seconds since the status was written; ``None``: unknown."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the health as plain data."""
        return asdict(self)


def assess_agent(record: StatusRecord, now: float, stale_after: float = STALE_AFTER) -> AgentHealth:
    """Return the health of the agent that wrote *record*; *now* in seconds since 1970."""
    try:
        return _assess(record, now, stale_after)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        name = record.path.rpartition("/")[2].removesuffix(".json")
        why = record.problem or f"it is no status of an agent: {type(exc).__name__}: {exc}"
        return AgentHealth(
            path=record.path,
            agent=name,
            state=AgentState.UNREADABLE,
            reasons=(f"{record.path}: {why}",),
        )


def _assess(record: StatusRecord, now: float, stale_after: float) -> AgentHealth:
    if record.content is None:
        raise ValueError(record.problem)
    status = record.content
    written = _seconds(status["written_at"])
    age, pid = now - written, int(status["pid"])
    alive = is_writer(record.process_started, written)
    outdated = age > stale_after or _is_ahead(age)
    end = tuple(_end_reasons(pid, age, alive, outdated))
    return AgentHealth(
        path=record.path,
        agent=str(status["binary"]),
        host=str(status["host"]),
        state=_state(status, alive, outdated),
        pid=pid,
        lag=_finite(status["lag"]),
        age=None if _is_ahead(age) else round(max(age, 0.0), 1),
        reasons=(*end, *_reasons(status)),
        warnings=tuple(f"{name}: {text}" for name, text in sorted(status["warnings"].items())),
        counts={str(name): int(count) for name, count in status["counts"].items()},
    )


def is_writer(started: float | None, written: float) -> bool:
    """Return whether a process that started then can have written a file at *written*.

    A process that started later has got the pid of one that is gone.
    """
    return started is not None and started <= written + _CLOCK_TOLERANCE


def _is_ahead(age: float) -> bool:
    """Return whether a file was written at a time that the clock has not reached: it was set back.

    The age of such a file is unknown.
    """
    return age < -_CLOCK_TOLERANCE


def _state(status: Mapping[str, Any], alive: bool, outdated: bool) -> AgentState:
    states = {
        AgentState.DEAD: not alive,
        AgentState.STALE: outdated,
        AgentState.FAILING: bool(status["errors"]),
        AgentState.DEGRADED: bool(status["degraded"]),
        AgentState.WAITING: bool(status["waiting"]) and not status["ready"],
        AgentState.READY: bool(status["ready"]),
    }
    return next((state for state, holds in states.items() if holds), AgentState.CONVERGING)


def _end_reasons(pid: int, age: float, alive: bool, outdated: bool) -> Iterator[str]:
    if not alive:
        ahead = "at a time that this host's clock has not reached"
        when = ahead if _is_ahead(age) else f"{max(age, 0.0):.0f} s ago"
        yield (
            f"process {pid}, which wrote the status {when}, is gone without a clean stop: "
            "what it made on this host stays without repair; start the agent, its log says more"
        )
    elif _is_ahead(age):
        yield (
            f"process {pid} runs, and its status is dated {-age:.0f} s ahead of this host's clock, "
            "which was set back: how old it is cannot be said; the next heartbeat of an agent that "
            "works corrects it"
        )
    elif outdated:
        yield (
            f"process {pid} runs, and has not written its status for {age:.0f} s: it is stuck, "
            "stopped, or cannot write the file; what follows is of that time"
        )


def _reasons(status: Mapping[str, Any]) -> Iterator[str]:
    since = status.get("errors_since", {})
    for name, text in sorted(status["errors"].items()):
        at = f" (since {since[name]})" if name in since else ""
        yield f"error in {name}{at}: {text}"
    for key, text in sorted(status["degraded"].items()):
        yield f"{key} failed, and is retried: {text}"
    for key, text in sorted(status["waiting"].items()):
        yield f"{key} waits: {text}"


def _finite(number: Any) -> float:
    found = float(number)
    if not math.isfinite(found):
        raise ValueError(f"{found} is no number of seconds")
    return found


def _seconds(text: str) -> float:
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
