"""Demo of the commands that find out what is wrong: ``netfw status`` and ``netfw trace``."""

from __future__ import annotations

import sys
from pathlib import Path

from netfw.cli.demo.agents import VMS, AgentHost
from netfw.cli.demo.report import DemoReport
from netfw.testing.lab.host import write_enter_script

NETFW = (sys.executable, "-m", "netfw.cli.commands.main")


def demo_status(report: DemoReport, one: AgentHost) -> None:
    """Show the agent of a host."""
    done = one.host.attempt([*NETFW, "status", "--config-file", str(one.agent.conf)])
    report.say("netfw status, on host1:")
    report.quote(done.output.splitlines() or done.error.splitlines())
    report.check("the agent of host1 is ready", done.status == 0)


def demo_trace(report: DemoReport, one: AgentHost, two: AgentHost, port: int) -> None:
    """Follow a packet that security groups drop on the other host."""
    directory = one.agent.directory.parent
    script = directory / "on-host"
    write_enter_script([one.host, two.host], script)
    command = Path(sys.executable).parent / "netfw"
    done = one.host.attempt([
        *NETFW, "trace", VMS["blue1"].port, VMS["blue2"].port, "--protocol", "tcp",
        "--port", str(port), "--via", f"{script} {{host}}", "--netfw", str(command),
        "--host", one.host.name, "--host", two.host.name,
        "--config-file", str(directory / "{host}" / one.agent.conf.name),
    ])  # fmt: skip
    lines = done.output.splitlines() or done.error.splitlines()
    report.say(f"netfw trace blue1 blue2 --protocol tcp --port {port}, without its flow tables:")
    report.quote(line for line in lines if "table" not in line and not line.startswith(" " * 6))
    dropped = any(f"{two.host.name} drops it" in line for line in lines)
    report.check("netfw trace finds the host that drops it, and why", dropped)
