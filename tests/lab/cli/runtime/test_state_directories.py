"""Directories of state that other users may change: from the user of one daemon to root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netfw.linux.fs.permissions import exposure_problem

ONE_USER = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
OTHER = 54321


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user")
@pytest.mark.parametrize("module", ["agents.dhcp", "agents.l2", "agents.metadata", "server.main"])
def test_state_path_of_another_user_is_refused_by_root(tmp_path: Path, module: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, OTHER, OTHER)
    conf = tmp_path / "netfw.conf"
    source = "[agent]\nstate_source = server\n" if module.startswith("agents") else ""
    conf.write_text(f"[DEFAULT]\nstate_path = {state}\n{source}")
    done = subprocess.run(
        [sys.executable, "-m", f"netfw.cli.{module}", "--config-file", str(conf)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stderr
    assert f"state_path: {state} belongs to user {OTHER}" in done.stderr
    assert f"chown root:root {state}" in done.stderr
    assert list(state.iterdir()) == []


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user")
@pytest.mark.parametrize("is_absolute", [True, False])
def test_links_by_a_directory_of_another_user_are_refused(
    tmp_path: Path, is_absolute: bool
) -> None:
    other, state, real = (tmp_path / name for name in ("other", "state", "real"))
    other.mkdir()
    real.mkdir()
    (other / "link").symlink_to(real if is_absolute else "../real")
    state.symlink_to(other / "link" if is_absolute else "other/link")
    assert exposure_problem(state) is None
    assert exposure_problem(state / "dhcp" / "absent") is None
    os.chown(other, OTHER, OTHER)
    for path in (state, state / "dhcp", state / "dhcp" / "absent"):
        assert f"{other} belongs to user {OTHER}" in str(exposure_problem(path))
    assert exposure_problem(real) is None


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert exposure_problem(tmp_path / "one" / "state") is None
