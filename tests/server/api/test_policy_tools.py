"""The command-line tools of oslo.policy, with the rules of this server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / tool, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    """Return a configuration whose policy file overrides one rule."""
    policy, conf = tmp_path / "policy.yaml", tmp_path / "netfw.conf"
    policy.write_text('"create_network": "!"\n')
    conf.write_text(f"[policy]\nfile = {policy}\n")
    return conf


@pytest.mark.spec("API-09")
def test_a_sample_has_every_rule() -> None:
    shown = run("oslopolicy-sample-generator", "--namespace", "netfw")
    assert shown.returncode == 0, shown.stderr
    assert "Could not load" not in shown.stderr
    for rule in ("create_network:shared", "update_quota", "add_router_interface"):
        assert f'#"{rule}"' in shown.stdout


@pytest.mark.nightly
@pytest.mark.spec("API-09")
def test_rules_are_checked_with_their_overrides(configured: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.yaml"
    ended = run(
        "oslopolicy-policy-generator", "--namespace", "netfw",
        "--config-file", str(configured), "--output-file", str(merged),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    access, target = tmp_path / "access.json", tmp_path / "target.json"
    token = {"roles": [{"name": "member"}], "user": {"id": "u"}, "project": {"id": "p"}}
    access.write_text(json.dumps({"token": token}))
    target.write_text(json.dumps({"project_id": "p", "device_owner": "network:dhcp"}))
    for rule, outcome in (
        ("create_network", "failed"),
        ("update_network", "passed"),
        ("network_device", "passed"),
        ("create_port:device_owner", "failed"),
    ):
        checked = run(
            "oslopolicy-checker", "--policy", str(merged), "--access", str(access),
            "--target", str(target), "--rule", rule,
        )  # fmt: skip
        assert checked.stdout.strip() == f"{outcome}: {rule}", checked.stderr


@pytest.mark.spec("API-09")
def test_a_policy_file_is_validated(configured: Path, tmp_path: Path) -> None:
    validate = ("oslopolicy-validator", "--namespace", "netfw", "--config-file", str(configured))
    assert run(*validate).returncode == 0
    (tmp_path / "policy.yaml").write_text('"create_network": "role:admin or or"\n')
    assert run(*validate).returncode == 1
