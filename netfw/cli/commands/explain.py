"""``netfw explain``: says why a resource does not work, or which rule allows a connection."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import asdict

from netfw.cli.runtime.api_client import add_api_argument, configured_api
from netfw.cli.runtime.arguments import add_file_arguments, add_json_argument, file_arguments
from netfw.cli.runtime.output import print_error, print_lines
from netfw.cli.runtime.protocol_arguments import number_up_to, protocol_number
from netfw.errors import ConfigError, NotFound
from netfw.model.port import Port
from netfw.model.security_group import Direction
from netfw.model.values.address import as_address
from netfw.model.values.protocol import ICMP, ICMPV6

if TYPE_CHECKING:
    from netfw.agents.l2.resource_index import L2ResourceIndex
    from netfw.diagnosis.rule_explanation import NewConnection, RuleExplanation

DENIED = 3
"""Exit status when no rule allows the connection, or when the resource does not work."""
KINDS = ("port", "router", "floatingip")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="say why a port, router or floating IP does not work, or which rule allows a packet",
        usage="netfw explain port|router|floatingip ID [--api ADDRESS] [--json]\n"
        "       netfw explain PORT ingress|egress ADDRESS PROTOCOL [NUMBER] [--code CODE]",
        description="With a kind and an id or name: say why the resource is down or unbound and "
        "who is waiting for what, from the server's API and the status files of the agents of "
        "this host.  With a port and a connection: say which rule of its security groups allows a "
        "new connection of a port of this host, or what each rule lacks for it; the rules are "
        "those that netfw-ovs-agent reads, and the host itself is not read.  Exit status: 0 it "
        "works or is allowed, 1 it cannot be said, 2 wrongly configured, 3 it does not work, or "
        "is denied.",
    )
    add_file_arguments(parser)
    parser.add_argument(
        "subject", metavar="KIND|PORT", help="port, router or floatingip; or a port"
    )
    parser.add_argument("detail", metavar="ID|DIRECTION", help="id or name; or ingress, egress")
    parser.add_argument("remote", metavar="ADDRESS", nargs="?", help="IP address of the other end")
    parser.add_argument(
        "protocol",
        metavar="PROTOCOL",
        type=protocol_number,
        nargs="?",
        help="name or number, such as tcp",
    )
    parser.add_argument(
        "number",
        metavar="NUMBER",
        type=number_up_to(65535),
        nargs="?",
        help="destination port, or ICMP type",
    )
    parser.add_argument("--code", metavar="CODE", type=number_up_to(255), help="ICMP code")
    add_api_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(func=explain, refuse=parser.error)


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; see ``netfw explain --help`` for the status."""
    if arguments.remote is None:
        if arguments.subject not in KINDS:
            arguments.refuse(f"{arguments.subject!r} is none of {', '.join(KINDS)}")
        return _explain_resource(arguments)
    if arguments.detail not in list(Direction) or arguments.protocol is None:
        arguments.refuse("a connection is PORT ingress|egress ADDRESS PROTOCOL [NUMBER]")
    return _explain_packet(arguments)


def _explain_resource(arguments: argparse.Namespace) -> int:
    """Read the API and status files; their modules come late."""
    from netfw.cli.diagnosis.status_files import read_status_files, status_location
    from netfw.conf.loader import load_config
    from netfw.diagnosis.agent_health import assess_agent
    from netfw.diagnosis.resource_reader import ResourceReader, explain_locally, local_facts

    files = file_arguments(arguments)
    host = str(load_config("netfw", files).conf.host)
    records = read_status_files(status_location(files, ()).paths())
    agents = [assess_agent(record, time.time()) for record in records]
    api = configured_api(arguments.api)
    if api is None:
        facts = local_facts(host, records, agents, [arguments.detail])
        found = explain_locally(arguments.subject, arguments.detail, facts)
    else:
        reader = ResourceReader(api=api, host=host, records=records, agents=agents)
        found = reader.explain(arguments.subject, arguments.detail)
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print_lines(found.lines())
    return DENIED if found.is_blocked else 0 if found.status else 1


def _explain_packet(arguments: argparse.Namespace) -> int:
    try:
        remote = as_address(arguments.remote)
    except ValueError as exc:
        print_error(exc)
        return 2
    from netfw.diagnosis.rule_explanation import NewConnection

    is_ipv6_ping = remote.version == 6 and arguments.protocol == ICMP
    connection = NewConnection(
        direction=Direction(arguments.detail),
        remote=remote,
        protocol=ICMPV6 if is_ipv6_ping else arguments.protocol,
        port=arguments.number,
        code=arguments.code,
    )
    try:
        found = _explain(file_arguments(arguments), arguments.subject, connection)
    except ConfigError as exc:
        print_error(exc)
        return 2
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        print_lines(found.lines)
    return 0 if found.allowed else DENIED


def _explain(files: Sequence[str], name: str, connection: NewConnection) -> RuleExplanation:
    """Read the resources of the L2 agent, whose libraries come late."""
    from netfw.agents.common.replica import Replica
    from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups
    from netfw.conf.loader import load_config
    from netfw.diagnosis.rule_explanation import explain_connection

    conf = load_config(PROGRAM, files, l2_groups(files)).conf
    with L2AgentComponents(conf) as parts:
        index = parts.agent.resources
        Replica(parts.source, parts.agent.subscription, index).pull()
        return explain_connection(find_port(index, name), connection, index)


def find_port(index: L2ResourceIndex, name: str) -> Port:
    """Return the port of this host with that id or name.

    :raises NotFound: there is none, or several have the name.
    """
    ports = [port for id in index.all_home_ports() if (port := index.port(id)) is not None]
    found = [port for port in ports if str(port.id) == name] or [
        port for port in ports if port.name == name
    ]
    if len(found) != 1:
        what = "several ports are" if found else f"no port of host {index.host} is"
        raise NotFound(f"{what} called {name!r}; give the id of one that is bound to this host")
    return found[0]
