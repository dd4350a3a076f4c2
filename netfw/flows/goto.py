"""Jumps from one table to another."""

from __future__ import annotations

from functools import lru_cache

from netfw.flows.action import GotoTable, Resubmit
from netfw.flows.table import Table

__all__ = ["goto", "goto_table", "resubmit"]

_resubmit = lru_cache(1024)(Resubmit)  # few tables, many flows


def goto(table: Table | int) -> Resubmit:
    """Continue in *table*, whatever its number; the actions after it are executed afterwards."""
    return _resubmit(_number(table))


def resubmit(table: Table | int, port: int | None = None) -> Resubmit:
    """Look the packet up in *table* as if it had come in by *port*."""
    return _resubmit(_number(table), port)


def goto_table(table: Table | int) -> GotoTable:
    """Continue in *table*, whose number is higher; it is the last action."""
    return GotoTable(_number(table))


def _number(table: Table | int) -> int:
    return table if isinstance(table, int) else table.number
