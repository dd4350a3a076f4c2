"""Following a packet from host to host, and comparing its way with the desired state."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from netfw.cli.trace.hosts import TraceHosts
from netfw.cli.trace.packet import PacketEntry, TracedPacket
from netfw.cli.trace.values import Hop, HopOutput, PacketTrace
from netfw.diagnosis.trace_values import Decision, TracedPort, address_of
from netfw.errors import NetfwError, NotFound, NotSupported
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.protocol import ICMP, ICMPV6

_MOST_HOPS = 8


@frozen(kw_only=True)
class TraceQuestion:
    """The connection to trace."""

    source: TracedPort
    target: TracedPort
    protocol: int
    number: int | None = None
    """The destination port, or the ICMP type; ``None``: the protocol has neither."""
    source_port: int = 40000
    version: int = 4


@define
class _Way:
    """The way of a packet so far."""

    packet: TracedPacket
    goal: TracedPort
    host: str
    entry: PacketEntry
    hops: list[Hop] = field(factory=list)
    remarks: list[str] = field(factory=list)
    arrives: bool | None = None
    end: str = ""

    def stop(self, arrives: bool | None, end: str) -> None:
        self.arrives, self.end = arrives, end


def find_port(hosts: TraceHosts, name: str) -> TracedPort | None:
    """Return the port with that id or name on the hosts of the trace.

    :raises NotFound: several have the name.
    """
    for host in hosts.names:
        if (found := hosts.ask(host, {"request": "find", "port": name})) is not None:
            return TracedPort(**found)
    return None


def trace_packet(hosts: TraceHosts, question: TraceQuestion) -> PacketTrace:
    """Follow the first packet of a connection.

    :raises NetfwError: the host of the source cannot be asked.
    """
    source, target = question.source, question.target
    start, end = (address_of(port, question.version) for port in (source, target))
    decisions = [_decide(hosts, question, "egress"), _decide(hosts, question, "ingress")]
    decisions += [_is_up(port) for port in (source, target) if not port.admin_state_up]
    way = _start(hosts, question, start, end)
    for _ in range(_MOST_HOPS):
        if way.end:
            break
        _follow(hosts, way, target)
    if not way.end:
        way.stop(None, f"it was not followed further after {_MOST_HOPS} switches")
    return PacketTrace(
        packet=str(way.packet),
        source=source,
        target=target,
        decisions=tuple(decisions),
        hops=tuple(way.hops),
        arrives=way.arrives,
        end="; ".join([*way.remarks, way.end]),
        differences=tuple(_differences(hosts, question, way)),
    )


def _decide(hosts: TraceHosts, question: TraceQuestion, direction: str) -> Decision:
    port, remote = (
        (question.source, question.target)
        if direction == "egress"
        else (question.target, question.source)
    )
    if port.device_owner and is_trusted(port.device_owner):
        what = f"{direction} of {port.title}"
        return Decision(what=what, allowed=True, lines=["it is a port of the network itself"])
    request = {
        "request": "decide",
        "port": port.id,
        "direction": direction,
        "remote": address_of(remote, question.version),
        "protocol": question.protocol,
        "number": question.number,
    }
    try:
        return Decision(**hosts.ask(port.host, request))
    except NotSupported as exc:
        what = f"{direction} of {port.title}, which is not known here"
        return Decision(what=what, allowed=True, lines=[str(exc)])


def _is_up(port: TracedPort) -> Decision:
    return Decision(what=port.title, allowed=False, lines=["it is switched off"])


def _start(hosts: TraceHosts, question: TraceQuestion, start: str, end: str) -> _Way:
    source, target = question.source, question.target
    goal = target if source.network == target.network else _router_port(hosts, source, start)
    is_icmp = question.protocol in (ICMP, ICMPV6)
    packet = TracedPacket(
        source_mac=source.mac,
        target_mac=goal.mac,
        source=start,
        target=end,
        protocol=question.protocol,
        source_port=(question.number or 0) if is_icmp else question.source_port,
        target_port=0 if is_icmp else question.number or 0,
    )
    device = hosts.ask(source.host, {"request": "device", "port": source.id})
    way = _Way(packet, goal, source.host, PacketEntry(device=device or ""))
    if device is None:
        way.stop(False, f"{source.title} is not plugged into the switch of {source.host}")
    return way


def _router_port(hosts: TraceHosts, source: TracedPort, address: str) -> TracedPort:
    """Return the port of the router that is the gateway of the source.

    :raises NotFound: the subnet has no gateway, or no host has it.
    """
    asked = {"request": "gateway", "port": source.id, "address": address}
    gateway = hosts.ask(source.host, asked)
    if gateway is None:
        raise NotFound(f"{source.title} is on another network than the target, without a gateway")
    for host in hosts.names:
        request = {"request": "address", "network": source.network, "address": gateway}
        if (found := hosts.ask(host, request)) is not None:
            return TracedPort(**found)
    raise NotFound(
        f"no host of this trace has the gateway {gateway} of {source.network_title}: name the host "
        "of its router (--host); distributed routers and gateways outside are not followed"
    )


def _follow(hosts: TraceHosts, way: _Way, target: TracedPort) -> None:
    """Follow the packet through one switch."""
    request = {"request": "hop", "entry": way.entry.to_dict(), "packet": way.packet.to_dict()}
    try:
        hop = Hop.from_dict(hosts.ask(way.host, request))
    except NotSupported as exc:
        way.stop(None, f"it leaves for {way.host}, and is not followed further: {exc}")
        return
    except NotFound as exc:
        way.stop(False, f"it does not enter {way.host}: {exc}")
        return
    way.hops.append(hop)
    way.packet = way.packet.rewritten(hop.fields)
    if any(each.port == way.goal.id for each in hop.outputs):
        _arrive(hosts, way, target, hop)
    elif not hop.outputs:
        _drop(way, hop)
    else:
        _leave(hosts, way, hop.outputs)


def _drop(way: _Way, hop: Hop) -> None:
    if hop.to_agent:
        way.stop(None, f"{way.host} sends it to the agent, which may answer it")
    elif hop.uncertain:
        way.stop(
            None,
            f"{way.host} tracks it once more, and a trace does not know the ports of the "
            "connection from there on: whether a rule lets it pass cannot be said",
        )
    else:
        way.stop(False, f"{way.host} drops it")


def _arrive(hosts: TraceHosts, way: _Way, target: TracedPort, hop: Hop) -> None:
    if way.goal.id == target.id:
        way.stop(True, f"it arrives at {target.title} on {way.host}")
        return
    device = next(each.device for each in hop.outputs if each.port == way.goal.id)
    question = {"device": device, "source": way.packet.source, "target": way.packet.target}
    try:
        route = hosts.ask(way.host, {"request": "route", "question": question})
    except NotFound as exc:
        way.stop(False, f"router {way.goal.device_id} on {way.host} does not forward it: {exc}")
        return
    name = f"router {way.goal.device_id} on {way.host}, namespace {route['namespace']},"
    if route["via"]:
        end = f"{name} sends it by {route['device']} to the next router {route['via']}, and it is"
        way.stop(None, f"{end} not followed further")
        return
    way.remarks.append(f"{name} forwards it by {route['device']}")
    way.remarks += [f"a rule of address translation names it: {r}" for r in route["translations"]]
    ttl = way.packet.ttl - 1
    macs = {"source_mac": route["mac"], "target_mac": target.mac}
    way.packet = evolve(way.packet, ttl=ttl, **macs)
    way.goal, way.entry = target, PacketEntry(device=route["device"])


def _leave(hosts: TraceHosts, way: _Way, outputs: Sequence[HopOutput]) -> None:
    """Go on to the host of the goal, if the packet goes there."""
    if way.goal.host == way.host:
        way.stop(False, f"it leaves {way.host}, although {way.goal.title} is there")
        return
    physical = [each for each in outputs if each.kind == "physical"]
    tunnels = [each for each in outputs if each.kind == "tunnel"]
    if physical:
        output = physical[0]
        way.entry = PacketEntry(physical_network=output.physical_network, vlan=output.vlan)
    elif tunnels:
        ends = _tunnel_ends(hosts, way.goal.host)
        fitting = [each for each in tunnels if not ends or each.remote in ends]
        if not fitting:
            remotes = ", ".join(each.remote for each in tunnels)
            way.stop(False, f"its tunnels end at {remotes}, none of them on {way.goal.host}")
            return
        output = fitting[0]
        way.entry = PacketEntry(
            tunnel_type=output.tunnel_type,
            tunnel_id=output.tunnel_id,
            sender=output.local,
            receiver=output.remote,
        )
    else:
        devices = ", ".join(each.device for each in outputs)
        way.stop(False, f"{way.host} delivers it to {devices}, which is not {way.goal.title}")
        return
    way.host = way.goal.host


def _tunnel_ends(hosts: TraceHosts, host: str) -> Sequence[str]:
    try:
        ends: list[str] = hosts.ask(host, {"request": "facts"})["endpoints"]
    except NotSupported:
        return ()
    return ends


def _differences(hosts: TraceHosts, question: TraceQuestion, way: _Way) -> list[str]:
    """Return what the hosts on the way would change for the two ports and their networks."""
    ports = (question.source, question.target, way.goal)
    ids = sorted({id for port in ports for id in (port.id, port.network, port.mac)})
    lines: list[str] = []
    for host in dict.fromkeys(each.host for each in way.hops):
        try:
            lines += hosts.ask(host, {"request": "differences", "ids": ids})
        except NetfwError as exc:
            lines.append(f"{host}: it cannot be said what differs: {exc}")
    return lines
