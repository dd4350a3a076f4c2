"""``netfw explain``: says which rule allows a connection of a port, or why none does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from netfw.cli.runtime.arguments import add_file_arguments, file_arguments
from netfw.errors import ConfigError, NotFound
from netfw.model.port import Port
from netfw.model.security_group import Direction
from netfw.model.values.address import as_address
from netfw.model.values.protocol import ICMP, ICMPV6, NUMBERS

if TYPE_CHECKING:
    from netfw.agents.l2.resource_index import L2ResourceIndex
    from netfw.agents.l2.rule_explanation import NewConnection, RuleExplanation

DENIED = 3
"""Exit status when no rule allows the connection."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="say which rule allows a connection of a port of this host, or why none does",
        description="Say which rule of its security groups allows a new connection of a port of "
        "this host, or what each rule lacks for it.  The rules are those that netfw-ovs-agent "
        "reads; the host itself is not read.  Exit status: 0 allowed, 1 it cannot be said, 2 "
        "wrongly configured, 3 denied.",
    )
    add_file_arguments(parser)
    parser.add_argument("port", metavar="PORT", help="id or name of the port")
    parser.add_argument("direction", choices=[each.value for each in Direction])
    parser.add_argument("remote", metavar="ADDRESS", help="IP address of the other end")
    parser.add_argument(
        "protocol", metavar="PROTOCOL", type=_protocol, help="name or number, such as tcp"
    )
    parser.add_argument(
        "number",
        metavar="NUMBER",
        type=_number_up_to(65535),
        nargs="?",
        help="destination port, or ICMP type",
    )
    parser.add_argument("--code", metavar="CODE", type=_number_up_to(255), help="ICMP code")
    parser.set_defaults(func=explain)


def _protocol(word: str) -> int:
    number = NUMBERS.get(word.lower(), int(word) if word.isdecimal() else None)
    if number is None or number > 255:
        raise argparse.ArgumentTypeError(f"no such protocol: {word!r}")
    return number


def _number_up_to(most: int) -> Callable[[str], int]:
    def parse(word: str) -> int:
        if not (word.isdecimal() and len(word) <= len(str(most)) and int(word) <= most):
            raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number from 0 to {most}")
        return int(word)

    return parse


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation; see ``netfw explain --help`` for the status."""
    try:
        remote = as_address(arguments.remote)
    except ValueError as exc:
        print(f"netfw: {exc}", file=sys.stderr)
        return 2
    from netfw.agents.l2.rule_explanation import NewConnection

    is_ipv6_ping = remote.version == 6 and arguments.protocol == ICMP
    connection = NewConnection(
        direction=Direction(arguments.direction),
        remote=remote,
        protocol=ICMPV6 if is_ipv6_ping else arguments.protocol,
        port=arguments.number,
        code=arguments.code,
    )
    try:
        found = _explain(file_arguments(arguments), arguments.port, connection)
    except ConfigError as exc:
        print(f"netfw: {exc}", file=sys.stderr)
        return 2
    for line in found.lines:
        print(line)
    return 0 if found.allowed else DENIED


def _explain(files: Sequence[str], name: str, connection: NewConnection) -> RuleExplanation:
    """Read the resources of the L2 agent, whose libraries come late."""
    from netfw.agents.common.replica import Replica
    from netfw.agents.l2.rule_explanation import explain_connection
    from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups
    from netfw.conf.loader import load_config

    conf = load_config(PROGRAM, files, l2_groups(files)).conf
    with L2AgentComponents(conf) as parts:
        index = parts.agent.resources
        Replica(parts.source, parts.agent.subscription, index).pull()
        return explain_connection(index, find_port(index, name), connection)


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
