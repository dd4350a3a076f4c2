"""``netfw demo``, which is what ``make demo`` runs.

Everything happens in namespaces of its own: the machine's network is not touched.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from importlib.util import find_spec

from netfw.cli.demo.report import DemoReport
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
    # A parent that ignores SIGINT (nohup, a job in the background) passes that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "netfw.cli.commands.main", "demo"])
    from netfw.cli.demo.agents import demo_agents, two_agents
    from netfw.cli.demo.dhcp import demo_dhcp
    from netfw.cli.demo.drivers import demo_drivers
    from netfw.cli.demo.firewall import demo_security_groups
    from netfw.cli.demo.server import demo_server, make_cloud

    tell = DemoReport()
    started = time.monotonic()
    with tell.chapter("netfw: two hosts, and what it takes to connect them"):
        demo_drivers(tell)
    with two_agents() as (one, two):
        logs = [one.agent.log, two.agent.log]
        with tell.chapter("The same with agents: say what you want in a file", logs):
            demo_agents(tell, one, two)
        with tell.chapter("Security groups: what no rule allows does not pass", logs):
            demo_security_groups(tell, one, two)
    if missing := [name for name in SERVER_NEEDS if find_spec(name) is None]:
        tell.title("A server")
        tell.say(f"left out, as {', '.join(missing)} is missing: pip install {SERVER_PACKAGES}")
    else:
        with make_cloud() as cloud:
            with tell.chapter(
                "A server: networks, ports and groups by the OpenStack API", cloud.logs
            ):
                demo_server(tell, cloud)
            with tell.chapter(
                "DHCP and metadata: what an instance asks for when it boots", cloud.logs
            ):
                demo_dhcp(tell, cloud)
    status = tell.summary(time.monotonic() - started)
    tell.say("Next: `.venv/bin/netfw lab up` for hosts to play with; docs/getting-started.md")
    return status
