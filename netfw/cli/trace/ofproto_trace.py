"""Parser of the reply of ``ovs-vswitchd`` to ``ofproto/trace``.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

_BRIDGE = re.compile(r'\s*bridge\("(?P<name>[^"]+)"\)')
_STEP = re.compile(r"\s*(?P<table>\d+)\. (?P<text>.*)")
_FLOW = re.compile(r"(?:(?P<match>.*), )?priority (?P<priority>\d+)(?:, cookie (?P<cookie>0x\w+))?")
_DEFAULT_PRIORITY = 32768
_TUNNEL_HEADER = re.compile(
    r"ipv[46]\(src=(?P<local>[^,]+),dst=(?P<remote>[^,)]+).*?"
    r"(?:(?P<type>vxlan|geneve)\(.*?vni=(?P<vni>0x\w+)|(?P<gre>gre)\(.*?key=(?P<key>0x\w+))"
)
_KERNEL_TUNNEL = re.compile(r"set\(tunnel\((?P<fields>.*)\)\)$")
_VLAN = re.compile(r"push_vlan\(.*?vid=(\d+)")


@frozen(kw_only=True)
class FlowTraceStep:
    """A flow that the packet matched, and what it did."""

    bridge: str
    table: int
    match: str = ""
    priority: int | None = None
    """``None``: no flow matched."""
    cookie: int = 0
    actions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the switch adds by itself, such as the end of a tunnel."""

    @property
    def is_miss(self) -> bool:
        """Whether only the last flow of the table matched, which matches everything."""
        return self.priority == 0 and not self.match


@frozen(kw_only=True)
class TunnelOutput:
    """A packet that left in a tunnel."""

    type: str
    """``vxlan``, ``geneve`` or ``gre``; empty: the reply does not say."""
    id: int
    remote: str
    local: str = ""


@frozen(kw_only=True)
class PortOutput:
    """A packet that left by a port of the datapath, perhaps with a VLAN tag."""

    number: int
    vlan: int | None = None


Output = TunnelOutput | PortOutput


@frozen(kw_only=True)
class OfprotoTrace:
    """What a switch does with a packet."""

    steps: tuple[FlowTraceStep, ...] = ()
    outputs: tuple[Output, ...] = ()
    """Empty: the packet is dropped."""
    fields: tuple[tuple[str, str], ...] = ()
    """Fields of the packet at the end, by their names in flows."""
    first_vlan: int | None = None
    """The VLAN tag of the packet before the switch tracked it; ``None``: none."""
    tracked_on: str = ""
    """The number of the port by which a packet that the switch tracked, and traced on without the
    addresses and ports of its connection, had entered the bridge; empty: it was not tracked."""
    to_controller: bool = False
    """Whether the switch sends it to the agent."""
    problems: tuple[str, ...] = ()
    """What the switch reports as wrong, such as a patch port without a peer."""

    def field(self, name: str) -> str | None:
        """Return a field of the packet at the end."""
        return dict(self.fields).get(name)


def parse_trace(text: str) -> OfprotoTrace:
    """Parse the reply to ``ofproto/trace``.

    :raises ValueError: it is none.
    """
    lines = text.splitlines()
    actions = [_after(line) for line in lines if line.startswith("Datapath actions: ")]
    if not actions:
        raise ValueError("the switch does not say what it does with the packet")
    finals = [_after(line) for line in lines if line.startswith("Final flow: ")]
    started = [_after(line) for line in lines if line.startswith("Flow: ")]
    if not started:
        raise ValueError("the switch does not say which packet it traced")
    unchanged = started[-1:] if not finals or finals[-1] == "unchanged" else finals[-1:]
    tracked = [dict(_fields(flow)) for flow in started if "recirc_id=" in flow]
    return OfprotoTrace(
        steps=tuple(_steps(lines)),
        outputs=tuple(each for found in actions for each in parse_outputs(found)),
        fields=tuple(_fields(unchanged[0])) if unchanged else (),
        first_vlan=_vlan(started[0] if finals[:1] in ([], ["unchanged"]) else finals[0]),
        tracked_on=tracked[0].get("in_port", "") if tracked else "",
        to_controller=any("userspace(" in found for found in actions),
        problems=tuple(line.strip(" >") for line in lines if line.lstrip().startswith(">>>>")),
    )


def _vlan(flow: str) -> int | None:
    vlan = dict(_fields(flow)).get("dl_vlan", "")
    return int(vlan) if vlan.isdigit() else None


