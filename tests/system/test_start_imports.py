"""Modules that programs do not import at their start: each costs every start its CPU.

A fresh interpreter reads the options of a program, which loads the drivers that are the default.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SERVER_SIDE = {"netfw.server", "sqlalchemy", "alembic", "oslo_policy", "orjson", "psycopg"}
OTHERS = {"pyroute2", "eventlet", "oslo_messaging", "requests", "keystoneauth1", "rich", "pytest"}
FLOWS = {"os_ken", "netfw.flows"}
YAML, HTTP, SWITCH = {"yaml"}, {"cheroot"}, {"ovs", "ovsdbapp"}

PROGRAM = """
import importlib, sys
module, function, *argv = sys.argv[1:]
getattr(importlib.import_module(module), function)(argv)
print(*sys.modules)
"""


def imported(module: str, function: str, conf: Path) -> set[str]:
    argv = [sys.executable, "-c", PROGRAM, module, function, "--config-file", str(conf)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.real
@pytest.mark.parametrize(
    ("program", "function", "unwanted"),
    [
        ("l2", "l2_groups", YAML | HTTP | SWITCH),
        ("dhcp", "dhcp_groups", FLOWS | YAML | HTTP | SWITCH),
        ("l3", "l3_groups", FLOWS | YAML | HTTP | SWITCH),
        ("metadata_components", "metadata_groups", FLOWS | YAML),
    ],
)
def test_an_agent_imports_nothing_that_it_does_not_use(
    tmp_path: Path, program: str, function: str, unwanted: set[str]
) -> None:
    conf = tmp_path / "agent.conf"
    conf.write_text(f"[file]\npath = {tmp_path}/topology.json\n")
    modules = imported(f"netfw.cli.agents.{program}", function, conf)
    assert not modules & (unwanted | SERVER_SIDE | OTHERS)


def test_the_command_line_imports_the_parts_of_its_command_alone() -> None:
    code = "import sys, netfw.cli.commands.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    unwanted = {"netfw.agents", "netfw.testing.conformance"} | YAML | HTTP | SWITCH | FLOWS
    assert not set(done.stdout.split()) & (unwanted | SERVER_SIDE | OTHERS)


def test_the_server_imports_no_client_of_other_services() -> None:
    code = (
        "import sys, netfw.cli.server.components, netfw.cli.server.listeners; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not set(done.stdout.split()) & (OTHERS | SWITCH | FLOWS | {"alembic", "psycopg"})
