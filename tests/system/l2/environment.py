"""A site: lab hosts that run the console script ``netfw-ovs-agent``, as an operator has them.

Instances are plugged by ``ovs-vsctl`` as a hypervisor does it, and the state comes from a file.
Whether a host has converged is asked of a second, fresh set of drivers by a plan: the agent's own
word is not taken for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups
from netfw.cli.commands.plan import plans_of
from netfw.conf.loader import load_config
from netfw.errors import NetfwError
from netfw.plan import Plan
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Device, Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import PATIENCE, wait_until
from tests.system.l2.topology import Net, Port, Topology

BIN = Path(sys.executable).parent
PHYSNET, PROVIDER = "physnet1", "br-phys"
TUNNELS = ("vxlan", "gre", "geneve")
SOON = 0.2
"""Seconds after which what did not come back is asked for again, where that is allowed."""


@frozen(kw_only=True)
class Flavour:
    """How the hosts of a site are set up."""

    ip: int = 4
    population: bool = False
    firewall: str = ""
    hybrid: bool = False
    """Instances are plugged through Linux bridges of their own."""

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
ALL_FLAVOURS = (MESH4, POPULATED4, MESH6, POPULATED6)


def _plans(files: list[str]) -> dict[str, Plan]:
    """To be called on the host: an agent looks at what its host has."""
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
    def local_ip(self) -> str:
        return str((self.host.address if self.flavour.ip == 4 else self.host.address6).ip)

    def configure(self, switch: str = "", agent: str = "", firewall: str | None = None) -> Path:
        """Write the configuration, with further lines for these groups."""
        self.conf.write_text(self._text("said", switch, agent, firewall))
        return self.conf

    def _text(
        self, said: str, switch: str = "", agent: str = "", firewall: str | None = None
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
refresh_interval = 1
retry_pause = 0.1
retry_pause_max = 1
{agent}
[openvswitch]
datapath_type = netdev
tunnel_types = {",".join(TUNNELS)}
local_ip = {self.local_ip}
bridge_mappings = {PHYSNET}:{PROVIDER}
arp_responder = {flavour.population}
ovsdb_connection = {self.host.ovs.remote}
ovsdb_timeout = 5
{switch}
[file]
path = {self.topology.path}
status_path = {self.directory}/{said}
poll = 0.05
settle = 0
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
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)
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
        """What a monitor reads; empty when there is nothing to read."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the agent of {self.name} ended: {self.last_words()}")
        try:
            found: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def last_words(self) -> str:
        said = (self.directory / "stderr").read_text()[-2000:]
        return said + (self.log.read_text()[-6000:] if self.log.exists() else "")

    def said(self, port: Port) -> dict[str, Any]:
        """What it reported of a port, as the source wrote it down."""
        path = self.directory / f"said.{self.name}.l2.json"
        resources = json.loads(path.read_text())["resources"] if path.exists() else []
        found = (each for each in resources if each["id"] == port.id)
        return next(found, {})

    def await_ready(self) -> None:
        wait_until(lambda: self.status().get("ready"), lambda: (self.status(), self.last_words()))

    # What the host is like.

    def differences(self) -> list[str]:
        """What a fresh agent would change here, wait for or refuse; nothing: all is as wanted."""
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
        wait_until(lambda: not self.differences(), lambda: (self.differences(), self.last_words()))
        self.await_ready()

    def vsctl(self, *arguments: str) -> str:
        return self.host.ovs.vsctl(*arguments).strip()

    def ofctl(self, *arguments: str) -> str:
        return self.host.ovs.ofctl("-O", "OpenFlow13", *arguments)

    def tag(self, port: Port) -> str:
        return self.vsctl("get", "Port", port.device, "tag")

    def flows(self) -> dict[str, float]:
        """All flows of the agent's bridges that nobody learnt, with their age in seconds."""
        found = {}
        for bridge in ("br-int", "br-tun", PROVIDER):
            for line in self.ofctl("dump-flows", bridge).splitlines():
                age = re.search(r"duration=([\d.]+)s, ", line)
                if age is not None and "hard_timeout" not in line:
                    text = re.sub(
                        r"(duration|n_packets|n_bytes|\w*idle_age|hard_age)=\S+ ?", "", line
                    )
                    found[f"{bridge} {text.strip()}"] = float(age[1])
        return found

    def rows(self) -> dict[str, str]:
        """Ports of all bridges, with what the agent decides of them."""
        shown = self.vsctl(
            "--format=json", "--columns=name,tag,trunks,other_config", "list", "Port"
        )
        return {row[0]: json.dumps(row) for row in json.loads(shown)["data"]}


