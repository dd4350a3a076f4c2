"""``netfw trace``: follows a packet between two ports, on the desired and on the live state."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from netfw.cli.runtime.api_client import add_api_argument, configured_api
from netfw.cli.runtime.arguments import add_file_arguments, add_json_argument, file_arguments
from netfw.cli.runtime.output import print_lines
from netfw.cli.runtime.protocol_arguments import number_up_to, protocol_number
from netfw.errors import ConfigError, NetfwError, NotFound
from netfw.model.values.protocol import ICMP, ICMPV6, PORTED

if TYPE_CHECKING:
    from netfw.cli.trace.hosts import TraceHosts
    from netfw.cli.trace.trace_host import TraceHost
    from netfw.diagnosis.trace_values import TracedPort

NOT_ARRIVED = 3
"""Exit status when the packet does not arrive, or not as desired."""
_ECHO_REQUEST, _ECHO_REQUEST6 = 8, 128
_LONGEST_REQUEST = 1 << 20


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trace",
        help="follow a packet between two ports, on the desired and on the live state",
        description="Follow the first packet of a connection from a port to another one, through "
        "the flows of each host and the namespaces of routers, in the names of tables, ports and "
        "groups, and say where the live state differs from what the agents would make of it.  "
        "Nothing is sent and nothing is changed.  Exit status: 0 it arrives, as it should, 1 it "
        "cannot be said, 2 wrongly configured, 3 it does not arrive, or should not.",
    )
    add_file_arguments(parser)
    parser.add_argument("source", metavar="SOURCE", help="port that sends: id or name")
    parser.add_argument("target", metavar="TARGET", help="port that should receive: id or name")
    parser.add_argument(
        "--protocol", type=protocol_number, default=ICMP, help="name or number (icmp)"
    )
    parser.add_argument(
        "--port", type=number_up_to(65535), metavar="NUMBER", help="destination port"
    )
    parser.add_argument(
        "--source-port", type=number_up_to(65535), default=40000, metavar="NUMBER", help="(40000)"
    )
    parser.add_argument("-6", dest="version", action="store_const", const=6, default=4, help="IPv6")
    _add_host_arguments(parser)
    add_api_argument(parser)
    parser.add_argument("--verbose", action="store_true", help="show every table and action")
    add_json_argument(parser)
    parser.set_defaults(func=trace)
    answer = commands.add_parser(
        "trace-host",
        help="answer requests of netfw trace for this host",
        description="Answer requests of netfw trace for this host: a line of JSON for each, on "
        "standard input and output.",
    )
    add_file_arguments(answer)
    answer.set_defaults(func=answer_requests)


def _add_host_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host that is asked, with --via or --lab; several: give it again",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--via",
        metavar="COMMAND",
        help="command that runs another one on a host, such as 'ssh {host}'; {host} stands for "
        "its name, also in --config-file",
    )
    how.add_argument("--lab", metavar="NAME", help="the hosts are those of this lab (netfw lab)")
    parser.add_argument(
        "--netfw", default="netfw", metavar="PATH", help="the command netfw on these hosts (netfw)"
    )


def trace(arguments: argparse.Namespace) -> int:
    """Print the trace; see ``netfw trace --help`` for the status."""
    from netfw.cli.trace.path import TraceQuestion, trace_packet
    from netfw.cli.trace.sentences import trace_lines

    with _hosts(arguments) as hosts:
        source, target = (
            _find(hosts, name, arguments.api) for name in (arguments.source, arguments.target)
        )
        protocol, number = _protocol_and_number(arguments)
        question = TraceQuestion(
            source=source,
            target=target,
            protocol=protocol,
            number=number,
            source_port=arguments.source_port,
            version=arguments.version,
        )
        found = trace_packet(hosts, question)
    lines = list(trace_lines(found, verbose=arguments.verbose))
    if arguments.json:
        print(json.dumps({**found.to_dict(), "lines": lines}, indent=2))
    else:
        print_lines(lines)
    if found.arrives is None:
        return 1
    return 0 if found.arrives and found.should_arrive else NOT_ARRIVED


def _protocol_and_number(arguments: argparse.Namespace) -> tuple[int, int | None]:
    """Return the protocol, and the destination port or ICMP type.

    :raises ConfigError: they do not fit.
    """
    protocol: int = arguments.protocol
    if protocol in PORTED:
        if arguments.port is None:
            raise ConfigError("--port: name the destination port of the connection")
        return protocol, arguments.port
    if arguments.port is not None:
        raise ConfigError("--port: only tcp, udp, sctp, dccp and udplite have ports")
    if protocol in (ICMP, ICMPV6):
        is_ipv6 = arguments.version == 6
        return (ICMPV6, _ECHO_REQUEST6) if is_ipv6 else (ICMP, _ECHO_REQUEST)
    return protocol, None


@contextmanager
def _hosts(arguments: argparse.Namespace) -> Iterator[TraceHosts]:
    from netfw.cli.trace.hosts import HostsByCommand, ThisHost, check_via
    from netfw.conf.loader import load_config

    files = file_arguments(arguments)
    via, netfw = arguments.via, arguments.netfw
    if arguments.lab:
        netfw = str(Path(sys.executable).with_name("netfw"))
        via = f"{netfw} lab exec --name {arguments.lab} {{host}} --"
    if via is not None:
        check_via(via)
        if not arguments.host:
            raise ConfigError("--host: name the hosts that are asked, each once")
        with HostsByCommand(arguments.host, via=via, files=files, netfw=netfw) as hosts:
            yield hosts
        return
    if arguments.host:
        raise ConfigError("--host needs --via or --lab: say how hosts are reached")
    with ThisHost(files, str(load_config("netfw", files).conf.host)) as host:
        yield host


def _find(hosts: TraceHosts, name: str, address: str | None) -> TracedPort:
    """Return a port, from the hosts or else from the API.

    :raises NotFound: neither knows it.
    """
    from netfw.cli.trace.path import find_port
    from netfw.diagnosis.trace_values import TracedPort

    if (found := find_port(hosts, name)) is not None:
        return found
    api = configured_api(address)
    if api is None:
        raise NotFound(
            f"no port on {', '.join(hosts.names)} is called {name!r}: name its host (--host), or "
            "the server's API (--api)"
        )
    body = api.find("ports", name)
    network = api.show("networks", str(body["network_id"])) or {}
    return TracedPort(
        id=body["id"],
        name=body["name"],
        network=body["network_id"],
        network_name=network.get("name", ""),
        mac=body["mac_address"],
        addresses=[each["ip_address"] for each in body["fixed_ips"]],
        host=body.get("binding:host_id") or "",
        admin_state_up=body["admin_state_up"],
        device_owner=body["device_owner"],
        device_id=body["device_id"],
    )


def answer_requests(arguments: argparse.Namespace) -> int:
    """Print the answer to each request as a line of JSON, until there are no more; return 0."""
    from netfw.cli.trace.trace_host import trace_host

    with ExitStack() as stack:
        host: TraceHost | None = None
        while line := sys.stdin.readline(_LONGEST_REQUEST):
            try:
                if host is None:
                    host = stack.enter_context(trace_host(file_arguments(arguments)))
                reply = {"answer": host.answer(json.loads(line))}
            except (ValueError, KeyError, TypeError) as exc:
                text = f"this is no request of netfw trace: {type(exc).__name__}: {exc}"
                reply = {"error": text}
            except NetfwError as exc:
                reply = {"error": str(exc), "missing": isinstance(exc, NotFound)}
            print(json.dumps(reply), flush=True)
    return 0
