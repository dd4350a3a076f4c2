"""Atomic files: each is replaced as a whole, several all or none.

New text is written to a scratch file and then renamed, so that a reader, also one that uses
inotify, sees the former text or the new one.  Files are world-readable, whatever the umask, unless
they have another mode: the programs that read them have dropped root's privileges.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

from netfw.errors import BackendBroken, BackendError, BackendUnavailable, OperationRefused

_FILE, _DIRECTORY = 0o644, 0o755
_ASIDE = re.compile(r"\.(?:new|old)-(?:(\d+)-)?")
"""Prefix of the names in a scratch directory, with the pid of the writer."""


@frozen
class WriteFile:
    """Write the file with exactly this text."""

    path: str
    content: str = field(repr=False)
    mode: int = _FILE
    """Permissions of the file."""


@frozen
class RemoveFile:
    """Remove the file if it exists."""

    path: str


FileChange = WriteFile | RemoveFile


def change_files(changes: Sequence[FileChange], scratch: Path) -> None:
    """Execute *changes* in order, all of them or none.

    Several processes may use one scratch directory at the same time.

    :param scratch: a directory on the same file system, for files before their rename; it is made
        if it is missing, and so are the directories of the files.  It should have few other
        files: it is scanned for files of killed processes.
    :raises OperationRefused: none was executed; the failed changes are named as far as they are
        known: a full disk concerns all, a file that cannot be replaced itself alone.
    """
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    new = [f"{scratch}/.new-{own}-{number}" for number in range(len(changes))]
    try:
        folders = {os.path.dirname(c.path) for c in changes if isinstance(c, WriteFile)}
        _make_directories([scratch, *map(Path, folders)])
        _unlink_all(_stale_files(scratch))
        for change, beside in zip(changes, new, strict=True):
            if isinstance(change, WriteFile):
                _write(beside, change.content, change.mode)
    except OSError as error:
        _unlink_all(new)
        raise OperationRefused(dict.fromkeys(changes, _why(error))) from error
    _move(changes, new, [f"{scratch}/.old-{own}-{number}" for number in range(len(changes))])


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none, or it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_file(path: Path) -> str | None:
    """Return the text of a file; ``None`` if there is none, or it is a directory.

    :raises BackendBroken: it may not be read.
    """
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise file_error(error) from error


def list_directory(path: Path) -> tuple[str, ...]:
    """Return the names in a directory, sorted; none if it does not exist.

    :raises BackendBroken: it may not be read.
    """
    try:
        return tuple(sorted(os.listdir(path)))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise file_error(error) from error


def make_directory(path: Path) -> None:
    """Make a world-readable directory unless it exists.

    :raises BackendBroken: it cannot be made.
    """
    try:
        _make_directories([path])
    except OSError as error:
        raise file_error(error) from error


def remove_directory(path: Path) -> None:
    """Remove the directory or file at *path* if it exists.

    :raises BackendBroken: it cannot be removed.
    """
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise file_error(error) from error


def write_problem(path: Path) -> str | None:
    """Return why *path*, or the directory it would be made in, is not writable, or ``None``."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        return f"{existing} is not a directory"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} cannot be written to"
    return None


def file_error(error: OSError) -> BackendError:
    """Return the error to raise for a file that could not be read or written."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return BackendUnavailable(f"{error.filename}: {error.strerror}")
    return BackendBroken(_why(error))


def _why(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename else ""
    return f"{name}{error.strerror or error}; make room, or give netfw the right to write there"


def _make_directories(paths: Iterable[Path]) -> None:
    for path in sorted(paths):
        for each in (*reversed(path.parents), path) if not path.is_dir() else ():
            if not each.is_dir():
                each.mkdir(_DIRECTORY, exist_ok=True)
                each.chmod(_DIRECTORY)


def _stale_files(scratch: Path) -> list[str]:
    """Return the files of ended processes in a scratch directory."""
    aside = ((name, _ASIDE.match(name)) for name in os.listdir(scratch))
    return [
        f"{scratch}/{name}"
        for name, found in aside
        if found and not (found[1] and os.path.exists(f"/proc/{found[1]}"))
    ]


def _write(path: str, content: str, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        data = content.encode(errors="surrogateescape")
        if data and os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)


def _move(changes: Sequence[FileChange], new: Sequence[str], old: Sequence[str]) -> None:
    """Execute the renames and removals; undo them when one fails."""
    kept: list[str | None] = []
    for number, change in enumerate(changes):
        try:
            kept.append(old[number] if _keep(change.path, old[number]) else None)
            if isinstance(change, WriteFile):
                os.replace(new[number], change.path)
            else:
                _unlink(change.path)
        except OSError as error:
            for past, former in zip(changes[:number], kept, strict=False):
                _restore(past.path, former)
            _unlink_all([*new, *filter(None, kept)])
            raise OperationRefused({change: _why(error)}) from error
    _unlink_all(filter(None, kept))


def _keep(path: str, kept: str) -> bool:
    """Link *path* to a second name, to go back to; return whether there is a file."""
    try:
        os.link(path, kept)
    except FileNotFoundError:
        return False
    return True


def _restore(path: str, kept: str | None) -> None:
    with suppress(OSError):  # the next observation finds the difference
        if kept is None:
            _unlink(path)
        else:
            os.replace(kept, path)


def _unlink_all(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            _unlink(path)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
