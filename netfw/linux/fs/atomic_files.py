"""Files that are there as a whole or not at all.

What is new is written beside first and then moved to its place, so that whoever reads, also by
inotify, sees the former text or the new one.  Every file can be read by everybody, whatever the
umask says: the programs that read them have given up root's rights.
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

from attrs import frozen

from netfw.errors import BackendBroken, BackendError, BackendUnavailable, OperationRefused

_FILE, _DIRECTORY = 0o644, 0o755
_ASIDE = re.compile(r"\.(?:new|old)-(?:(\d+)-)?")
"""How names in a scratch directory begin, with the pid of who uses them."""


@frozen
class WriteFile:
    """Make the file have exactly this text."""

    path: str
    content: str


@frozen
class RemoveFile:
    """Make sure that there is no such file."""

    path: str


FileChange = WriteFile | RemoveFile


def change_files(changes: Sequence[FileChange], scratch: Path) -> None:
    """Carry out *changes* in order, all of them or none.

    Several may use one scratch directory at the same time.

    :param scratch: a directory on the same file system, for what is not in its place yet; it is
        made when it is not there, and so are the directories of the files.  It should have few
        other files: it is looked through for what was left there by who was killed.
    :raises OperationRefused: none was carried out; who is at fault, as far as that is known, is
        named: a full disk concerns all of them, a file that cannot be replaced itself alone.
    """
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    new = [f"{scratch}/.new-{own}-{number}" for number in range(len(changes))]
    try:
        folders = {os.path.dirname(c.path) for c in changes if isinstance(c, WriteFile)}
        _make_directories([scratch, *map(Path, folders)])
        _forget(_left_behind(scratch))
        for change, beside in zip(changes, new, strict=True):
            if isinstance(change, WriteFile):
                _write(beside, change.content)
    except OSError as error:
        _forget(new)
        raise OperationRefused(dict.fromkeys(changes, _why(error))) from error
    _move(changes, new, [f"{scratch}/.old-{own}-{number}" for number in range(len(changes))])


def size_of(path: Path) -> int:
    """Bytes of a file; 0: there is none, or it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_file(path: Path) -> str | None:
    """The text of a file; ``None``: there is none, or it is not one of ours.

    :raises BackendBroken: it may not be read.
    """
    try:
        return path.read_text(errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise file_error(error) from error


def list_directory(path: Path) -> tuple[str, ...]:
    """The names in a directory, sorted; none when there is none.

    :raises BackendBroken: it may not be read.
    """
    try:
        return tuple(sorted(os.listdir(path)))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise file_error(error) from error


def make_directory(path: Path) -> None:
    """Make sure that there is a directory, into which everybody may look.

    :raises BackendBroken: it cannot be made.
    """
    try:
        _make_directories([path])
    except OSError as error:
        raise file_error(error) from error


def remove_directory(path: Path) -> None:
    """Make sure that there is nothing at *path*.

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
    """Why nothing can be made in the directory *path*, or in the one that it would be made in."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a directory"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written to"
    return None


def file_error(error: OSError) -> BackendError:
    """The error to raise when the machine refused to read or write a file."""
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


def _left_behind(scratch: Path) -> list[str]:
    """What nobody who lives has in a scratch directory."""
    aside = ((name, _ASIDE.match(name)) for name in os.listdir(scratch))
    return [
        f"{scratch}/{name}"
        for name, found in aside
        if found and not (found[1] and os.path.exists(f"/proc/{found[1]}"))
    ]


def _write(path: str, content: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE)
    try:
        os.fchmod(descriptor, _FILE)
        data = content.encode(errors="surrogateescape")
        if data and os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)


def _move(changes: Sequence[FileChange], new: Sequence[str], old: Sequence[str]) -> None:
    """Put everything in its place; what was done is undone when something cannot be."""
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
            _forget([*new, *filter(None, kept)])
            raise OperationRefused({change: _why(error)}) from error
    _forget(filter(None, kept))


def _keep(path: str, kept: str) -> bool:
    """Have a second name for what is at *path*, to go back to; whether there is something."""
    try:
        os.link(path, kept)
    except FileNotFoundError:
        return False
    return True


def _restore(path: str, kept: str | None) -> None:
    with suppress(OSError):  # the next look at the machine will see it
        if kept is None:
            _unlink(path)
        else:
            os.replace(kept, path)


def _forget(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            _unlink(path)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
