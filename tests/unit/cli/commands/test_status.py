"""``netfw status`` on status files of this and of other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netfw.agents.common.status import AgentStatus, StatusFile
from netfw.cli.commands.main import main
from netfw.cli.commands.status import NOT_READY


def write(path: Path, **fields: Any) -> None:
    StatusFile(path)(AgentStatus(binary=path.stem, host="h1", **fields))


def configured(directory: Path) -> list[str]:
    conf = directory / "agent.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {directory}\n")
    return ["status", "--config-file", str(conf)]


def test_agents_of_state_path_are_shown_with_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    write(tmp_path / "status" / "netfw-ovs-agent.json", ready=True)
    write(tmp_path / "metadata" / "netfw-metadata-agent.json", ready=True)
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "netfw-ovs-agent" in shown
    assert "netfw-metadata-agent" in shown
    write(tmp_path / "status" / "netfw-ovs-agent.json", degraded={"port 1": "broken"}, lag=4.25)
    assert main(command) == NOT_READY
    shown = capsys.readouterr().out
    assert "degraded" in shown
    assert "4.2 s" in shown
    assert "  port 1 failed, and is retried: broken" in shown


def test_control_characters_of_reasons_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    reasons = {"port \x1b]0;owned\x07": "no device\n\x1b[2Jall is well"}
    write(tmp_path / "status" / "netfw-ovs-agent.json", waiting=reasons, warnings={"a": "\x9b2J"})
    assert main(command) == NOT_READY
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "no device\\n\\x1b[2Jall is well" in shown


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "it is not JSON"),
        ('{"a":' * 100_000, "it is not JSON"),
        ("7", "it is not a JSON object"),
        ('{"pid": 1e999, "written_at": "2026-01-01T00:00:00"}', "it is no status of an agent"),
    ],
)
def test_broken_status_is_named_and_others_are_shown(
    text: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    write(tmp_path / "status" / "netfw-ovs-agent.json", ready=True)
    (tmp_path / "status" / "netfw-l3-agent.json").write_text(text)
    assert main(command) == NOT_READY
    shown = capsys.readouterr().out
    assert f"netfw-l3-agent.json: {why}" in shown
    assert "netfw-ovs-agent" in shown


def test_pipe_in_place_of_a_status_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    write(tmp_path / "status" / "netfw-ovs-agent.json", ready=True)
    os.mkfifo(tmp_path / "status" / "netfw-l3-agent.json")
    assert main(command) == NOT_READY
    assert "netfw-l3-agent.json: it is no regular file" in capsys.readouterr().out


def test_reasons_are_bounded_and_json_has_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    waiting = {f"port {number}": "its device" for number in range(50)}
    write(tmp_path / "status" / "netfw-ovs-agent.json", waiting=waiting)
    assert main(command) == NOT_READY
    assert "and 30 more; --json shows all" in capsys.readouterr().out
    assert main([*command, "--json"]) == NOT_READY
    (agent,) = json.loads(capsys.readouterr().out)["agents"]
    assert (agent["state"], len(agent["reasons"])) == ("waiting", 50)


def test_agent_whose_process_is_gone_is_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = tmp_path / "one.json"
    write(path, ready=True)
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": ended.pid}))
    assert main(["status", "--status-file", str(path)]) == NOT_READY
    assert "is gone without a clean stop" in capsys.readouterr().out


def test_process_that_got_the_pid_later_is_not_the_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.json"
    write(path, ready=True)
    long_ago = {"written_at": "2001-01-01T00:00:00.000+00:00", "pid": os.getpid()}
    path.write_text(json.dumps({**json.loads(path.read_text()), **long_ago}))
    assert main(["status", "--json", "--status-file", str(path)]) == NOT_READY
    assert json.loads(capsys.readouterr().out)["agents"][0]["state"] == "dead"


@pytest.mark.parametrize("text", [None, "", "[]", '{"pid": 1}', "\x00", "[" * 100_000])
def test_file_that_is_missing_or_damaged_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    path = tmp_path / "one.json"
    if text is not None:
        path.write_text(text)
    assert main(["status", "--status-file", str(path)]) == NOT_READY
    assert f"{path}: " in capsys.readouterr().out


def test_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = configured(tmp_path)
    directory = tmp_path / "status"
    directory.symlink_to(directory)  # like a directory of root, and also for root
    assert main(command) == NOT_READY
    assert f"{directory}: it cannot be read: " in capsys.readouterr().out


def test_host_without_agents_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(configured(tmp_path)) == 1
    assert f"No agent has a status file in {tmp_path}/status" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--watch", "0"), ("--stale", "x"), ("--watch", "nan")])
def test_impossible_seconds_are_refused(words: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", *words])
    assert ended.value.code == 2
