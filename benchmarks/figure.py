"""A figure: what was measured, what it should be, and the raw limit beside it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen(kw_only=True)
class Figure:
    """``measured`` is how many times the raw work's time netfw took; smaller is better."""

    name: str
    measured: float
    target: float
    raw_seconds: float
    own_seconds: float
    unit: str = "x"
    sizes: Mapping[int, tuple[float, float]] = field(factory=dict)
    """Where cost grows with size: seconds of the raw tool and of netfw, for each size."""

    @property
    def ok(self) -> bool:
        return self.measured <= self.target

    def line(self) -> str:
        verdict = "ok" if self.ok else "short"
        return (
            f"{self.name:<58}  {self.measured:9.3f}{self.unit:<2}  {self.target:8.3f}{self.unit:<2}"
            f"  {verdict:<5}  (raw {self.raw_seconds * 1000:.1f} ms, "
            f"netfw {self.own_seconds * 1000:.1f} ms)"
        )


def ratio(
    name: str,
    *,
    own: float,
    raw: float,
    target: float,
    sizes: Mapping[int, tuple[float, float]] | None = None,
) -> Figure:
    """Return a figure whose measure is netfw's time over the raw tool's."""
    return Figure(
        name=name,
        measured=own / raw,
        target=target,
        raw_seconds=raw,
        own_seconds=own,
        sizes=sizes or {},
    )


def zero(name: str, count: int) -> Figure:
    """Make a figure of a count that should be zero."""
    return Figure(name=name, measured=count, target=0, unit="", raw_seconds=0.0, own_seconds=0.0)


def milliseconds(name: str, seconds: float, target: float, raw: float = 0.0) -> Figure:
    """Make a figure of a time; *target* is in milliseconds."""
    return Figure(
        name=name,
        measured=seconds * 1000,
        target=target,
        raw_seconds=raw,
        own_seconds=seconds,
        unit="ms",
    )


def megabytes(name: str, measured: float, target: float) -> Figure:
    """Make a figure of resident memory."""
    return Figure(
        name=name, measured=measured, target=target, unit="MB", raw_seconds=0.0, own_seconds=0.0
    )


def percent(name: str, share: float, target: float) -> Figure:
    """Make a figure of a share of one CPU; *target* is in percent."""
    return Figure(
        name=name, measured=share * 100, target=target, unit="%", raw_seconds=0.0, own_seconds=0.0
    )
