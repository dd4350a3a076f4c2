"""TraceHost: answers the requests of a trace on one host, from its desired and its live state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from netfw.agents.l2.hybrid_ports import has_hybrid_plug
from netfw.cli.agents.component_factory import l2_components
from netfw.cli.commands.plan import plans_of
from netfw.cli.trace.datapath_ports import (
    DatapathPort,
    parse_ports,
    port_of_number,
    tunnel_port,
)
from netfw.cli.trace.ofproto_trace import FlowTraceStep, OfprotoTrace, PortOutput, parse_trace
from netfw.cli.trace.packet import PacketEntry, TracedPacket
from netfw.cli.trace.route_lookup import RouteQuestion, read_route
from netfw.cli.trace.values import Hop, HopOutput, HopStep
from netfw.drivers.firewall import FirewallCapability
from netfw.errors import BackendBroken, NotFound
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.security_group import Direction, SecurityGroup
from netfw.model.values.address import as_address
from netfw.ovs.control_socket import ControlSocket
from netfw.ovs.socket_directory import socket_directory

if TYPE_CHECKING:
    from netfw.cli.agents.l2 import L2AgentComponents
    from netfw.plan import Plan

Request = Mapping[str, Any]
_MAGIC: Final = 0x6E66
"""The first 16 bits of the cookies of netfw's flows."""
_MOST_DIFFERENCES = 50
_NOTE = "note:"


