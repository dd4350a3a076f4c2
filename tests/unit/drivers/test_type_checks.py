"""What a type checker refuses in code that uses the contracts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow

CACHE = ROOT / ".mypy_cache/snippets"
"""Kept: without it mypy reads the standard library and the contracts again, two seconds."""
PRELUDE = """
from uuid import uuid4
from netfw.drivers.base import DriverInfo
from netfw.drivers.dhcp import DhcpCapability, DhcpEntry
from netfw.drivers.firewall import FirewallEntry, Rules
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.values.keys import GroupKey, NetworkKey, PortKey
from netfw.drivers.switch import SwitchCapability
from netfw.drivers.values.switch_values import Endpoint, Flood, FloodKey, SwitchEntry, SwitchKey
from netfw.drivers.values.switch_values import SwitchValue, Tunnel
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId
from netfw.plan import Update

port, network = PortKey(PortId(uuid4())), NetworkKey(NetworkId(uuid4()))
group = GroupKey(SecurityGroupId(uuid4()))
"""
ACCEPTED = """
def peers(endpoint: Endpoint, key: FloodKey) -> Update[SwitchKey, SwitchValue]:
    entries: list[SwitchEntry] = [(endpoint, Tunnel("h"))]
    entries.append((key, Flood()))
    return Update(put=dict(entries))

def describe() -> DriverInfo[HostCapability | SwitchCapability]:
    return DriverInfo("x", {HostCapability.PLAN, SwitchCapability.FLOWS})
"""
REFUSED = """
wrong: SwitchEntry = (port, Tunnel("h"))
policy: list[FirewallEntry] = [(port, Rules())]
served: DhcpEntry = (network, Rules())

def describe_foreign() -> DriverInfo[HostCapability | DhcpCapability]:
    return DriverInfo("x", {SwitchCapability.FLOWS})
"""


@pytest.fixture(scope="module")
def mypy(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the lines of the snippets that mypy refuses, in one run."""
    path = tmp_path_factory.mktemp("snippet") / "snippet.py"
    path.write_text(PRELUDE + ACCEPTED + REFUSED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "", "--follow-imports", "silent",
         "--ignore-missing-imports", "--strict", "--cache-dir", str(CACHE), str(path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    source = path.read_text().splitlines()
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    return [source[int(Path(line).name.split(":")[1]) - 1].strip() for line in errors]


@pytest.mark.real
def test_value_of_another_key_and_capability_of_another_contract_are_type_errors(
    mypy: list[str],
) -> None:
    assert mypy == [
        'wrong: SwitchEntry = (port, Tunnel("h"))',
        "policy: list[FirewallEntry] = [(port, Rules())]",
        "served: DhcpEntry = (network, Rules())",
        'return DriverInfo("x", {SwitchCapability.FLOWS})',
    ]
