"""Programs on a machine that has no thread left: a line that says so, and a status to restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from netfw.cli.runtime.prefork import VARIABLE
from tests import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

CODE = """
import importlib, sys
from tests.thread_limit import refused_threads

module, name, file = sys.argv[1:]
with refused_threads(lambda thread: thread.name.startswith(name)):
    sys.exit(importlib.import_module(module).main(["--config-file", file]))
"""
OPTIONS = """
[DEFAULT]
state_path = {directory}
host = host1
log_level = error
[file]
path = {directory}/topology.yaml
[api]
socket = {directory}/api.sock
"""
SERVER = "netfw.cli.server.main"
WORKER = {"number": 1, "sockets": {}, "options": {}, "lifeline": 0, "signs": 0, "watchdog": None}


@pytest.mark.parametrize(
    ("module", "thread"),
    [
        ("netfw.cli.agents.dhcp", "signals"),
        ("netfw.cli.agents.metadata", "stop"),
        (SERVER, "lifeline"),
        (SERVER, "silence"),
        (SERVER, "CP Server"),
        (SERVER, "watchdog"),
    ],
)
def test_program_that_gets_no_thread_ends_with_one_line(
    module: str, thread: str, tmp_path: Path
) -> None:
    file = tmp_path / "netfw.conf"
    file.write_text(OPTIONS.format(directory=tmp_path))
    environment = {**os.environ, "WATCHDOG_USEC": "9000000", "NOTIFY_SOCKET": "/nowhere"}
    if thread == "lifeline":
        environment[VARIABLE] = json.dumps(WORKER)
    done = subprocess.run(
        [sys.executable, "-c", CODE, module, thread, str(file)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "can't start new thread" in done.stderr
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
