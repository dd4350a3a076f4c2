"""An agent that is configured for a package that is not installed says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
missing = sys.argv.pop(1)
sys.modules[missing] = None
from netfw.cli.agents.metadata import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.spec("DRV-43")
@pytest.mark.parametrize(
    ("missing", "group", "line", "extra"),
    [
        ("prometheus_client", "agent", "metrics_bind = 127.0.0.1:0", "metrics"),
        ("prometheus_client", "agent", "metrics_file = agent.prom", "metrics"),
        ("opentelemetry", "tracing", "otlp_endpoint = http://127.0.0.1:1/v1/traces", "otel"),
    ],
)
def test_missing_package_is_named_with_the_option(
    tmp_path: Path, missing: str, group: str, line: str, extra: str
) -> None:
    conf = tmp_path / "agent.conf"
    topology = tmp_path / "topology.yaml"
    topology.write_text("networks: []\n")
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[{group}]\n{line}\n"
        f"[file]\npath = {topology}\n"
        f"[metadata]\nmetadata_proxy_socket = {tmp_path}/proxy.sock\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, missing, "--config-file", str(conf)],
        capture_output=True,
        text=True,
        check=False,
    )
    option = line.partition(" ")[0]
    assert done.returncode == 2, done.stderr
    assert f"[{group}] {option}: pip install 'netfw[{extra}]'" in done.stderr
