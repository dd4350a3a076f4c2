"""What should happen to the first packet of a connection between two ports.

The server knows the desired state and the statuses that hosts report, and not the flows of hosts:
``netfw trace`` reads those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import asdict, field, frozen

from netfw.diagnosis.resource_reader import ResourceReader
from netfw.diagnosis.rule_explanation import NewConnection, explain_connection, with_group_names
from netfw.diagnosis.trace_values import TracedPort, address_of
from netfw.errors import InvalidInput
from netfw.model.security_group import Direction
from netfw.model.values.address import as_address, as_network
from netfw.model.values.device_owner import is_router_interface
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, NUMBERS, PORTED
from netfw.server.api.live.own_api import Body, OwnApi
from netfw.server.api.live.visible_rules import VisibleRules, parse_port

MOST_LINES: Final = 30
ALLOWED, DENIED, UNKNOWN, DOWN = "allowed", "denied", "unknown", "down"
"""States of a step; ``down``: it should pass, and hosts report that it does not work."""
NOT_KNOWN: Final = (
    "What the hosts really do: their flows, filters and namespaces.",
    "The way of the answers, router firewalls, floating IPs and what is between the hosts.",
)


@frozen(kw_only=True)
class ConnectionQuestion:
    """The connection to trace."""

    source: str
    """The id of a port."""
    target: str
    protocol: int = ICMP
    port: int | None = None
    version: int = 4


@frozen(kw_only=True)
class DesiredTraceStep:
    """A decision on the way of a packet."""

    title: str
    state: str
    lines: tuple[str, ...] = ()
    kind: str = ""
    """Kind and id of the resource that decides."""
    id: str = ""


@frozen(kw_only=True)
class _Connection:
    question: ConnectionQuestion
    source: TracedPort
    target: TracedPort
    bodies: Mapping[str, Body] = field(factory=dict)
    """The two ports as the API shows them, by id."""
    networks: Mapping[str, Body] = field(factory=dict)
    """Their networks, by id; a network that is not visible is empty."""


def parse_question(query: Mapping[str, str]) -> ConnectionQuestion:
    """Parse ``from``, ``to``, ``protocol``, ``port`` and ``version``.

    :raises InvalidInput: names each wrong one.
    """
    problems: dict[str, str] = {}
    version, port = query.get("version", "4"), query.get("port", "")
    protocol = NUMBERS.get(query.get("protocol", "icmp"))
    problems |= {name: "give the id of a port" for name in ("from", "to") if not query.get(name)}
    if version not in ("4", "6"):
        problems["version"] = "neither 4 nor 6"
    if protocol is None:
        problems["protocol"] = "not the name of a protocol, such as icmp, tcp or udp"
    if port and not (port.isascii() and port.isdigit() and int(port[:6]) < 65536):
        problems["port"] = "not a number below 65536"
    if problems or protocol is None:
        raise InvalidInput(problems)
    if protocol in (ICMP, ICMPV6):
        protocol = ICMP if version == "4" else ICMPV6
        port = port or ("8" if version == "4" else "128")
    elif protocol in PORTED and not port:
        raise InvalidInput({"port": f"{NAMES[protocol]} needs a destination port"})
    return ConnectionQuestion(
        source=query["from"],
        target=query["to"],
        protocol=protocol,
        port=int(port) if port else None,
        version=int(version),
    )


def trace_connection(api: OwnApi, question: ConnectionQuestion) -> dict[str, Any]:
    """Return the decisions about the first packet of a connection, as plain data.

    :raises NotFound: a port does not exist, or has no address of that version.
    """
    connection = _read_connection(api, question)
    source, target = connection.source, connection.target
    start, end = (address_of(port, question.version) for port in (source, target))
    steps = [
        _port_step(api, source),
        _rules_step(api, connection, Direction.EGRESS),
        *_path_steps(api, connection, start, end),
        _rules_step(api, connection, Direction.INGRESS),
        _port_step(api, target),
    ]
    states = {step.state for step in steps}
    arrives = False if DENIED in states else None if UNKNOWN in states else True
    name = NAMES.get(question.protocol, str(question.protocol))
    number = f" {question.port}" if question.protocol in PORTED else ""
    return {
        "packet": f"{name}{number} from {start} to {end}",
        "should_arrive": arrives,
        "is_down": DOWN in states,
        "steps": [asdict(step) for step in steps],
        "not_known": list(NOT_KNOWN),
        "command": _command(question, name),
    }


def _command(question: ConnectionQuestion, protocol: str) -> str:
    """Return the command that follows the packet through the hosts."""
    icmp = question.protocol in (ICMP, ICMPV6)
    more = [] if icmp else ["--protocol", protocol]
    more += [] if icmp or question.port is None else ["--port", str(question.port)]
    more += ["-6"] if question.version == 6 else []
    return " ".join(["netfw trace", question.source, question.target, *more])


def _read_connection(api: OwnApi, question: ConnectionQuestion) -> _Connection:
    bodies = {id: api.find("ports", id) for id in (question.source, question.target)}
    ids = {str(body["network_id"]) for body in bodies.values()}
    networks = {id: api.show("networks", id) or {} for id in ids}
    source, target = (
        _traced(bodies[id], networks[str(bodies[id]["network_id"])])
        for id in (question.source, question.target)
    )
    return _Connection(
        question=question, source=source, target=target, bodies=bodies, networks=networks
    )


def _traced(body: Body, network: Body) -> TracedPort:
    return TracedPort(
        id=str(body["id"]),
        name=str(body.get("name") or ""),
        network=str(body["network_id"]),
        network_name=str(network.get("name") or ""),
        mac=str(body["mac_address"]),
        addresses=[fixed["ip_address"] for fixed in body["fixed_ips"]],
        host=str(body.get("binding:host_id") or ""),
        admin_state_up=bool(body["admin_state_up"]),
        device_owner=str(body.get("device_owner") or ""),
        device_id=str(body.get("device_id") or ""),
    )


def _port_step(api: OwnApi, port: TracedPort) -> DesiredTraceStep:
    found = ResourceReader(api=api).explain("port", port.id)
    works = found.status == "ACTIVE"
    lines = [reason.text for reason in found.reasons if works or reason.blocks]
    state = DENIED if not port.admin_state_up else ALLOWED if works else DOWN
    where = f" on {port.host}" if port.host else ""
    title = f"{port.title}{where} is {found.status}"
    return DesiredTraceStep(title=title, state=state, lines=tuple(lines), kind="port", id=port.id)


def _rules_step(api: OwnApi, connection: _Connection, direction: Direction) -> DesiredTraceStep:
    """Decide by the rules of the groups of a port, as its host does."""
    question = connection.question
    own, other = connection.source, connection.target
    if direction is Direction.INGRESS:
        own, other = other, own
    port, remote = (parse_port(connection.bodies[each.id]) for each in (own, other))
    rules = VisibleRules.read(api, port, remote, direction)
    packet = NewConnection(
        direction=direction,
        remote=as_address(address_of(other, question.version)),
        protocol=question.protocol,
        port=question.port,
        code=0 if question.protocol in (ICMP, ICMPV6) else None,
    )
    found = explain_connection(port, packet, rules)
    state = ALLOWED if found.allowed else UNKNOWN if rules.gaps else DENIED
    named = with_group_names(found.lines, rules.names)[:MOST_LINES]
    lines = (*named, *(() if found.allowed else rules.gaps[:MOST_LINES]))
    title = f"{direction} of {own.title}: security groups"
    return DesiredTraceStep(title=title, state=state, lines=lines, kind="port", id=own.id)


def _path_steps(
    api: OwnApi, connection: _Connection, start: str, end: str
) -> Iterator[DesiredTraceStep]:
    source, target = connection.source, connection.target
    yield _network_step(connection.networks[source.network], source)
    if source.network == target.network:
        return
    router = _router_of(api, connection, start)
    if isinstance(router, DesiredTraceStep):
        yield router
        return
    yield _router_step(api, router, connection, end)
    yield _network_step(connection.networks[target.network], target)


def _network_step(network: Body, port: TracedPort) -> DesiredTraceStep:
    kind, number = network.get("provider:network_type"), network.get("provider:segmentation_id")
    segment = f" ({kind}{'' if number is None else f' {number}'})" if kind else ""
    up = network.get("admin_state_up", True)
    lines = () if up else ("it is switched off: its admin_state_up is false",)
    return DesiredTraceStep(
        title=f"{port.network_title}{segment}",
        state=ALLOWED if up else DENIED,
        lines=lines,
        kind="network",
        id=port.network,
    )


def _router_of(api: OwnApi, connection: _Connection, start: str) -> Body | DesiredTraceStep:
    """Return the router that has the gateway of the source, or why there is none."""
    source = connection.source
    body = connection.bodies[source.id]
    subnet_id = next(str(f["subnet_id"]) for f in body["fixed_ips"] if f["ip_address"] == start)
    gateway = (api.show("subnets", subnet_id) or {}).get("gateway_ip")
    if not gateway:
        text = f"{source.title} is on another network than the target, without a gateway"
        return DesiredTraceStep(title="no router", state=DENIED, lines=(text,))
    found = api.list("ports", network_id=source.network, fixed_ips=f"ip_address={gateway}")
    for port in found:
        router = api.show("routers", str(port["device_id"]))
        if is_router_interface(str(port["device_owner"])) and router is not None:
            return router
    text = f"no router that is visible here has the gateway {gateway}"
    state = DENIED if api.requester.admin else UNKNOWN
    return DesiredTraceStep(title=f"gateway {gateway}", state=state, lines=(text,))


def _router_step(api: OwnApi, router: Body, connection: _Connection, end: str) -> DesiredTraceStep:
    id = str(router["id"])
    title = f"router {router.get('name') or id} is {router['status']}"
    if not router["admin_state_up"]:
        text = "it is switched off: its admin_state_up is false"
        return DesiredTraceStep(title=title, state=DENIED, lines=(text,), kind="router", id=id)
    state, line = _route(api, router, connection, end)
    lines = [line]
    if state == ALLOWED and router["status"] != "ACTIVE":
        found = ResourceReader(api=api).explain("router", id)
        lines += [reason.text for reason in found.reasons if reason.blocks]
        state = DOWN
    return DesiredTraceStep(title=title, state=state, lines=tuple(lines), kind="router", id=id)


def _route(api: OwnApi, router: Body, connection: _Connection, end: str) -> tuple[str, str]:
    """Return whether a router forwards to *end*, and by what."""
    target, address = connection.target, as_address(end)
    body = connection.bodies[target.id]
    subnet = next(str(f["subnet_id"]) for f in body["fixed_ips"] if f["ip_address"] == end)
    interfaces = api.list("ports", device_id=str(router["id"]), network_id=target.network)
    for port in interfaces:
        if any(str(fixed["subnet_id"]) == subnet for fixed in port["fixed_ips"]):
            return ALLOWED, f"it has an interface on {target.network_title}, and forwards it"
    for route in router.get("routes") or ():
        if address in as_network(route["destination"]):
            text = f"its route to {route['destination']} leads to {route['nexthop']}"
            return UNKNOWN, f"{text}, and the packet is not followed further"
    if router.get("external_gateway_info"):
        text = f"it has no interface on {target.network_title} and sends it to its external"
        return UNKNOWN, f"{text} gateway, where it is not followed further"
    return DENIED, f"it has neither an interface on {target.network_title} nor a route to {end}"
