"""``netfw demo``, which is what ``make demo`` runs.

It runs in namespaces of its own; the machine's network is not touched.
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
        help="show netfw at work on a lab of two hosts",
        description="Shows netfw at work in namespaces of its own; the machine's network is not "
        "touched.  Exit status 0 when every check is ok.",
    )
    parser.set_defaults(func=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Run all sections; return 0 when every check is ok."""
    # A parent that ignores SIGINT (nohup, a job in the background) passes that on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "netfw.cli.commands.main", "demo"])
    from netfw.cli.demo.agents import demo_agents, two_agents
    from netfw.cli.demo.dhcp import demo_dhcp
    from netfw.cli.demo.drivers import demo_drivers
    from netfw.cli.demo.firewall import demo_security_groups
    from netfw.cli.demo.routers import demo_routers
    from netfw.cli.demo.server import demo_server, make_cloud

    report = DemoReport()
    started = time.monotonic()
    with report.section("netfw: two hosts, and what it takes to connect them"):
        demo_drivers(report)
    with two_agents() as (one, two):
        logs = [one.agent.log, two.agent.log]
        with report.section("The same with agents: say what you want in a file", logs):
            demo_agents(report, one, two)
        with report.section("Security groups: what no rule allows does not pass", logs):
            demo_security_groups(report, one, two)
    if missing := [name for name in SERVER_NEEDS if find_spec(name) is None]:
        report.title("A server")
        report.say(f"left out, as {', '.join(missing)} is missing: pip install {SERVER_PACKAGES}")
    else:
        with make_cloud() as cloud:
            with report.section(
                "A server: networks, ports and groups by the OpenStack API", cloud.logs
            ):
                demo_server(report, cloud)
            with report.section(
                "DHCP and metadata: what an instance asks for when it boots", cloud.logs
            ):
                demo_dhcp(report, cloud)
            with report.section("Routers: between networks, and to the outside world", cloud.logs):
                demo_routers(report, cloud)
    status = report.summary(time.monotonic() - started)
    report.say("Next: `.venv/bin/netfw lab up` for hosts to play with; docs/getting-started.md")
    return status
