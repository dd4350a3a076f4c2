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
        help="show netfw at work on labs of two and three hosts",
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
    try:
        return _run_sections()
    except KeyboardInterrupt:
        text = "netfw demo: interrupted; its hosts and processes end with it"
        print(text, file=sys.stderr)
        raise


def _run_sections() -> int:
    from netfw.cli.demo.agents import demo_agents, two_agents
    from netfw.cli.demo.diagnosis import demo_status
    from netfw.cli.demo.drivers import demo_drivers
    from netfw.cli.demo.firewall import demo_security_groups

    report = DemoReport()
    started = time.monotonic()
    with report.section("netfw: two hosts, and what it takes to connect them"):
        demo_drivers(report)
    with two_agents() as (one, two):
        logs = [one.agent.log, two.agent.log]
        with report.section("The same with agents: say what you want in a file", logs):
            demo_agents(report, one, two)
            demo_status(report, one)
        with report.section("Security groups: what no rule allows does not pass", logs):
            demo_security_groups(report, one, two)
    _demo_server(report)
    status = report.summary(time.monotonic() - started)
    report.say("Next: `.venv/bin/netfw lab up` for hosts to play with; docs/getting-started.md")
    return status


def _demo_server(report: DemoReport) -> None:
    """Run the sections that need a server, if its packages are installed."""
    if missing := [name for name in SERVER_NEEDS if find_spec(name) is None]:
        report.title("A server")
        report.say(f"left out, as {', '.join(missing)} is missing: pip install {SERVER_PACKAGES}")
        return
    from netfw.cli.demo.dhcp import demo_dhcp
    from netfw.cli.demo.distributed_router import demo_distributed_router
    from netfw.cli.demo.routers import demo_routers
    from netfw.cli.demo.server import demo_server, make_cloud

    sections = {
        "A server: networks, ports and groups by the OpenStack API": demo_server,
        "DHCP and metadata: what an instance asks for when it boots": demo_dhcp,
        "Routers: between networks, and to the outside world": demo_routers,
    }
    with make_cloud() as cloud:
        for title, demo in sections.items():
            with report.section(title, cloud.logs):
                demo(report, cloud)
    with make_cloud(hosts=3) as cloud:
        title = "Distributed routers: on the host of each instance"
        with report.section(title, cloud.logs):
            demo_distributed_router(report, cloud)
