"""Files that are there as a whole or not at all.

What is new is written beside first and then moved to its place, so that whoever reads, also by
inotify, sees the former text or the new one.  Every file can be read by everybody, whatever the
umask says: the programs that read them have given up root's rights.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from netfw.errors import BackendBroken, BackendError, OperationRefused

_FILE, _DIRECTORY = 0o644, 0o755


@frozen
class WriteFile:
    """Make the file have exactly this text."""

    path: Path
    content: str

    @property
    def text(self) -> str:
        return f"write {self.path}: {self.content.rstrip()!r}"


@frozen
class RemoveFile:
    """Make sure that there is no such file."""

    path: Path

    @property
    def text(self) -> str:
        return f"remove {self.path}"


FileChange = WriteFile | RemoveFile


def change_files(changes: Sequence[FileChange], scratch: Path) -> None:
    """Carry out *changes* in order, all of them or none.

    :param scratch: a directory on the same file system, for what is not in its place yet; it is
        made when it is not there, and so are the directories of the files.
    :raises OperationRefused: none was carried out; who is at fault, as far as that is known, is
        named: a full disk concerns all of them, a file that can not be replaced itself alone.
    """
    beside: dict[Path, WriteFile] = {}
    try:
        _make_directories({scratch, *(c.path.parent for c in changes if isinstance(c, WriteFile))})
        for number, change in enumerate(changes):
            if isinstance(change, WriteFile):
                new = scratch / f".new-{number}"
                beside[new] = change
                _write(new, change.content)
    except OSError as error:
        _forget(beside)
        raise OperationRefused(dict.fromkeys(changes, _why(error))) from error
    _move(changes, {change: new for new, change in beside.items()})


def read_file(path: Path) -> str | None:
    """The text of a file; ``None``: there is none, or it is not one of ours.

    :raises BackendBroken: it may not be read.
    """
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise file_trouble(error) from error


def list_directory(path: Path) -> tuple[str, ...]:
    """The names in a directory, sorted; none when there is none.

    :raises BackendBroken: it may not be read.
    """
    try:
        return tuple(sorted(os.listdir(path)))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise file_trouble(error) from error


def remove_directory(path: Path) -> None:
    """Make sure that there is nothing at *path*.

    :raises BackendBroken: it can not be removed.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise file_trouble(error) from error


def why_not_writable(path: Path) -> str | None:
    """Why nothing can be made in the directory *path*, or in the one that it would be made in."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a directory"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} can not be written to"
    return None


def file_trouble(error: OSError) -> BackendError:
    """The error to raise when the machine refused to read or write a file."""
    return BackendBroken(_why(error))


def _why(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}; make room, or give netfw the right to write there"


def _make_directories(paths: Iterable[Path]) -> None:
    for path in sorted(paths):
        if not path.is_dir():
            path.mkdir(_DIRECTORY, parents=True, exist_ok=True)
            path.chmod(_DIRECTORY)


def _write(path: Path, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE)
    with open(descriptor, "w", errors="surrogateescape") as file:
        os.fchmod(descriptor, _FILE)
        file.write(content)


def _move(changes: Sequence[FileChange], beside: dict[WriteFile, Path]) -> None:
    """Put everything in its place; what was done is undone when something can not be."""
    former: dict[Path, str | None] = {}
    for change in changes:
        try:
            former[change.path] = read_file(change.path) if len(changes) > 1 else None
            if isinstance(change, WriteFile):
                os.replace(beside[change], change.path)
            else:
                change.path.unlink(missing_ok=True)
        except (OSError, BackendError) as error:
            former.pop(change.path, None)
            _forget(beside.values())
            _restore(former)
            why = _why(error) if isinstance(error, OSError) else str(error)
            raise OperationRefused({change: why}) from error


def _restore(former: dict[Path, str | None]) -> None:
    for path, content in former.items():
        with suppress(OSError):  # the next look at the machine will see it
            if content is None:
                path.unlink(missing_ok=True)
            else:
                _write(path, content)


def _forget(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)