def _after(line: str) -> str:
    return line.partition(": ")[2].strip()


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for word in split_actions(text):
        name, equals, value = word.partition("=")
        yield (name, value) if equals else ("protocol", name)


def _steps(lines: Sequence[str]) -> Iterator[FlowTraceStep]:
    bridges: list[tuple[int, str]] = []
    step: FlowTraceStep | None = None
    actions: list[str] = []
    remarks: list[str] = []
    for line in [*lines, "Final flow: "]:
        indent = len(line) - len(line.lstrip())
        bridge, found = _BRIDGE.match(line), _STEP.match(line)
        is_end = line.startswith(("Final flow:", "Datapath actions:", "====", "Flow:"))
        if (bridge or found or is_end) and step is not None:
            yield _finish(step, actions, remarks)
            step, actions, remarks = None, [], []
        if bridge:
            bridges = [each for each in bridges if each[0] < indent]
            bridges.append((indent, bridge["name"]))
        elif found:
            bridges = [each for each in bridges if each[0] <= indent] or bridges
            step = _step(bridges[-1][1] if bridges else "", found)
        elif step is not None and line.lstrip().startswith("->"):
            remarks.append(line.strip().removeprefix("-> "))
        elif step is not None and line.strip() and not set(line.strip()) <= {"-"}:
            actions.append(line.strip())


def _finish(step: FlowTraceStep, actions: Sequence[str], remarks: Sequence[str]) -> FlowTraceStep:
    return FlowTraceStep(
        bridge=step.bridge,
        table=step.table,
        match=step.match,
        priority=step.priority,
        cookie=step.cookie,
        actions=tuple(actions),
        remarks=tuple(remarks),
    )


def _step(bridge: str, found: re.Match[str]) -> FlowTraceStep:
    table, text = int(found["table"]), found["text"].strip()
    if text.lower().startswith("no match"):
        return FlowTraceStep(bridge=bridge, table=table)
    flow = _FLOW.fullmatch(text)
    if flow is None:  # a flow of the default priority, which is not printed
        match, _, cookie = text.partition(", cookie ")
        return FlowTraceStep(
            bridge=bridge,
            table=table,
            match=match,
            priority=_DEFAULT_PRIORITY,
            cookie=int(cookie or "0", 16),
        )
    return FlowTraceStep(
        bridge=bridge,
        table=table,
        match=flow["match"] or "",
        priority=int(flow["priority"]),
        cookie=int(flow["cookie"] or "0", 16),
    )


def split_actions(text: str) -> list[str]:
    """Split at the commas that are outside of parentheses."""
    words, depth, start = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            words.append(text[start:position])
            start = position + 1
    return [word.strip() for word in (*words, text[start:]) if word.strip()]


def parse_outputs(actions: str) -> Iterator[Output]:
    """Yield where a packet goes by actions of the datapath."""
    vlan: int | None = None
    tunnel: TunnelOutput | None = None
    for action in split_actions(actions):
        if action.startswith("clone(") and action.endswith(")"):
            yield from parse_outputs(action[6:-1])
        elif action.startswith("push_vlan("):
            tagged = _VLAN.match(action)
            vlan = int(tagged[1]) if tagged else None
        elif action == "pop_vlan":
            vlan = None
        elif action.startswith("tnl_push("):
            tunnel = _pushed_tunnel(action)
            yield tunnel
        elif kernel := _KERNEL_TUNNEL.match(action):
            tunnel = _kernel_tunnel(kernel["fields"])
            yield tunnel
        elif action.isdigit():
            if tunnel is None:
                yield PortOutput(number=int(action), vlan=vlan)
            tunnel = None  # the number is the port of the tunnel, or of the underlay


def _pushed_tunnel(action: str) -> TunnelOutput:
    found = _TUNNEL_HEADER.search(action)
    if found is None:
        return TunnelOutput(type="", id=0, remote="")
    return TunnelOutput(
        type=found["type"] or found["gre"],
        id=int(found["vni"] or found["key"], 16),
        remote=found["remote"],
        local=found["local"],
    )


def _kernel_tunnel(fields: str) -> TunnelOutput:
    values = dict(word.partition("=")[::2] for word in split_actions(fields))
    return TunnelOutput(
        type="",
        id=int(values.get("tun_id", "0x0"), 16),
        remote=values.get("dst") or values.get("ipv6_dst") or "",
        local=values.get("src") or values.get("ipv6_src") or "",
    )
