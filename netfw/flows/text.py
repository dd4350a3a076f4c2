"""Text of flows, as ``ovs-ofctl -O OpenFlow14 dump-flows --no-stats`` prints them.

With *ports*, port numbers are printed as names, as with ``--names``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

from netfw.flows.action import (
    NO_TABLE,
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
from netfw.flows.conntrack import Ct, Nat
from netfw.flows.field import Form, MatchField
from netfw.flows.flow import Action, Flow
from netfw.flows.learn import Learn, LearnLoad, LearnMatch, LearnOutput, LearnSpec
from netfw.flows.match_text import render_match, render_port, render_value

__all__ = ["render_action", "render_actions", "render_flow"]

Names = Mapping[int, str]
_ALGS = {21: "ftp", 69: "tftp"}


def render_flow(flow: Flow, ports: Names | None = None) -> str:
    """Render the line that the switch prints for *flow*."""
    head = [f"cookie={flow.cookie:#x}"] if flow.cookie else []
    head += [f"table={flow.table}"] if flow.table else []
    head += [f"idle_timeout={flow.idle_timeout}"] if flow.idle_timeout else []
    head += [f"hard_timeout={flow.hard_timeout}"] if flow.hard_timeout else []
    found = render_match(flow.match, ports)
    terms = ",".join(
        part
        for part in ("" if flow.priority == 0x8000 else f"priority={flow.priority}", found)
        if part
    )
    start = "".join(f"{part}, " for part in head) + (f"{terms} " if terms else "")
    return f"{start}actions={render_actions(flow.actions, ports)}"


def render_actions(actions: tuple[Action, ...], ports: Names | None = None) -> str:
    return ",".join(render_action(action, ports) for action in actions) or "drop"


def render_action(action: Action, ports: Names | None = None) -> str:
    """Render one action as the switch prints it."""
    return _WRITERS[type(action)](action, ports or {})


def _output(action: Output, ports: Names) -> str:
    name = render_port(action.port, ports)
    return name if action.port >= 0xFFF8 else f"output:{name}"


def _controller(action: SendToController, ports: Names) -> str:
    if not action.controller_id and not action.userdata and action.limit is None:
        return f"CONTROLLER:{action.max_len}"
    parts = [] if action.max_len == 0xFFFF else [f"max_len={action.max_len}"]
    parts += [f"id={action.controller_id}"] if action.controller_id else []
    parts += [f"userdata={_dotted(action.userdata)}"] if action.userdata else []
    parts += [f"meter_id={action.limit.meter}"] if action.limit is not None else []
    return f"controller({','.join(parts)})"


def _resubmit(action: Resubmit, ports: Names) -> str:
    return (
        f"resubmit({'' if action.port is None else render_port(action.port, ports)},{action.table})"
    )


def _set_field(action: SetField, ports: Names) -> str:
    return f"set_field:{render_value(action.field, action.value, ports)}->{action.field.set_name}"


def _ct(action: Ct, ports: Names) -> str:
    parts = ["commit"] if action.commit else []
    parts += ["force"] if action.force else []
    parts += [f"table={action.table}"] if action.table != NO_TABLE else []
    parts += [f"zone={action.zone}"] if action.zone else []
    parts += [_nat(action.nat)] if action.nat else []
    marks = ",".join(render_action(mark, ports) for mark in action.marks)
    parts += [f"exec({marks})"] if marks else []
    parts += [f"alg={_ALGS[action.alg]}"] if action.alg else []
    return f"ct({','.join(parts)})"


def _nat(nat: Nat) -> str:
    if nat.side is None:
        return "nat"
    text = nat.side.value
    if nat.first is not None:
        text += f"={_range(nat)}"
    flags = [flag for flag in ("persistent", "hash", "random") if flag in nat.flags]
    return f"nat({','.join([text, *flags])})"


def _range(nat: Nat) -> str:
    text = f"{nat.first}" + (f"-{nat.last}" if nat.last else "")
    if nat.first_port is None:
        return text
    if isinstance(nat.first, ipaddress.IPv6Address):
        text = f"[{nat.first}]" + (f"-[{nat.last}]" if nat.last else "")
    return f"{text}:{nat.first_port}" + (f"-{nat.last_port}" if nat.last_port else "")


def _learn(action: Learn, ports: Names) -> str:
    parts = [f"table={action.table}"]
    parts += [f"idle_timeout={action.idle_timeout}"] if action.idle_timeout else []
    parts += [f"hard_timeout={action.hard_timeout}"] if action.hard_timeout else []
    parts += [f"priority={action.priority}"] if action.priority != 0x8000 else []
    parts += [f"cookie={action.cookie:#x}"] if action.cookie else []
    parts += [f"limit={action.limit}"] if action.limit else []
    parts += [f"result_dst={action.result}"] if action.result is not None else []
    parts += [_learn_spec(spec, ports) for spec in action.specs]
    return f"learn({','.join(parts)})"


def _learn_spec(spec: LearnSpec, ports: Names) -> str:
    match spec:
        case LearnOutput(source=source):
            return f"output:{source}"
        case LearnLoad(target=target, source=source):
            return f"load:{_hex(source) if isinstance(source, int) else source}->{target}"
        case LearnMatch(target=target, source=int(number)):
            if target.width == target.field.nxm_width:
                return f"{target.field.set_name}={_constant(target.field, number, ports)}"
            return f"{target}={_hex(number)}"
        case LearnMatch(target=target, source=source):
            return f"{target}" if target == source else f"{target}={source}"


def _constant(where: MatchField, number: int, ports: Names) -> str:
    if where.form is Form.ETHERTYPE:
        return _hex(number)
    return render_value(where, number, ports)


def _dotted(data: bytes) -> str:
    return ".".join(f"{byte:02x}" for byte in data)


def _hex(number: int) -> str:
    return f"{number:#x}" if number else "0"


_WRITERS: Mapping[type, Callable[[Any, Names], str]] = {
    Output: _output,
    OutputTo: lambda action, _: f"output:{action.bits}",
    SendToController: _controller,
    Resubmit: _resubmit,
    GotoTable: lambda action, _: f"goto_table:{action.table}",
    SetField: _set_field,
    Load: lambda action, _: f"load:{_hex(action.value)}->{action.bits}",
    Move: lambda action, _: f"move:{action.source}->{action.target}",
    PushVlan: lambda action, _: f"push_vlan:{action.ethertype:#06x}",
    PopVlan: lambda *_: "pop_vlan",
    DecTtl: lambda *_: "dec_ttl",
    Ct: _ct,
    CtClear: lambda *_: "ct_clear",
    Learn: _learn,
    Conjunction: lambda action, _: f"conjunction({action.id},{action.clause}/{action.clauses})",
    Note: lambda action, _: f"note:{_dotted(action.data)}",
    Meter: lambda action, _: f"meter:{action.id}",
    SetQueue: lambda action, _: f"set_queue:{action.queue}",
}
