"""Configuration files that cannot be read for a while."""

from __future__ import annotations

import builtins
import errno
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netfw.server.api import reloading_file
from netfw.server.api.reloading_file import ReloadingFile


def test_a_changed_file_is_read_once_there_are_descriptors_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock, is_full = tmp_path / "tokens", [0.0], [True]
    path.write_text("former")
    monkeypatch.setattr(reloading_file, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    file = ReloadingFile(str(path), str, private=False)
    path.write_text("present")

    def full_open(*arguments: Any, **more: Any) -> Any:
        if is_full[0]:
            raise OSError(errno.EMFILE, "Too many open files")
        return builtins.open(*arguments, **more)

    monkeypatch.setattr(reloading_file, "open", full_open, raising=False)
    for _ in range(3):
        clock[0] += 2
        assert file.value == "former"
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 1
    is_full[0] = False
    clock[0] += 2
    assert file.value == "present"
