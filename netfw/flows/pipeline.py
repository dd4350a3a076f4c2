"""Pipelines: tables in the order in which packets traverse them, and rules for their flows.

1. A packet goes only to declared tables, and only forwards, except for tables in ``back_to``.
2. A flow writes only register fields that its table declares; fields do not overlap.
3. There is one flow of each table, priority and match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from netfw.errors import nearest
from netfw.flows.action import NO_TABLE, GotoTable, Load, Move, Resubmit, SetField
from netfw.flows.conntrack import Ct
from netfw.flows.field import REGISTERS, Bits
from netfw.flows.flow import Action, Flow
from netfw.flows.learn import Learn, LearnLoad
from netfw.flows.register import RegisterField
from netfw.flows.table import Table
from netfw.flows.text import render_actions

__all__ = ["Pipeline"]

_REGISTER = {where.name: number for number, where in enumerate(REGISTERS)}


@frozen
class Pipeline:
    """The tables of one bridge, in the order of the packet; numbers need not ascend."""

    bridge: str
    tables: tuple[Table, ...]

    def __attrs_post_init__(self) -> None:
        _check_unique("name", [table.name for table in self.tables])
        _check_unique("number", [table.number for table in self.tables])
        for position, table in enumerate(self.tables):
            self._check_links(position, table)
        _check_overlap(self.registers)

    @property
    def registers(self) -> tuple[RegisterField, ...]:
        """Register fields in use, each once."""
        return tuple(dict.fromkeys(field for table in self.tables for field in table.writes))

    def table(self, name: str) -> Table:
        """Return the table called *name*.

        :raises ValueError: there is none.
        """
        for table in self.tables:
            if table.name == name:
                return table
        known = [table.name for table in self.tables]
        raise ValueError(f"{self.bridge} has no table {name!r}{nearest(name, known)}")

    def check(self, flows: Iterable[Flow]) -> None:
        """Refuse flows that break the rules of this pipeline.

        :raises ValueError: names the flow and what is wrong with it.
        """
        rules = {table.number: _Rules.of(self, table) for table in self.tables}
        seen: dict[object, Flow] = {}
        for flow in flows:
            if flow.table not in rules:
                raise ValueError(f"{self.bridge} declares no table {flow.table}: {flow}")
            twin = seen.setdefault(flow.identity, flow)
            if twin is not flow:
                raise ValueError(f"two flows for the same packets: {twin} and {flow}")
            for action in flow.actions:
                if violation := rules[flow.table].violation(action, rules):
                    raise ValueError(f"{rules[flow.table].name} {violation}: {flow}")

    def miss_flows(self, cookie: int = 0) -> Iterator[Flow]:
        """Return the miss flow of each table."""
        for table in self.tables:
            yield table.miss_flow(cookie)

    def describe(self) -> str:
        """Render the pipeline as a table of Markdown, in the order of the packet."""
        head = ("#", "table", "asks", "leads to", "writes", "on miss")
        lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
        return "\n".join([*lines, *(_row(table) for table in self.tables)]) + "\n"

    def _check_links(self, position: int, table: Table) -> None:
        later = {other.name for other in self.tables[position + 1 :]}
        for name in (*table.leads_to, *table.back_to, *table.learns_into):
            self.table(name)
        for name in table.leads_to:
            if name not in later:
                raise ValueError(
                    f"{table.name} leads back to {name}: declare it in back_to if that is meant"
                )


@frozen
class _Rules:
    """Rules for the flows of one table."""

    name: str
    leads_to: frozenset[int]
    learns_into: frozenset[int]
    writes: tuple[RegisterField, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, table: Table) -> _Rules:
        leads = (pipeline.table(name).number for name in (*table.leads_to, *table.back_to))
        learns = (pipeline.table(name).number for name in table.learns_into)
        return cls(table.name, frozenset(leads), frozenset(learns), table.writes)

    def violation(self, action: Action, rules: dict[int, _Rules]) -> str:
        match action:
            case Resubmit(table=number) | GotoTable(table=number) | Ct(table=number):
                if number != NO_TABLE and number not in self.leads_to:
                    return f"does not declare that it leads to table {number}"
            case Load(bits=bits) | Move(target=bits):
                return self._unwritable(bits)
            case SetField(field=where):
                return self._unwritable(Bits(where, 0, where.nxm_width - 1))
            case Learn(table=number, specs=specs, result=result):
                if number not in self.learns_into:
                    return f"does not declare that it learns into table {number}"
                own = "" if result is None else self._unwritable(result)
                loads = (spec.target for spec in specs if isinstance(spec, LearnLoad))
                return own or next(filter(None, map(rules[number]._unwritable, loads)), "")
        return ""

    def _unwritable(self, bits: Bits) -> str:
        number = _REGISTER.get(bits.field.name)
        if number is None or any(_within(bits, number, declared) for declared in self.writes):
            return ""
        return f"does not declare that it writes {bits}"


def _within(bits: Bits, number: int, declared: RegisterField) -> bool:
    return declared.number == number and declared.first <= bits.first and bits.last <= declared.last


def _check_unique(what: str, values: Sequence[object]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"two tables have the {what} {value!r}")


def _check_overlap(registers: tuple[RegisterField, ...]) -> None:
    for position, one in enumerate(registers):
        for two in registers[position + 1 :]:
            if one.overlaps(two):
                raise ValueError(
                    f"register fields overlap: {one} ({one.comment}) and {two} ({two.comment})"
                )


def _row(table: Table) -> str:
    leads = ", ".join([*table.leads_to, *(f"{name} (back)" for name in table.back_to)]) or "—"
    writes = ", ".join(f"{field}: {field.comment}" for field in table.writes) or "—"
    miss = render_actions(table.miss)
    return f"| {table.number} | {table.name} | {table.asks} | {leads} | {writes} | {miss} |"
