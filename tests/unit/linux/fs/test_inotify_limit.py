"""The limit of programs that watch files."""

from __future__ import annotations

from pathlib import Path

from netfw.linux.fs.inotify_limit import allow_more_instances, instance_limit_problem


def test_it_is_raised_where_it_is_too_low_and_never_lowered(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    assert allow_more_instances(limit=limit)
    assert limit.read_text() == "4096\n"
    assert not allow_more_instances(limit=limit)
    limit.write_text("9999\n")
    assert not allow_more_instances(limit=limit)
    assert limit.read_text() == "9999\n"


def test_where_it_cannot_be_raised_that_is_an_answer(tmp_path: Path) -> None:
    assert not allow_more_instances(limit=tmp_path / "absent")
    (tmp_path / "nonsense").write_text("many")
    assert not allow_more_instances(limit=tmp_path / "nonsense")


def test_that_it_is_nearly_reached_is_said_with_what_to_do(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("8000\n")
    assert instance_limit_problem(5999, limit) is None
    message = instance_limit_problem(6000, limit)
    assert message is not None
    assert message.endswith("allows a user 8000: sysctl -w fs.inotify.max_user_instances=24000")


def test_a_limit_that_can_be_raised_when_it_is_reached_is_no_worry(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    assert instance_limit_problem(127, limit) is None
    assert instance_limit_problem(3072, limit) is not None
    assert instance_limit_problem(127, tmp_path / "absent") is None
