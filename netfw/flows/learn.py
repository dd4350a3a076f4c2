"""``learn``: an action that adds flows."""

from __future__ import annotations

from attrs import frozen

from netfw.flows.action import TABLES
from netfw.flows.field import Bits
from netfw.flows.register import BitSource, bits_of

__all__ = [
    "Learn",
    "LearnLoad",
    "LearnMatch",
    "LearnOutput",
    "learn",
    "learn_load",
    "learn_match",
    "learn_output",
]


def _check_source(source: Bits | int, target: Bits) -> None:
    if isinstance(source, int):
        if not 0 <= source < 1 << target.width:
            raise ValueError(f"{source:#x} does not fit into {target}")
    elif source.width != target.width:
        raise ValueError(f"{source} and {target} are not of the same width")


@frozen
class LearnMatch:
    """Match of the learned flow: *target* has the value of *source*, a number or packet bits."""

    target: Bits
    source: Bits | int

    def __attrs_post_init__(self) -> None:
        _check_source(self.source, self.target)


@frozen
class LearnLoad:
    """Action of the learned flow: load the present value of *source* into *target*."""

    target: Bits
    source: Bits | int

    def __attrs_post_init__(self) -> None:
        _check_source(self.source, self.target)


@frozen
class LearnOutput:
    """Action of the learned flow: output to the port that *source* holds now."""

    source: Bits


LearnSpec = LearnMatch | LearnLoad | LearnOutput


@frozen(kw_only=True)
class Learn:
    """Write a flow into *table*, made of *specs*."""

    table: int
    specs: tuple[LearnSpec, ...]
    priority: int = 0x8000
    cookie: int = 0
    idle_timeout: int = 0
    hard_timeout: int = 0
    limit: int = 0
    """Maximum of flows with this cookie in the table; 0: no limit."""
    result: Bits | None = None
    """Where to write 1 if the flow was written, and 0 if the limit forbade it."""

    def __attrs_post_init__(self) -> None:
        if self.table not in TABLES:
            raise ValueError(f"there are tables 0 to 253, not {self.table}")
        for name in ("priority", "idle_timeout", "hard_timeout"):
            if not 0 <= getattr(self, name) <= 0xFFFF:
                raise ValueError(f"{name} has 16 bits, {getattr(self, name)} does not fit")
        if not 0 <= self.limit < 1 << 32:
            raise ValueError(f"limit has 32 bits, {self.limit} does not fit")
        if self.result is not None and not (self.limit and self.result.width == 1):
            raise ValueError(f"the result is one bit, and needs a limit: {self.result}")
        if not 0 <= self.cookie < 1 << 64:
            raise ValueError(f"a cookie has 64 bits, {self.cookie:#x} does not fit")


def learn_match(target: BitSource, source: BitSource | int | None = None) -> LearnMatch:
    """Match *target* for the present value of *source*, or of *target* if there is no *source*."""
    return LearnMatch(bits_of(target), _source(target if source is None else source))


def learn_load(target: BitSource, source: BitSource | int) -> LearnLoad:
    return LearnLoad(bits_of(target), _source(source))


def learn_output(source: BitSource) -> LearnOutput:
    return LearnOutput(bits_of(source))


def learn(
    table: int,
    *specs: LearnSpec,
    priority: int = 0x8000,
    cookie: int = 0,
    idle_timeout: int = 0,
    hard_timeout: int = 0,
    limit: int = 0,
    result: BitSource | None = None,
) -> Learn:
    """Add a learned flow to *table*, up to *limit* of them.  Its cookie identifies it later."""
    return Learn(
        table=table, specs=specs, priority=priority, cookie=cookie,
        idle_timeout=idle_timeout, hard_timeout=hard_timeout, limit=limit,
        result=None if result is None else bits_of(result),
    )  # fmt: skip


def _source(source: BitSource | int) -> Bits | int:
    return source if isinstance(source, int) else bits_of(source)
