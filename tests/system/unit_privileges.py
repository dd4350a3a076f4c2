"""Agents with the privileges of their systemd units: capabilities, and no new privileges."""

from __future__ import annotations

import configparser
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from netfw.testing.lab.host import Host
from tests import ROOT

UNITS: Final = ROOT / "packaging" / "systemd"
PROGRAMS: Final = {"l2": "ovs", "dhcp": "dhcp", "l3": "l3", "metadata": "metadata"}
"""Modules of agents, and the word in the names of their units."""


def service_section(program: str) -> configparser.SectionProxy:
    """Return the section ``Service`` of a unit; of options that occur twice the last one."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / f"{program}.service")
    return parser["Service"]


def capabilities(program: str) -> frozenset[str]:
    """Return the capabilities of a unit, as setpriv names them."""
    words = service_section(program)["CapabilityBoundingSet"].split()
    return frozenset(word.removeprefix("CAP_").lower() for word in words)


def confine(argv: Sequence[str], granted: frozenset[str]) -> list[str]:
    """Return the command that runs *argv* with the capabilities *granted* at most."""
    bounds = ",".join(["-all", *(f"+{name}" for name in sorted(granted))])
    return ["setpriv", "--bounding-set", bounds, "--inh-caps", "-all", "--no-new-privs", *argv]


def program_of(argv: Sequence[str]) -> str | None:
    """Return the program of a command, if it is an agent: a console script or its module."""
    for word in map(str, argv):
        module = word.removeprefix("netfw.cli.agents.")
        if module != word and module in PROGRAMS:
            return f"netfw-{PROGRAMS[module]}-agent"
        if (UNITS / f"{Path(word).name}.service").exists():
            return Path(word).name
    return None


def confine_agents(patch: pytest.MonkeyPatch, without: frozenset[str] = frozenset()) -> None:
    """Have every agent of a lab started with the privileges of its unit, less *without*."""
    start = Host.spawn

    def spawn(host: Host, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        if (program := program_of(argv)) is not None:
            argv = confine(argv, capabilities(program) - without)
        return start(host, argv, **options)

    patch.setattr(Host, "spawn", spawn)


def bounding_set(pid: int) -> int:
    """Return the capability bounding set of a process, as a bit mask."""
    text = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("CapBnd:"))
    return int(line.split()[1], 16)


WITHOUT: Final = frozenset(os.environ.get("NETFW_WITHOUT_CAPABILITIES", "").split())
"""Capabilities that are taken away from agents as well, to see which are needed."""