class Site:
    """Hosts ``host1``, ``host2``, ... with agents, and the file that they share."""

    def __init__(self, lab: Lab, directory: Path, flavour: Flavour, agents: int) -> None:
        self.lab, self.flavour = lab, flavour
        hosts = list(lab.hosts.values())
        self.topology = Topology(directory / "topology.json", {})
        self.topology.devices = "qvo" if flavour.hybrid else "tap"
        self.hosts: dict[str, AgentHost] = {}
        for host in hosts[:agents]:
            for bridge, nic in ((PROVIDER, PHYSNET),):
                host.ovs.add_bridge(bridge)
                host.ovs.vsctl("add-port", bridge, nic)
                host.place.ip(f"link set {nic} up")
            agent = AgentHost(host, self.topology, flavour)
            self.hosts[host.name] = agent
            self.topology.hosts[host.name] = {
                "local_ip": agent.local_ip,
                "tunnel_types": list(TUNNELS),
                "bridge_mappings": {PHYSNET: PROVIDER},
            }
        self.topology.write()

    def __getitem__(self, name: str) -> AgentHost:
        return self.hosts[name]

    def start(self) -> None:
        for host in self.hosts.values():
            host.start()
        for host in self.hosts.values():
            host.await_ready()

    # What is wanted, and what is plugged.

    def network(self, kind: str, **provider: Any) -> Net:
        if kind in ("flat", "vlan"):
            provider.setdefault("physical_network", PHYSNET)
        return self.topology.network(kind, **provider)

    def port(self, net: Net, host: str, **more: Any) -> Port:
        return self.topology.port(net, host, **more)

    def plug(
        self,
        port: Port,
        *,
        host: str | None = None,
        mtu: int | None = None,
        unknown: bool = False,
    ) -> Instance:
        """An instance for *port*, as a hypervisor starts it; on its host unless told otherwise.

        Nobody knows of one that is *unknown* whose it is.
        """
        on = self.hosts[host or port.host].host
        instance = on.instance(
            f"vm{port.number}{'-' + host if host else ''}",
            Plug(
                bridge="br-int",
                device=port.device,
                kind=Device.HYBRID if self.flavour.hybrid else Device.VETH,
                mac=port.mac,
                addresses=(f"{port.v4}/16", f"{port.v6}/64"),
                mtu=mtu or self.topology.mtu(port.net),
                external_ids={
                    "attached-mac": port.mac, "iface-status": "active",
                    **({} if unknown else {"iface-id": port.id}),
                },
            ),
        )  # fmt: skip
        # The host's end of the pair is no neighbour of anybody; hypervisors see to that as well.
        on.call(Path(f"/proc/sys/net/ipv6/conf/{port.device}/disable_ipv6").write_text, "1")
        return instance

    def plug_mute(self, ports: Sequence[Port]) -> None:
        """Devices without an instance, all of one host at once."""
        words: list[str] = []
        for port in ports:
            words += [
                "--", "add-port", "br-int", port.device,
                "--", "set", "Interface", port.device, "type=internal",
                f"external_ids:iface-id={port.id}",
                f'external_ids:attached-mac="{port.mac}"', "external_ids:iface-status=active",
            ]  # fmt: skip
        for host in {port.host for port in ports}:
            self.hosts[host].vsctl(*words[1:])

    def unplug(self, *ports: Port, host: str | None = None) -> None:
        """Take devices away, as a hypervisor does when an instance ends."""
        for name in {host or port.host for port in ports}:
            here = [port for port in ports if (host or port.host) == name]
            words = [
                word for port in here for word in ("--", "--if-exists", "del-port", port.device)
            ]
            self.hosts[name].vsctl(*words[1:])
            for port in here:
                self.hosts[name].host.attempt(["ip", "link", "del", port.device])

    def couple(self, kind: str, first: str, second: str, **provider: Any) -> Couple:
        """Two instances on a new network, on these hosts; wired once ``settle`` returns."""
        net = self.network(kind, **provider)
        ports = self.port(net, first), self.port(net, second)
        self.topology.write()
        return Couple(self, ports, (self.plug(ports[0]), self.plug(ports[1])))

    def settle(self) -> None:
        """Write the file, and wait until all hosts are so."""
        self.topology.write()
        for host in self.hosts.values():
            host.await_settled()

    @contextmanager
    def tidy(self) -> Iterator[None]:
        """Take away what the block made, and see that the agents leave nothing of it behind."""
        nets, ports = list(self.topology.nets), list(self.topology.ports)
        groups = dict(self.topology.groups)
        before = {name: (host.flows().keys(), host.rows()) for name, host in self.hosts.items()}
        yield
        self.unplug_all(keep=ports)
        self.topology.nets, self.topology.ports = nets, ports
        self.topology.groups = groups
        self.settle()
        for name, host in self.hosts.items():
            assert (host.flows().keys(), host.rows()) == before[name]

    def unplug_all(self, keep: Sequence[Port] = ()) -> None:
        kept = {port.device for port in keep}
        for host in self.hosts.values():
            there = host.vsctl("list-ports", "br-int").split()
            gone = [name for name in there if name.startswith(("tap", "qvo")) and name not in kept]
            for at in range(0, len(gone), 10):
                words = [word for name in gone[at : at + 10] for word in ("--", "del-port", name)]
                host.vsctl(*words[1:])
            for name in gone:
                host.host.attempt(["ip", "link", "del", name])


@frozen
class Couple:
    """Two instances that should reach each other."""

    site: Site
    ports: tuple[Port, Port]
    instances: tuple[Instance, Instance]

    @property
    def net(self) -> Net:
        return self.ports[0].net

    def reach(self, version: int = 4, count: int = 3, timeout: float = 2) -> bool:
        """Whether every one of some pings came back, both ways."""
        one, two = self.ports
        there, back = (two.v4, one.v4) if version == 4 else (two.v6, one.v6)
        return all(
            not instance.ping(address, count, timeout=timeout).lost
            for instance, address in zip(self.instances, (there, back), strict=True)
        )

    def await_reach(self) -> None:
        """The first packet on a path may be lost to a neighbour that is still looked for."""
        for version in (4, 6):
            wait_until(lambda version=version: self.reach(version, timeout=SOON), self._underlay)

    def _underlay(self) -> str:
        """What the switches of both ends know of the way between them."""
        asked = ("tnl/neigh/show", "tnl/ports/show -v", "ovs/route/show", "dpctl/dump-flows")
        hosts = {port.host: self.site[port.host].host.ovs for port in self.ports}
        return "\n".join(
            f"{name} {ask}: {ovs.appctl(*ask.split())}"
            for name, ovs in hosts.items()
            for ask in asked
        )
