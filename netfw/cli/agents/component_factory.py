"""Components of an agent, made by commands from the files of that agent, and their arguments.

Agents and their libraries come late, so that other commands start without them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from netfw.cli.runtime.arguments import add_file_arguments, add_json_argument

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from netfw.cli.agents.components import ConfiguredComponents
    from netfw.cli.agents.dhcp import DhcpAgentComponents
    from netfw.cli.agents.l2 import L2AgentComponents
    from netfw.cli.agents.l3 import L3AgentComponents
    from netfw.conf.loader import Groups


def l2_components(files: Sequence[str]) -> L2AgentComponents:
    """Make the components of netfw-ovs-agent.

    :raises ConfigError: the configuration is not possible.
    """
    from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups

    return L2AgentComponents(_conf(PROGRAM, files, l2_groups(files)))


def dhcp_components(files: Sequence[str]) -> DhcpAgentComponents:
    """Make the components of netfw-dhcp-agent.

    :raises ConfigError: the configuration is not possible.
    """
    from netfw.cli.agents.dhcp import PROGRAM, DhcpAgentComponents, dhcp_groups

    return DhcpAgentComponents(_conf(PROGRAM, files, dhcp_groups(files)))


def l3_components(files: Sequence[str]) -> L3AgentComponents:
    """Make the components of netfw-l3-agent.

    :raises ConfigError: the configuration is not possible.
    """
    from netfw.cli.agents.l3 import PROGRAM, L3AgentComponents, l3_groups

    return L3AgentComponents(_conf(PROGRAM, files, l3_groups(files)))


AGENTS: Final[Mapping[str, Callable[[Sequence[str]], ConfiguredComponents]]] = {
    "l2": l2_components,
    "l3": l3_components,
    "dhcp": dhcp_components,
}
"""Agents that change a host, by the word that commands have for them."""


def add_agent_arguments(parser: argparse.ArgumentParser, note: str) -> None:
    """Add the arguments of commands on the files of one agent, and ``--json``.

    :param note: what the help of ``--agent`` ends with.
    """
    add_file_arguments(parser)
    parser.add_argument(
        "--agent",
        choices=sorted(AGENTS),
        default="l2",
        help="the agent whose files these are: netfw-ovs-agent (l2, the default), netfw-l3-agent "
        f"(l3) or netfw-dhcp-agent (dhcp); {note}",
    )
    add_json_argument(parser)


def _conf(program: str, files: Sequence[str], groups: Groups) -> ConfigOpts:
    from netfw.cli.runtime.installed_options import InstalledPrograms
    from netfw.conf.loader import load_config, refuse_misspelt

    conf = load_config(program, files, groups).conf
    for sentence in refuse_misspelt(conf, InstalledPrograms()):
        print(f"netfw: {sentence}", file=sys.stderr)
    return conf
