"""``netfw demo``, which is what ``make demo`` runs.

Everything happens in namespaces of its own: the machine's network is not touched.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec

from netfw.cli.narration import Narration
from netfw.testing.lab import sandbox

SERVER_NEEDS = ("sqlalchemy", "cheroot", "openstack", "openstackclient")
SERVER_PACKAGES = "'netfw[server]' openstacksdk python-openstackclient"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="see netfw at work on a laboratory of two hosts",
        description="Shows netfw at work in namespaces of its own; the machine's network is not "
        "touched.  Exit status 0 when every check is ok.",
    )
    parser.set_defaults(func=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Tell all chapters; 0 when every check is ok."""
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "netfw.cli.main", "demo"])
    from netfw.cli.demo.agent_chapter import tell_of_agents, two_agents
    from netfw.cli.demo.dhcp_chapter import tell_of_dhcp
    from netfw.cli.demo.driver_chapter import tell_of_drivers
    from netfw.cli.demo.firewall_chapter import tell_of_security_groups
    from netfw.cli.demo.server_chapter import a_cloud, tell_of_the_server

    tell = Narration()
    started = time.monotonic()
    with tell.chapter("netfw: two hosts, and what it takes to connect them"):
        tell_of_drivers(tell)
    with two_agents() as (one, two):
        logs = [one.agent.log, two.agent.log]
        with tell.chapter("The same with agents: say what you want in a file", logs):
            tell_of_agents(tell, one, two)
        with tell.chapter("Security groups: what no rule allows does not pass", logs):
            tell_of_security_groups(tell, one, two)
    if missing := [name for name in SERVER_NEEDS if find_spec(name) is None]:
        tell.title("A server")
        tell.say(f"left out, as {', '.join(missing)} is missing: pip install {SERVER_PACKAGES}")
    else:
        with a_cloud() as cloud:
            with tell.chapter(
                "A server: networks, ports and groups by the OpenStack API", cloud.logs
            ):
                tell_of_the_server(tell, cloud)
            with tell.chapter(
                "DHCP and metadata: what an instance asks for when it boots", cloud.logs
            ):
                tell_of_dhcp(tell, cloud)
    status = tell.summary(time.monotonic() - started)
    tell.say("Next: `.venv/bin/netfw lab up` for hosts to play with; docs/getting-started.md")
    return status
