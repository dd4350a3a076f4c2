"""A flow: table, priority, match and actions."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from netfw.flows.action import (
    TABLES,
    Conjunction,
    CtClear,
    DecTtl,
    GotoTable,
    Load,
    Meter,
    Move,
    Note,
    Output,
    OutputTo,
    PopVlan,
    PushVlan,
    Resubmit,
    SendToController,
    SetField,
    SetQueue,
)
from netfw.flows.conntrack import FTP, Ct
from netfw.flows.field import FIELD, MatchField
from netfw.flows.learn import Learn
from netfw.flows.match import Match

__all__ = ["Action", "Flow", "Identity"]

Action = (
    Output | OutputTo | SendToController | Resubmit | GotoTable | SetField | Load | Move | PushVlan
    | PopVlan | DecTtl | Ct | CtClear | Learn | Conjunction | Note | Meter | SetQueue
)  # fmt: skip

Identity = tuple[int, int, Match]
"""Identity of a flow in a switch: table, priority and match."""

_IP_FIELD = FIELD["ip_proto"]
_TAG_FIELD = FIELD["vlan_pcp"]
_HARMLESS = frozenset(
    {Output, OutputTo, SendToController, Resubmit, CtClear, SetQueue, Note, Conjunction}
)


@frozen(kw_only=True)
class Flow:
    """One entry of a switch's tables, checked as far as the switch checks it."""

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    cookie: int = 0
    idle_timeout: int = 0
    hard_timeout: int = 0

    def __attrs_post_init__(self) -> None:
        if self.table not in TABLES or not 0 <= self.priority <= 0xFFFF:
            raise ValueError(f"no such table or priority: {self.table}, {self.priority}")
        if not 0 <= self.cookie < 0xFFFF_FFFF_FFFF_FFFF:
            raise ValueError(f"a cookie has 64 bits, not all set: {self.cookie:#x}")
        if not (0 <= self.idle_timeout <= 0xFFFF and 0 <= self.hard_timeout <= 0xFFFF):
            raise ValueError("timeouts are up to 65535 seconds")
        self.match.check()
        _check_actions(self)

    @property
    def identity(self) -> Identity:
        return self.table, self.priority, self.match

    def __str__(self) -> str:
        from netfw.flows.text import render_flow

        return render_flow(self)


def _check_actions(flow: Flow) -> None:
    tagged: bool | None = None  # by an action; None: as the match says
    for position, action in enumerate(flow.actions):
        kind = type(action)
        if kind in _HARMLESS:
            if kind is Conjunction:
                _check_conjunction(flow)
            continue
        if isinstance(action, Load) and action.bits.field.needs is None:
            continue
        if kind is PushVlan:
            tagged = True
            continue
        if isinstance(action, Ct) and action.nat is None and not action.alg:
            if not flow.match.satisfies(_IP_FIELD):
                raise ValueError(f"{_word(action)} needs a match on {_IP_FIELD.needs}")
            continue
        _check_position(flow, position, action)
        for needed in _fields(action):
            known = tagged if needed.needs is _TAG_FIELD.needs else None
            if known is False or (known is None and not flow.match.satisfies(needed)):
                raise ValueError(f"{_word(action)} needs a match on {needed.needs}")
        if kind is PopVlan:
            tagged = False


def _check_conjunction(flow: Flow) -> None:
    if any(not isinstance(action, (Conjunction, Note)) for action in flow.actions):
        raise ValueError("a conjunction stands alone, or with a note")


def _check_position(flow: Flow, position: int, action: Action) -> None:
    if isinstance(action, Meter) and position:
        raise ValueError("a meter is the first thing a flow does")
    if isinstance(action, GotoTable):
        if position + 1 < len(flow.actions):
            raise ValueError("goto_table is the last thing a flow does")
        if action.table <= flow.table:
            raise ValueError(
                f"goto_table goes to a higher number than {flow.table}, not to {action.table}; "
                "resubmit goes anywhere"
            )


def _fields(action: Action) -> Iterator[MatchField]:
    """Yield the fields that packets must have for *action*."""
    match action:
        case Load(bits=bits):
            yield bits.field
        case SetField(field=where):
            yield _TAG_FIELD if where.name == "vlan" else where
        case Move(source=source, target=target):
            yield source.field
            yield target.field
        case Ct(nat=nat, alg=alg):
            if alg:
                yield FIELD["tcp_src" if alg == FTP else "udp_src"]
            version = nat.first.version if nat and nat.first else None
            yield _IP_FIELD if version is None else FIELD[f"ipv{version}_src"]
        case DecTtl():
            yield _IP_FIELD
        case PopVlan():
            yield _TAG_FIELD
        case Learn(specs=specs):
            for spec in specs:
                if not isinstance(spec.source, int):
                    yield spec.source.field


def _word(action: Action) -> str:
    from netfw.flows.text import render_action

    return render_action(action)
