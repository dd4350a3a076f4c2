"""The limit of programs that watch files."""

from __future__ import annotations

from pathlib import Path

from netfw.linux.inotify import allow_more_instances


def test_it_is_raised_where_it_is_too_low_and_never_lowered(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    assert allow_more_instances(limit=limit)
    assert limit.read_text() == "4096\n"
    assert not allow_more_instances(limit=limit)
    limit.write_text("9999\n")
    assert not allow_more_instances(limit=limit)
    assert limit.read_text() == "9999\n"


def test_where_it_can_not_be_raised_that_is_an_answer(tmp_path: Path) -> None:
    assert not allow_more_instances(limit=tmp_path / "absent")
    (tmp_path / "nonsense").write_text("many")
    assert not allow_more_instances(limit=tmp_path / "nonsense")
