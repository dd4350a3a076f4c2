"""``netfw status``: shows the agents of this host, their lag, and why they are not ready."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from netfw.cli.runtime.arguments import add_file_arguments, add_json_argument, file_arguments
from netfw.cli.runtime.output import print_lines
from netfw.cli.runtime.tables import print_table

if TYPE_CHECKING:
    from netfw.cli.diagnosis.status_files import StatusLocation
    from netfw.diagnosis.agent_health import AgentHealth

NOT_READY = 3
"""Exit status when an agent is not ready, or is gone."""
_MOST_REASONS = 20
_CLEAR_SCREEN = "\x1b[H\x1b[2J"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        help="show the agents of this host, their lag, and why they are not ready",
        description="Show each agent of this host by its status file: its state, how long the "
        "oldest difference lasts, and every reason.  An agent whose process is gone is dead, one "
        "that stopped writing is stale.  Exit status: 0 all are ready, 1 no agent was found, 2 "
        "wrongly configured, 3 one is not ready, dead or stale.",
    )
    add_file_arguments(parser)
    parser.add_argument(
        "--status-file",
        metavar="FILE",
        action="append",
        default=[],
        help="show the agent with this status file; several: give it again.  Otherwise those of "
        "state_path, and the status_file of the configuration",
    )
    parser.add_argument(
        "--stale",
        metavar="SECONDS",
        type=_seconds,
        default=75.0,
        help="age from which a status is outdated (75: 2.5 times the default report_interval)",
    )
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        type=_seconds,
        nargs="?",
        const=2.0,
        help="show it again every so many seconds (2), until interrupted; with --json one object "
        "in each line",
    )
    add_json_argument(parser)
    parser.set_defaults(func=show_status)


def _seconds(word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 86400:
        raise argparse.ArgumentTypeError(f"{word[:20]!r} is no number of seconds from 0.1 to 86400")
    return found


def show_status(arguments: argparse.Namespace) -> int:
    """Print the agents of this host; see ``netfw status --help`` for the status."""
    from netfw.cli.diagnosis.status_files import status_location

    location = status_location(file_arguments(arguments), arguments.status_file)
    if arguments.watch is None:
        return _show(location, arguments)
    # A parent that ignores SIGINT (nohup, a job in the background) passes that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    while True:
        if sys.stdout.isatty() and not arguments.json:
            print(_CLEAR_SCREEN, end="")
        _show(location, arguments)
        sys.stdout.flush()
        time.sleep(arguments.watch)


def _show(location: StatusLocation, arguments: argparse.Namespace) -> int:
    from netfw.cli.diagnosis.status_files import read_status_files
    from netfw.diagnosis.agent_health import AgentState, assess_agent

    now = time.time()
    records = read_status_files(location.paths())
    agents = [assess_agent(record, now, arguments.stale) for record in records]
    if arguments.json:
        indent = None if arguments.watch else 2
        print(json.dumps({"agents": [agent.to_dict() for agent in agents]}, indent=indent))
    else:
        _print_agents(agents, [str(path) for path in location.directories])
    if not agents:
        return 1
    return 0 if all(agent.state is AgentState.READY for agent in agents) else NOT_READY


def _print_agents(agents: Sequence[AgentHealth], directories: Sequence[str]) -> None:
    if not agents:
        print(
            f"No agent has a status file in {' or '.join(directories)}: none runs on this host, or "
            "its state_path is another one (--config-file, --status-file)."
        )
        return
    headers = ("AGENT", "HOST", "STATE", "LAG", "WRITTEN", "PID")
    print_table(headers, [_cells(agent) for agent in agents])
    for agent in agents:
        lines = [*agent.reasons, *(f"warning: {text}" for text in agent.warnings)]
        if not lines:
            continue
        print_lines([f"{agent.agent}:", *(f"  {line}" for line in lines[:_MOST_REASONS])])
        if len(lines) > _MOST_REASONS:
            print(f"  and {len(lines) - _MOST_REASONS} more; --json shows all")


def _cells(agent: AgentHealth) -> tuple[str, ...]:
    age = "-" if agent.age is None else f"{agent.age:.0f} s ago"
    pid = str(agent.pid or "-")
    return agent.agent, agent.host or "-", agent.state, f"{agent.lag:.1f} s", age, pid
