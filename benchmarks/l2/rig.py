"""A host with the L2 agent, many ports, and the same work done by the raw tools.

Ports are internal ones, plugged by one ``ovs-vsctl`` as a hypervisor would.  The agent is the real
process on a topology file.  Byte code is cached, in a place of its own: an installed program has
been compiled once, too, whatever the environment of this run says.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from benchmarks.process_usage import process_cpu, resident
from netfw.testing.lab import sandbox
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until

WITNESSES = (60_001, 60_002)
"""Ports that are wired before anything is measured, and ping each other meanwhile."""
_PASS = re.compile(r" pass \d+: (.*)")
_COUNT = re.compile(r"(\d+) (added|updated|removed|failed)")
_STATISTICS = re.compile(r"(duration|n_packets|n_bytes|idle_age|hard_age)=[\d.]+s?, ")
_AT_ONCE = 10
_FIRST = -15
_RARELY = "stats-update-interval=3600000"
_GROUP = {
    "name": "group",
    "rules": [
        {"direction": "egress", "ethertype": "IPv4"},
        {"direction": "egress", "ethertype": "IPv6"},
        {"direction": "ingress", "ethertype": "IPv4", "remote_group": "group"},
        {"direction": "ingress", "ethertype": "IPv6", "remote_group": "group"},
    ],
}
_WRITTEN = ("name", "tag", "vlan_mode", "trunks", "other_config", "external_ids")


def port_id(number: int) -> str:
    return str(UUID(int=number << 96))


def mac(number: int) -> str:
    return f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}"


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def device(number: int) -> str:
    return f"tap{number}"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def environment() -> dict[str, str]:
    """Return the environment of an installed program: byte code is compiled once."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPYCACHEPREFIX": "/run/netfw-bench-bytecode"}


