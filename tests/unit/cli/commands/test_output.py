"""Standard output of ``netfw`` that is closed, full, or has few characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "netfw.cli.commands.main"]


@pytest.mark.parametrize("words", [["--help"], ["status", "--help"], ["completion", "bash"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reader_that_has_gone_ends_a_command_silently(words: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(
        [*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_is_full_is_an_error_in_one_line(unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*COMMAND, "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    reason = b"netfw: the output is incomplete: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, reason)


def test_command_without_standard_output_has_its_status(tmp_path: Path) -> None:
    missing = tmp_path / "status.json"
    shell = ["sh", "-c", '"$@" >&-', "sh"]
    ended = subprocess.run(
        [*shell, *COMMAND, "status", "--status-file", str(missing)],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (3, b"")


def test_characters_that_the_output_lacks_are_escaped(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, "status", "--status-file", str(tmp_path / "käse.json")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert ended.returncode == 3
    assert b"k\\xe4se.json: there is no such file" in ended.stdout
