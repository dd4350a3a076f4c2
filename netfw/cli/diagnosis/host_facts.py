"""Reads what the checks of a host need: kernel, switch, programs, limits and configurations."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from netfw.cli.agents.component_factory import AGENTS
from netfw.cli.diagnosis.host_checks import HostFacts, RequiredProgram
from netfw.errors import BackendUnavailable, NetfwError
from netfw.linux import clock_sync
from netfw.linux.fs.permissions import exposure_problem
from netfw.linux.ip.ipv6 import why_no_ipv6_here
from netfw.linux.process.command import run_command, why_missing
from netfw.ovs.control_socket import ControlSocket
from netfw.ovs.openflow.megaflows import can_outlive_flows

PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "ip": (("-V",), "looking at hosts by hand"),
    "iptables": (("--version",), "routers, and firewalls of Linux bridges"),
    "ip6tables": (("--version",), "IPv6 of routers, and of firewalls of Linux bridges"),
    "ipset": (("--version",), "security groups by iptables"),
    "nft": (("--version",), "looking at rules by hand"),
    "conntrack": (("--version",), "looking at connections by hand"),
    "dnsmasq": (("--version",), "DHCP"),
    "keepalived": (("--version",), "highly available routers"),
    "conntrackd": (("-v",), "connections of highly available routers"),
    "haproxy": (("-v",), "metadata proxies"),
    "radvd": (("--version",), "router advertisements"),
    "dhclient": (("--version",), "prefix delegation"),
}
"""Programs that drivers run, how each prints its version, and what it is for."""
_ETC: Final = Path("/etc/netfw")
_FILES: Final = {"l2": "ovs-agent.conf", "l3": "l3-agent.conf", "dhcp": "dhcp-agent.conf"}
_CONNTRACK = Path("/proc/sys/net/netfilter")


def read_host(switch: Path, state_path: Path, agents: Mapping[str, Sequence[str]]) -> HostFacts:
    """Read everything from this host; changes nothing.

    :param switch: the directory of the sockets of the switch.
    :param agents: the arguments with the files of each agent.
    """
    version, datapaths, problem = _read_switch(switch)
    return HostFacts(
        kernel=os.uname().release,
        capabilities=_capabilities(),
        switch=version,
        datapaths=datapaths,
        switch_problem=problem,
        megaflows_outlive=not problem and can_outlive_flows(version, datapaths),
        programs={name: _program(name) for name in PROGRAMS},
        has_netns=Path("/proc/self/ns/net").exists(),
        has_ipv6=why_no_ipv6_here() is None,
        conntrack=_conntrack(),
        files=resource.getrlimit(resource.RLIMIT_NOFILE),
        clock=clock_sync.read_clock_state(),
        directories={str(state_path): _directory_problem(state_path)},
        free_bytes=_free_bytes(state_path),
        configurations={agent: _problems(agent, files) for agent, files in agents.items()},
    )


def found_configurations() -> dict[str, list[str]]:
    """Return the files of agents in ``/etc/netfw``, as arguments."""
    return {
        agent: ["--config-file", str(_ETC / name)]
        for agent, name in _FILES.items()
        if (_ETC / name).exists()
    }


def _read_switch(directory: Path) -> tuple[str, str, str]:
    control = ControlSocket(directory)
    try:
        return control.command("version").strip(), control.command("dpctl/dump-dps"), ""
    except BackendUnavailable as exc:
        return "", "", f"ovs-vswitchd does not answer: {exc}"


def _capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))


def _program(name: str) -> RequiredProgram:
    arguments, purpose = PROGRAMS[name]
    if problem := why_missing(name):
        return RequiredProgram(problem=problem, needed_for=purpose)
    try:
        done = run_command([name, *arguments], timeout=10.0)
    except NetfwError as exc:
        return RequiredProgram(problem=str(exc), needed_for=purpose)
    lines = (done.output + done.errors).strip().splitlines()
    return RequiredProgram(
        version=lines[0][:200] if lines else "it prints no version", needed_for=purpose
    )


def _conntrack() -> tuple[int, int] | None:
    try:
        entries = int((_CONNTRACK / "nf_conntrack_count").read_text())
        return entries, int((_CONNTRACK / "nf_conntrack_max").read_text())
    except (OSError, ValueError):
        return None


def _directory_problem(path: Path) -> str:
    if problem := exposure_problem(path):
        return problem
    found = next(each for each in (path, *path.parents) if each.exists())
    if not found.is_dir():
        return f"{found} is no directory: remove it, or name another state_path"
    if not os.access(found, os.W_OK | os.X_OK):
        return f"{found} cannot be written by this user: run as root, or name another state_path"
    return ""


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(next(each for each in (path, *path.parents) if each.exists())).free


def _problems(agent: str, files: Sequence[str]) -> tuple[str, ...]:
    """Return what this host lacks for the drivers that the files of an agent choose."""
    try:
        with AGENTS[agent](files) as parts:
            return tuple(
                f"{driver.describe().name}: {problem}"
                for driver in parts.drivers
                for problem in driver.problems()
            )
    except NetfwError as exc:
        return (str(exc),)
    except Exception as exc:  # noqa: BLE001 - one bad driver does not hide the other checks
        return (f"a defect of a driver: {type(exc).__name__}: {exc}",)
