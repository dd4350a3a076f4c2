"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netfw.errors import OperationRefused
from netfw.linux.fs.atomic_files import (
    RemoveFile,
    WriteFile,
    change_files,
    list_directory,
    make_directory,
    read_file,
    remove_directory,
    write_problem,
)


def write(path: Path, content: str) -> WriteFile:
    return WriteFile(str(path), content)


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_files_are_written_and_removed_and_nothing_else_is_left(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    changes = [write(tmp_path / "a" / "new", "text\n"), RemoveFile(str(tmp_path / "old"))]
    change_files([*changes, RemoveFile(str(tmp_path / "absent"))], tmp_path)
    assert names(tmp_path) == ["a", "a/new"]
    assert read_file(tmp_path / "a" / "new") == "text\n"


def test_files_are_world_readable_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0o077)
    try:
        change_files([write(tmp_path / "a" / "b", "")], tmp_path)
        make_directory(tmp_path / "c" / "d")
    finally:
        os.umask(former)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "c" / "d").stat().st_mode & 0o777 == 0o755


def test_a_secret_file_is_readable_by_its_owner_alone_and_not_in_messages(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        change = WriteFile(str(tmp_path / "file"), "pass-word", 0o600)
        change_files([change], tmp_path)
    finally:
        os.umask(former)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert "pass-word" not in repr(change)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("former")
    with path.open() as reader:
        change_files([write(path, "new")], tmp_path)
        assert reader.read() == "former"
    assert path.read_text() == "new"


def test_what_cannot_be_replaced_is_named_and_the_rest_is_undone(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("former")
    (tmp_path / "two" / "taken").mkdir(parents=True)
    changes = [
        write(tmp_path / "one", "new"),
        write(tmp_path / "more", "new"),
        write(tmp_path / "two", "new"),
        write(tmp_path / "three", "new"),
    ]
    with pytest.raises(OperationRefused) as refusal:
        change_files(changes, tmp_path)
    assert refusal.value.reasons.keys() == {changes[2]}
    assert names(tmp_path) == ["one", "two", "two/taken"]
    assert (tmp_path / "one").read_text() == "former"


def test_what_cannot_be_written_at_all_concerns_everything(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    changes = [write(tmp_path / "one", "new"), write(tmp_path / "file" / "two", "new")]
    with pytest.raises(OperationRefused) as refusal:
        change_files(changes, tmp_path)
    assert refusal.value.reasons.keys() == set(changes)
    assert "file" in str(refusal.value)
    assert names(tmp_path) == ["file"]


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    nobody = 2**22 + 1  # is above every pid
    left = (".new-0", f".new-{nobody}-0a-0", f".old-{nobody}-0a-1")
    at_work = f".new-{os.getpid()}-0a-0"
    for name in (*left, at_work):
        (tmp_path / name).write_text("left")
    (tmp_path / "file").write_text("former")
    change_files([write(tmp_path / "file", "new")], tmp_path)
    assert names(tmp_path) == [at_work, "file"]


def test_concurrent_writers_of_one_scratch_directory_never_mix_contents(
    tmp_path: Path,
) -> None:
    def work(name: str) -> list[str]:
        wrong = []
        for number in range(200):
            path = tmp_path / "files" / f"{name}-{number}"
            change_files([write(path, path.name * 50)], tmp_path)
            if path.read_text() != path.name * 50:
                wrong.append(path.name)
        return wrong

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(work, ("one", "two"))] == [[], []]


def test_absence_is_an_answer(tmp_path: Path) -> None:
    assert read_file(tmp_path / "absent") is None
    assert read_file(tmp_path) is None
    assert list_directory(tmp_path / "absent") == ()
    remove_directory(tmp_path / "absent")


def test_it_is_said_why_nothing_can_be_made(tmp_path: Path) -> None:
    assert write_problem(tmp_path / "a" / "b") is None
    (tmp_path / "file").write_text("")
    assert write_problem(tmp_path / "file" / "b") == f"{tmp_path / 'file'} is not a directory"
