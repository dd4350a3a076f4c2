"""A trace as lines for people.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.cli.trace.values import Hop, HopOutput, HopStep, PacketTrace


def trace_lines(trace: PacketTrace, *, verbose: bool = False) -> Iterator[str]:
    """Yield a trace for people; *verbose*: with tables that passed the packet on, and actions."""
    source, target = trace.source, trace.target
    yield f"{trace.packet}, the first packet of a connection"
    yield f"  from {source.title} on {source.host}, {source.network_title}"
    yield f"  to {target.title} on {target.host}, {target.network_title}"
    yield "Desired:"
    for decision in trace.decisions:
        yield f"  {decision.what}: {'allowed' if decision.allowed else 'denied'}"
        yield from (f"    {line}" for line in decision.lines)
    yield "Live:"
    for hop in trace.hops:
        yield from _hop_lines(hop, verbose=verbose)
    yield f"  {trace.end}"
    if trace.arrives:
        yield "  not evaluated: router firewalls, and what is between the hosts"
    yield from _comparison(trace)


def _comparison(trace: PacketTrace) -> Iterator[str]:
    wanted = "arrive" if trace.should_arrive else "be dropped"
    if trace.arrives is None:
        yield f"It should {wanted}; whether it does cannot be said from here."
    elif trace.differs:
        yield f"DIFFERENT: it should {wanted}, and {'arrives' if trace.arrives else 'does not'}."
    elif trace.arrives and not trace.should_arrive:
        yield "It passes the switches; a filter behind them, which is not traced, should drop it."
    else:
        yield f"As desired: it should {wanted}, and {'arrives' if trace.arrives else 'is dropped'}."
    if trace.differences:
        yield "What the agents of these hosts would change for these ports and networks:"
        yield from (f"  {line}" for line in trace.differences)


def _hop_lines(hop: Hop, *, verbose: bool) -> Iterator[str]:
    yield f"  {hop.host}: it enters by {hop.entry}"
    for step in hop.steps:
        if verbose or not step.miss or step is hop.steps[-1]:
            yield from _step_lines(step, verbose=verbose)
    yield from (f"    the switch reports: {problem}" for problem in hop.problems)
    for output in hop.outputs:
        yield f"  {hop.host}: it leaves by {_output_text(output)}"


def _step_lines(step: HopStep, *, verbose: bool) -> Iterator[str]:
    name = f" {step.name}" if step.name else ""
    asks = f": {step.asks}" if step.asks else ""
    yield f"    {step.bridge} table {step.table}{name}{asks}"
    if step.priority is None:
        yield "      no flow matches"
    else:
        foreign = ", which netfw did not make" if step.foreign else ""
        yield f"      {step.match or 'anything'} (priority {step.priority}){foreign}"
    yield from (f"      {remark}" for remark in step.remarks)
    if verbose:
        yield from (f"      action {action}" for action in step.actions)


def _output_text(output: HopOutput) -> str:
    if output.kind == "tunnel":
        kind = output.tunnel_type or "a"
        return f"{kind} tunnel {output.tunnel_id} from {output.local} to {output.remote}"
    if output.kind == "physical":
        tag = f", VLAN {output.vlan}" if output.vlan else ""
        return f"{output.device} to physical network {output.physical_network}{tag}"
    return f"{output.device}" + (f" of port {output.port}" if output.port else "")