class TraceHost:
    """Desired and live state of this host.

    Reading the desired state plans what the agent would change, and changes nothing.
    """

    def __init__(self, parts: L2AgentComponents, plans: Mapping[str, Plan]) -> None:
        self._parts, self._plans = parts, plans
        self._index, self._switch = parts.agent.resources, parts.switch
        options = parts.switch_options()
        directory = socket_directory(
            options.get("ovsdb_connection", ""), options.get("openflow_directory")
        )
        self._control = ControlSocket(Path(directory))
        self._pipelines = self._switch.host_facts().pipelines

    def answer(self, request: Request) -> Any:
        """Answer a request, which is plain data like the answer.

        :raises NetfwError: it cannot be answered.
        """
        requests = {
            "find": self._find,
            "hop": self._hop,
            "address": self._find_address,
            "gateway": self._gateway,
            "facts": self._facts,
            "device": self._device,
            "decide": self._decide,
            "route": lambda asked: read_route(RouteQuestion(**asked["question"])),
            "differences": self._differences,
        }
        return requests[request["request"]](request)

    # The desired state.

    def _find(self, request: Request) -> dict[str, Any] | None:
        """Describe the port of this host with that id or name, or the one with that MAC."""
        wanted = request["port"]
        ports = [port for id in self._index.all_home_ports() if (port := self._index.port(id))]
        found = [port for port in ports if wanted in (str(port.id), str(port.mac))]
        found = found or [port for port in ports if port.name == wanted]
        if len(found) > 1:
            raise NotFound(f"several ports of {self._index.host} are called {wanted!r}: give an id")
        return self._describe(found[0]) if found else None

    def _find_address(self, request: Request) -> dict[str, Any] | None:
        """Describe the port of this host with an address of a network."""
        for id in self._index.all_home_ports():
            port = self._index.port(id)
            if port is None or str(port.network_id) != request["network"]:
                continue
            if request["address"] in (str(fixed.address) for fixed in port.fixed_ips):
                return self._describe(port)
        return None

    def _gateway(self, request: Request) -> str | None:
        """Return the gateway of the subnet that has an address of a port."""
        port, address = self._port(request["port"]), as_address(request["address"])
        for subnet in self._index.subnets(port.network_id).values():
            if address in subnet.cidr and subnet.gateway is not None:
                return str(subnet.gateway)
        return None

    def _device(self, request: Request) -> str | None:
        """Return the device of a port in the switch; ``None``: it is not plugged."""
        found = self._switch.devices().get(self._port(request["port"]).id)
        return None if found is None else found.name

    def _facts(self, request: Request) -> dict[str, Any]:
        """Return the addresses at which tunnels of this host end."""
        del request
        endpoints = self._switch.host_facts().endpoints
        return {"endpoints": sorted({str(each.address) for each in endpoints})}

    def _describe(self, port: Port) -> dict[str, Any]:
        network = self._index.network(port.network_id)
        return {
            "id": str(port.id),
            "name": port.name,
            "network": str(port.network_id),
            "network_name": "" if network is None else network.name,
            "mac": str(port.mac),
            "addresses": [str(fixed.address) for fixed in port.fixed_ips],
            "host": self._index.host,
            "admin_state_up": port.admin_up,
            "device_owner": port.device_owner,
            "device_id": port.device_id,
        }

    def _decide(self, request: Request) -> dict[str, Any]:
        """Decide by the desired rules whether a port may open or receive a connection."""
        from netfw.diagnosis.rule_explanation import (
            NewConnection,
            explain_connection,
            with_group_names,
        )

        port = self._port(request["port"])
        direction = Direction(request["direction"])
        what = f"{direction} of port {port.name or port.id} on {self._index.host}"
        firewall = self._parts.firewall
        capabilities = () if firewall is None else firewall.describe().capabilities
        if FirewallCapability.FILTERING not in capabilities:
            lines = ["no firewall driver of this host enforces security groups"]
            return {"what": what, "allowed": True, "lines": lines}
        connection = NewConnection(
            direction=direction,
            remote=as_address(request["remote"]),
            protocol=request["protocol"],
            port=request["number"],
        )
        found = explain_connection(port, connection, self._index)
        lines = with_group_names(found.lines, self._group_names())
        return {
            "what": what,
            "allowed": found.allowed,
            "in_switch": FirewallCapability.IN_SWITCH in capabilities
            and not self._has_hybrid_plug(port),
            "lines": lines if found.allowed else lines[:_MOST_DIFFERENCES],
        }

    def _has_hybrid_plug(self, port: Port) -> bool:
        device = self._switch.devices().get(port.id)
        return device is not None and has_hybrid_plug(device.name)

    def _port(self, id: str) -> Port:
        found = [each for each in self._index.all_home_ports() if str(each) == id]
        port = self._index.port(found[0]) if found else None
        if port is None:
            raise NotFound(f"port {id} is not bound to {self._index.host}")
        return port

    def _group_names(self) -> dict[str, str]:
        """Return the names of security groups by id."""
        groups = (each for each in self._index.values() if isinstance(each, SecurityGroup))
        return {str(group.id): group.name for group in groups}

    def _differences(self, request: Request) -> list[str]:
        """Return what an agent would change for these ids, or for everything."""
        ids = request["ids"]
        lines = [
            f"{self._index.host}: {name}: {operation}"
            for name, plan in self._plans.items()
            for operation in plan
            if _concerns(operation.owners, str(operation), ids)
        ]
        lines += [
            f"{self._index.host}: {name}: {key} waits: {why}"
            for name, plan in self._plans.items()
            for key, why in plan.waiting.items()
            if any(id in str(key) for id in ids)
        ]
        return lines[:_MOST_DIFFERENCES]

    # The live state.

    def _hop(self, request: Request) -> dict[str, Any]:
        entry, packet = PacketEntry(**request["entry"]), TracedPacket(**request["packet"])
        ports = parse_ports(self._control.command("dpif/show"))
        entered, prefix = self._entered(entry, ports)
        first = self._trace(entered.bridge, f"in_port={entered.ofport},{prefix}", packet)
        trace, steps = self._resumed(first, entered.bridge, packet)
        return Hop(
            host=self._index.host,
            entry=f"{entered.name} of {entered.bridge}",
            steps=tuple(self._step(step) for step in steps),
            outputs=tuple(self._outputs(trace, ports)),
            fields=dict(trace.fields),
            problems=trace.problems,
            to_agent=trace.to_controller,
            uncertain=bool(trace.tracked_on),
        ).to_dict()

    def _trace(self, bridge: str, entry: str, packet: TracedPacket) -> OfprotoTrace:
        text = self._control.command("ofproto/trace", bridge, f"{entry}{packet.flow()}")
        try:
            return parse_trace(text)
        except ValueError as exc:
            raise BackendBroken(f"{bridge}: {exc}: {text[:500]!r}") from exc

    def _resumed(
        self, first: OfprotoTrace, bridge: str, packet: TracedPacket
    ) -> tuple[OfprotoTrace, Sequence[FlowTraceStep]]:
        """Trace again from the integration bridge on, if the packet lost its connection there.

        A patch port between two bridges clears what the switch knows of the connection.
        """
        integration = self._switch.host_facts().bridge
        if not first.tracked_on or bridge == integration:
            return first, first.steps
        before = list(takewhile(lambda step: step.bridge != integration, first.steps))
        tag = "" if first.first_vlan is None else f"dl_vlan={first.first_vlan},"
        second = self._trace(integration, f"in_port={first.tracked_on},{tag}", packet)
        return second, (*before, *second.steps)

    def _entered(self, entry: PacketEntry, ports: list[DatapathPort]) -> tuple[DatapathPort, str]:
        """Return the port by which a packet enters, and the fields of a flow for that.

        :raises NotFound: there is no such port.
        """
        if entry.device:
            found = next((each for each in ports if each.name == entry.device), None)
            what, fields = f"port {entry.device}", ""
        elif entry.sender:
            found = tunnel_port(ports, entry.tunnel_type, entry.sender)
            what = f"tunnel to {entry.sender}"
            fields = f"tun_id={entry.tunnel_id},{_tunnel_addresses(entry)},"
        else:
            bridge = self._switch.host_facts().mappings.get(entry.physical_network, "")
            others = [each for each in ports if each.bridge == bridge and _is_uplink(each)]
            found = others[0] if len(others) == 1 else None
            what = f"single device of {entry.physical_network} (bridge {bridge or 'none'})"
            fields = f"dl_vlan={entry.vlan}," if entry.vlan else ""
        if found is None:
            raise NotFound(f"the switch of {self._index.host} has no {what}")
        return found, fields

    def _outputs(self, trace: OfprotoTrace, ports: list[DatapathPort]) -> Iterator[HopOutput]:
        devices = {device.name: id for id, device in self._switch.devices().items()}
        bridges = {bridge: name for name, bridge in self._switch.host_facts().mappings.items()}
        for output in trace.outputs:
            if not isinstance(output, PortOutput):
                yield HopOutput(
                    kind="tunnel",
                    tunnel_type=output.type,
                    tunnel_id=output.id,
                    local=output.local,
                    remote=output.remote,
                )
                continue
            port = port_of_number(ports, output.number)
            name = port.name if port else f"datapath port {output.number}"
            network = bridges.get(port.bridge, "") if port else ""
            yield HopOutput(
                kind="physical" if network else "device",
                device=name,
                port=str(devices.get(name, "")),
                physical_network=network,
                vlan=output.vlan,
            )

    def _step(self, step: FlowTraceStep) -> HopStep:
        tables = self._pipelines[step.bridge].tables if step.bridge in self._pipelines else ()
        table = next((each for each in tables if each.number == step.table), None)
        return HopStep(
            bridge=step.bridge,
            table=step.table,
            name=table.name if table else "",
            asks=table.asks if table else "",
            match=step.match,
            priority=step.priority,
            actions=step.actions,
            remarks=(*step.remarks, *self._named_notes(step.actions)),
            foreign=bool(tables) and step.priority is not None and step.cookie >> 48 != _MAGIC,
            miss=step.is_miss,
        )

    def _named_notes(self, actions: Sequence[str]) -> Iterator[str]:
        """Yield the resources whose ids are in notes of a flow."""
        for action in actions:
            if action.startswith(_NOTE):
                note = action.removeprefix(_NOTE).replace(".", "")
                for resource in self._index.values():
                    if _is_named_by(resource, note):
                        yield f"it is for {_title(resource)}"