class Rig:
    """One host, its topology and its agent."""

    def __init__(self, host: Host, *, poll: float = 0.5, firewall: str = "") -> None:
        self.host = host
        self.groups = [_GROUP] if firewall else []
        self.directory = host.directory / "bench"
        self.directory.mkdir()
        self.topology = self.directory / "topology.json"
        self.log = self.directory / "agent.log"
        self.status_file = self.directory / "status.json"
        self.conf = self.directory / "agent.conf"
        self.conf.write_text(
            f"[DEFAULT]\nhost = {host.name}\nlog_file = {self.log}\n"
            f"[agent]\nstatus_file = {self.status_file}\nfirewall_driver = {firewall}\n"
            f"[file]\npath = {self.topology}\nstatus_path = {self.directory}/said\n"
            f"poll = {poll}\nsettle = 0\n"
            f"[openvswitch]\ndatapath_type = netdev\novsdb_connection = {host.ovs.remote}\n"
            f"tunnel_types = vxlan\nlocal_ip = {host.address.ip}\novsdb_timeout = 60\n"
        )
        self.process: Any = None

    # What is wanted

    def want(self, numbers: Iterable[int]) -> None:
        """State these ports, and the witnesses; returns when the agent has taken it in."""
        start = self.mark() if self.log.exists() else 0
        self.state(numbers)
        wait_until(lambda: "source: " in self.log.read_text()[start:], "the agent reading it")
        time.sleep(1)  # what it has to say of them is said

    def state(self, numbers: Iterable[int]) -> None:
        """Write the topology with these ports, and the witnesses; nobody sees half of it."""
        content = {
            "hosts": {self.host.name: {"local_ip": str(self.host.address.ip)}},
            "networks": [{"name": "net", "network_type": "vxlan", "segmentation_id": 7}],
            "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/8"}],
            "security_groups": self.groups,
            "ports": [self._port(number) for number in (*WITNESSES, *numbers)],
        }
        temporary = self.topology.with_suffix(".new")
        temporary.write_text(json.dumps(content))
        temporary.rename(self.topology)

    def _port(self, number: int) -> dict[str, Any]:
        return {
            "name": f"port{number}",
            "id": port_id(number),
            "network": "net",
            "host": self.host.name,
            "mac_address": mac(number),
            "fixed_ips": [address(number)],
            "security_groups": [group["name"] for group in self.groups],
        }

    # The agent

    @property
    def argv(self) -> list[str]:
        return [sys.executable, "-m", "netfw.cli.agents.l2", "--config-file", str(self.conf)]

    def start(self) -> float:
        """Start the agent; seconds until it is ready."""
        self.status_file.unlink(missing_ok=True)
        start = time.perf_counter()
        self.process = self.host.spawn(self.argv, env=environment())
        wait_until(
            lambda: self.status().get("ready"),
            lambda: f"{self.status()}\n{self.log.read_text()[-3000:]}",
            pause=0.002,
        )
        return time.perf_counter() - start

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def status(self) -> dict[str, Any]:
        if self.process.poll() is not None:
            raise RuntimeError(f"the agent ended:\n{self.log.read_text()[-3000:]}")
        try:
            found: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return {}
        return found

    def passed(self, start: int) -> tuple[int, ...]:
        """Return how many ports passes added, updated and removed, by the log from *start* on."""
        with self.log.open() as log:
            log.seek(start)
            passes = _PASS.findall(log.read())
        found: Counter[str] = Counter()
        for number, name in (count for line in passes for count in _COUNT.findall(line)):
            found[name] += int(number)
        if found["failed"]:
            raise RuntimeError(f"ports failed:\n{self.log.read_text()[-3000:]}")
        return found["added"], found["updated"], found["removed"]

    def down(self) -> int:
        """Return how many ports the agent has reported as down."""
        path = self.directory / f"said.{self.host.name}.l2.json"
        return path.read_text().count('"status": "DOWN"')

    def mark(self) -> int:
        """Return the position where the log ends now."""
        return self.log.stat().st_size

    def cpu(self) -> float:
        """Return the seconds of CPU that the agent has used."""
        return process_cpu(self.process.pid)

    def resident(self) -> float:
        """Return the megabytes of memory that the agent holds."""
        return resident(self.process.pid)

    # What a hypervisor does

    def plug(self, numbers: Iterable[int], rows: Mapping[str, Sequence[str]] | None = None) -> None:
        """Plug them all by one ``ovs-vsctl``, with columns of the port as in *rows*."""
        words: list[str] = []
        for number in numbers:
            settings = rows[device(number)] if rows else ()
            words += ["--", "add-port", "br-int", device(number), *settings]
            words += ["--", "set", "Interface", device(number), "type=internal"]
            words += [f"external_ids:iface-id={port_id(number)}"]
            words += [f'external_ids:attached-mac="{mac(number)}"']
        self.host.ovs.vsctl(*words[1:])

    def unplug(self, numbers: Iterable[int], at_once: int = _AT_ONCE) -> None:
        """Unplug them by tens: in one go the switch itself would stop for seconds."""
        names = [device(number) for number in numbers]
        for start in range(0, len(names), at_once):
            words: list[str] = []
            for name in names[start : start + at_once]:
                words += ["--", "del-port", "br-int", name]
            self.host.ovs.vsctl(*words[1:])

    def witnesses(self) -> tuple[Instance, str]:
        """Return an instance, and the address of another one to ping."""
        made = [
            self.host.instance(
                f"vm{number}",
                Plug(
                    bridge="br-int",
                    device=device(number),
                    mac=mac(number),
                    addresses=(f"{address(number)}/8",),
                    mtu=1450,
                    external_ids={"iface-id": port_id(number), "attached-mac": mac(number)},
                ),
            )
            for number in WITNESSES
        ]
        return made[0], address(WITNESSES[1])

    def prefer_switch(self) -> None:
        """Have this process and the switch go before others on the machine, where that is allowed.

        How long the switch is busy with the agent's work is what round trips are to show, and not
        who else is.  Nor what it does every five seconds by itself: look at the counters of all
        ports, which takes it long enough with a thousand.
        """
        self.host.ovs.vsctl("set", "Open_vSwitch", ".", f"other_config:{_RARELY}")
        pid = (self.host.ovs.directory / "ovs-vswitchd.pid").read_text().strip()
        threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
        with contextlib.suppress(PermissionError):
            for thread in (*threads, 0):
                os.setpriority(os.PRIO_PROCESS, thread, _FIRST)

    # What the switch holds

    def rows(self) -> dict[str, list[str]]:
        """Return what the agent has written to each port, as ``ovs-vsctl`` takes it."""
        listed = json.loads(
            self.host.ovs.vsctl("--format=json", f"--columns={','.join(_WRITTEN)}", "list", "Port")
        )
        named = listed["headings"].index("name")
        return {
            row[named]: list(_settings(dict(zip(listed["headings"], row, strict=True))))
            for row in listed["data"]
        }

    def flows(self) -> set[str]:
        """Return the flows of both bridges, each with its bridge, without statistics."""
        return {
            f"{bridge} {line.strip()}"
            for bridge in ("br-int", "br-tun")
            for line in self._dump(bridge, "--no-stats", "--no-names").splitlines()
            if "actions=" in line
        }

    def since(self) -> dict[str, float]:
        """Return when each flow was made or last changed, by the machine's clock."""
        found = {}
        for bridge in ("br-int", "br-tun"):
            now = time.time()
            for line in self._dump(bridge, "--no-names").splitlines():
                age = re.search(r"duration=([\d.]+)s, ", line)
                if age:
                    found[f"{bridge} {_STATISTICS.sub('', line)}"] = now - float(age[1])
        return found

    def _dump(self, bridge: str, *options: str) -> str:
        ovs = self.host.ovs
        return ovs.ofctl("-O", "OpenFlow13", *options, "dump-flows", ovs.management(bridge))


def _settings(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a port as words; sets and maps are ``["set", ..]``, ``["map", ..]``."""
    for column, value in row.items():
        match value:
            case ["set", []] | ["map", []]:
                continue
            case ["set", members]:
                yield f"{column}={','.join(map(str, members))}"
            case ["map", pairs]:
                yield from (f"{column}:{key}={json.dumps(text)}" for key, text in pairs)
            case _ if column != "name":
                yield f"{column}={value}"


@contextmanager
def rig(**settings: Any) -> Iterator[tuple[Rig, Instance, str]]:
    """Yield a host whose agent is ready, a wired instance that pings, and its target."""
    with Lab(hosts=1, bridges=["br-int"]) as lab:
        (host,) = lab.hosts.values()
        found = Rig(host, **settings)
        found.state(())
        instance, target = found.witnesses()
        found.start()
        wait_until(lambda: not instance.ping(target, count=1, timeout=0.2).lost, "the first ping")
        try:
            yield found, instance, target
        finally:
            if found.process.poll() is None:
                found.stop()


def run_alone(module: str, figures: Callable[[], Iterable[Any]]) -> None:
    """Print the figures of one file, in a sandbox."""
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", module, *sys.argv[1:]])
    for figure in figures():
        print(figure.line(), flush=True)
