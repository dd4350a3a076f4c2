"""A lab host that runs the console script ``netfw-ovs-agent``, in one of several flavours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups
from netfw.cli.commands.plan import plans_of
from netfw.conf.loader import load_config
from netfw.errors import NetfwError
from netfw.plan import Plan
from netfw.testing.lab.host import Host
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.nightly import nightly
from tests.system.l2.topology import Port, Topology

BIN = Path(sys.executable).parent
PHYSNET, PROVIDER = "physnet1", "br-phys"
TUNNELS = ("vxlan", "gre", "geneve")


@frozen(kw_only=True)
class Flavour:
    """How the hosts of a site are set up."""

    ip: int = 4
    population: bool = False
    firewall: str = ""
    hybrid: bool = False
    """Instances are plugged through Linux bridges of their own."""
    extensions: str = ""
    bandwidths: str = ""
    """What can be guaranteed to ports, by bridge."""

    def __str__(self) -> str:
        way = f"{'population' if self.population else 'mesh'}-ipv{self.ip}"
        return f"{way}-{self.firewall}" if self.firewall else way


FIREWALL = os.environ.get("NETFW_FIREWALL", "")
"""The firewall driver of all sites that name none; their ports are in a group that allows all."""
MESH4, POPULATED4, MESH6, POPULATED6 = (
    Flavour(ip=ip, population=population, firewall=FIREWALL)
    for ip in (4, 6)
    for population in (False, True)
)
ALL_FLAVOURS = (MESH4, nightly(POPULATED4), nightly(MESH6), POPULATED6)


def _plans(files: list[str]) -> dict[str, Plan]:
    """Return the plans of an agent for what its host has; to be called on the host."""
    with L2AgentComponents(load_config(PROGRAM, files, l2_groups(files)).conf) as parts:
        return dict(plans_of(parts.source, parts.agent))


class AgentHost:
    """A host and its agent."""

    def __init__(self, host: Host, topology: Topology, flavour: Flavour) -> None:
        self.host, self.topology, self.flavour = host, topology, flavour
        self.name = host.name
        self.directory = topology.path.parent / host.name
        self.directory.mkdir()
        self.conf = self.directory / "agent.conf"
        self.status_file = self.directory / "status.json"
        self.log = self.directory / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    @property
    def packets(self) -> Path:
        """The file of the packet log."""
        return self.directory / "packets.log"

    @property
    def local_ip(self) -> str:
        return str((self.host.address if self.flavour.ip == 4 else self.host.address6).ip)

    def configure(self, switch: str = "", agent: str = "", firewall: str | None = None) -> Path:
        """Write the configuration, with further lines for these groups."""
        self.conf.write_text(self._text("said", switch, agent, firewall))
        return self.conf

    def _text(
        self, status: str, switch: str = "", agent: str = "", firewall: str | None = None
    ) -> str:
        flavour = self.flavour
        return f"""
[DEFAULT]
host = {self.name}
state_path = {self.directory}
log_file = {self.log}
[agent]
status_file = {self.status_file}
l2_population = {flavour.population}
firewall_driver = {flavour.firewall if firewall is None else firewall}
extensions = {flavour.extensions}
refresh_interval = 1
retry_interval = 0.1
retry_interval_max = 1
extensions = {flavour.extensions}
{agent}
[openvswitch]
datapath_type = netdev
tunnel_types = {",".join(TUNNELS)}
local_ip = {self.local_ip}
bridge_mappings = {PHYSNET}:{PROVIDER}
resource_provider_bandwidths = {flavour.bandwidths}
arp_responder = {flavour.population}
ovsdb_connection = {self.host.ovs.remote}
ovsdb_timeout = 5
{switch}
[packet_log]
path = {self.packets}
[file]
path = {self.topology.path}
status_path = {self.directory}/{status}
poll = 0.05
debounce = 0
"""

    # The process.

    def start(self) -> None:
        self.status_file.unlink(missing_ok=True)
        with (self.directory / "stderr").open("ab") as output:
            self.process = self.host.spawn(
                [str(BIN / PROGRAM), "--config-file", str(self.conf)], stderr=output
            )

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait(TIMEOUT)
        self.process = None
        return status

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(TIMEOUT)
        self.process = None

    def restart(self, end: Callable[[AgentHost], object] | None = None) -> None:
        """End it by *end*, start it again, and wait until it is ready."""
        (end or AgentHost.stop)(self)
        self.start()
        self.await_ready()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    # What it says.

    def status(self) -> dict[str, Any]:
        """Return what a monitor reads, empty when there is nothing to read."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the agent of {self.name} ended: {self.last_words()}")
        try:
            found: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def last_words(self) -> str:
        errors = (self.directory / "stderr").read_text()[-2000:]
        return errors + (self.log.read_text()[-6000:] if self.log.exists() else "")

    def reported(self, port: Port) -> dict[str, Any]:
        """Return the report on a port, as the source recorded it."""
        path = self.directory / f"said.{self.name}.l2.json"
        resources = json.loads(path.read_text())["resources"] if path.exists() else []
        found = (each for each in resources if each["id"] == port.id)
        return next(found, {})

    def await_ready(self) -> None:
        wait_until(lambda: self.status().get("ready"), lambda: (self.status(), self.last_words()))

    # What the host is like.

    def differences(self) -> list[str]:
        """Return what a fresh agent would change, wait for or refuse; empty if nothing differs."""
        conf = self.directory / "plan.conf"
        conf.write_text(self._text("plan-said"))
        try:
            plans = self.host.call(_plans, ["--config-file", str(conf)])
        except NetfwError as exc:
            return [f"{type(exc).__name__}: {exc}"]
        found = [f"{name}: {line}" for name, plan in plans.items() for line in plan.lines()]
        for plan in plans.values():
            found += [f"{key} waits: {why}" for key, why in plan.waiting.items()]
            found += [f"{key} refused: {why}" for key, why in plan.refused.items()]
        return found

    def await_settled(self) -> None:
        """Wait until the host is as the file says, and its agent says so too."""
        wait_until(
            lambda: self.status().get("ready") and not self.differences(),  # the cheap one first
            lambda: (self.differences(), self.last_words()),
        )
        self.await_ready()

    def vsctl(self, *arguments: str) -> str:
        return self.host.ovs.vsctl(*arguments).strip()

    def ofctl(self, *arguments: str) -> str:
        return self.host.ovs.ofctl("-O", "OpenFlow13", *arguments)

    def tag(self, port: Port) -> str:
        return self.vsctl("get", "Port", port.device, "tag")

    def flows(self) -> dict[str, float]:
        """Return all flows of the agent's bridges except learnt ones, with their age in seconds."""
        found = {}
        for bridge in ("br-int", "br-tun", PROVIDER):
            for line in self.ofctl("dump-flows", bridge).splitlines():
                age = re.search(r"duration=([\d.]+)s, ", line)
                if age is not None and "_timeout" not in line:
                    text = re.sub(
                        r"(duration|n_packets|n_bytes|\w*idle_age|hard_age)=\S+ ?", "", line
                    )
                    found[f"{bridge} {text.strip()}"] = float(age[1])
        return found

    def rows(self) -> dict[str, str]:
        """Return the ports of all bridges, with the columns that the agent sets."""
        shown = self.vsctl(
            "--format=json", "--columns=name,tag,trunks,other_config", "list", "Port"
        )
        return {row[0]: json.dumps(row) for row in json.loads(shown)["data"]}
