"""Demo section 3: security groups.

A missing rule blocks a connection, attacks on a neighbour fail, a removed rule cuts a connection.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from netfw.cli.demo.agents import TIMEOUT, VMS, AgentHost, becomes_true, topology_of
from netfw.cli.demo.attacks import demo_attacks
from netfw.cli.demo.diagnosis import demo_trace
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.tcp import SILENCE, carries, connected, connects, listening
from netfw.testing.lab.instance import Instance

DRIVER = "openflow"
WEB = 80
GROUPS = {"blue1": "app", "blue2": "web", "green1": "app", "green2": "app"}
RULES = (
    "security_groups:",
    "  - name: app",
    "    rules:",
    "      - {direction: egress}",
    "  - name: web",
    "    rules:",
    "      - {direction: ingress, protocol: icmp}",
)
RULE = (
    f"      - {{direction: ingress, protocol: tcp, port_range_min: {WEB}, "
    f"port_range_max: {WEB}, remote_group: app}}"
)


def demo_security_groups(report: DemoReport, one: AgentHost, two: AgentHost) -> None:
    """Filter the ports of the two hosts of the section before by a firewall driver."""
    client, server = one.host.instances["blue1"], two.host.instances["blue2"]
    with listening(server, WEB) as listener, listening(server, WEB + 1):
        _deny(report, one, two, client)
        demo_attacks(report, client, server)
        _allow(report, one, two, client)
        _revoke(report, one, two, client, listener)


def _deny(report: DemoReport, one: AgentHost, two: AgentHost, client: Instance) -> None:
    report.step(
        "Have the agents filter",
        [f"firewall_driver = {DRIVER} in [agent]; topology.yaml has blue1 in app, blue2 in web:"],
    )
    report.quote(RULES)
    _state(one, two)
    for each in (one, two):
        each.stop()
        each.filter_by(DRIVER)
    seconds = [each.start() for each in (one, two)]
    report.say(f"restarted, and ready: {seconds[0]:.1f} s on host1, {seconds[1]:.1f} s on host2")
    ok = not client.ping(VMS["blue2"].address, count=3, timeout=1).lost
    report.check("blue1 pings blue2: a rule of web allows ICMP", ok)
    report.check(f"without a rule, port {WEB} of blue2 cannot be reached", not _connects(client))
    demo_trace(report, one, two, WEB)


def _allow(report: DemoReport, one: AgentHost, two: AgentHost, client: Instance) -> None:
    report.step("Add a rule to web", ["for the members of app, on every host:"])
    report.quote([RULE])
    _state(one, two, RULE)
    started = time.monotonic()
    passes = becomes_true(lambda: _connects(client))
    report.say(f"the file is written, and {time.monotonic() - started:.2f} s later it passes")
    report.check("with the rule, blue1 connects to blue2", passes)
    report.check("and to no other port", not _connects(client, WEB + 1))


def _revoke(
    report: DemoReport, one: AgentHost, two: AgentHost, client: Instance, listener: socket.socket
) -> None:
    report.step("Take it away again", ["while a connection runs, and a ping, every 10 ms:"])
    with connected(client, VMS["blue2"].address, listener) as (near, far):
        report.check("the connection carries data", carries(near, far, TIMEOUT))
        with client.pinging(VMS["blue2"].address, interval=0.01) as running:
            _state(one, two)
            started = time.monotonic()
            cut = becomes_true(lambda: not carries(near, far))
            seconds = time.monotonic() - started - SILENCE
            ping = running.stop()
    report.say(f"cut {max(seconds, 0):.2f} s after the file was written")
    report.check("the running connection is cut", cut)
    report.say(f"{ping.sent} pings sent meanwhile, {ping.lost} lost")
    report.check("what other rules allow does not lose a packet", ping.lost == 0 and ping.sent > 0)


def _state(one: AgentHost, two: AgentHost, *more: str) -> None:
    """Replace the file of both agents atomically, with *more* rules for the last group."""
    text = topology_of((one.host, two.host), GROUPS, (*RULES, *more))
    topology = Path(str(one.agent.options["file"]["path"]))
    fresh = topology.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(topology)


def _connects(client: Instance, port: int = WEB) -> bool:
    return connects(client, VMS["blue2"].address, port)