def _is_named_by(resource: Resource, note: str) -> bool:
    id = getattr(resource, "id", None)
    return isinstance(resource, Port | SecurityGroup) and str(id).replace("-", "") in note


def _title(resource: Resource) -> str:
    kind = "port" if isinstance(resource, Port) else "security group"
    name = getattr(resource, "name", "")
    id = getattr(resource, "id", "")
    return f"{kind} {name} ({id})" if name else f"{kind} {id}"


def _concerns(owners: frozenset[Any], text: str, ids: Sequence[str]) -> bool:
    return any(id in str(owner) for owner in owners for id in ids) or any(id in text for id in ids)


def _is_uplink(port: DatapathPort) -> bool:
    return port.kind not in ("patch", "tap", "internal") and port.name != port.bridge


def _tunnel_addresses(entry: PacketEntry) -> str:
    word = "tun_ipv6" if ":" in entry.sender else "tun"
    return f"{word}_src={entry.sender},{word}_dst={entry.receiver}"


@contextmanager
def trace_host(files: Sequence[str]) -> Iterator[TraceHost]:
    """Make a `TraceHost` from the files of the L2 agent.

    :raises ConfigError: the configuration is not possible.
    :raises BackendUnavailable: the source or the switch does not answer.
    """
    with l2_components(files) as parts:
        yield TraceHost(parts, plans_of(parts.source, parts.agent))
