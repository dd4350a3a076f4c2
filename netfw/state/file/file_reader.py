"""Place: a file or a directory of files on disk, looked at cheaply and read carefully.

A *look* is what ``stat`` says of every file; two equal looks with a pause between them mean that
nobody is writing.  Nothing here raises: what cannot be read is a problem with a sentence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from netfw.state.file.parse import SIZE

FILES: Final = 1000
"""Of one directory."""
SUFFIXES: Final = (".yaml", ".yml", ".json")
_STATUS: Final = ".status."

Stat = tuple[int, int, int, int, int]


@frozen
class FileSignatures:
    """What there is: each file by its path, or why it cannot be seen."""

    files: Mapping[str, Stat | str] = field(factory=dict)
    problem: str = ""


@frozen
class Contents:
    """The bytes of all files, or why some cannot be had."""

    files: Mapping[str, bytes] = field(factory=dict)
    problems: Mapping[str, str] = field(factory=dict)
    torn: bool = False
    """A file changed while it was read: look again."""


def stat_files(path: str) -> FileSignatures:
    """What is at *path* now."""
    try:
        names = _names(path)
    except (OSError, ValueError) as exc:  # the latter: a name that can be no file's
        return FileSignatures(problem=_sentence(exc))
    if names is None:
        return FileSignatures({path: _stat(path)})
    if not names:
        return FileSignatures(
            problem=f"is a directory without a file that ends in {', '.join(SUFFIXES)}"
        )
    if len(names) > FILES:
        return FileSignatures(problem=f"is a directory of more than {FILES} files")
    return FileSignatures({name: _stat(name) for name in names})


def read(seen: FileSignatures) -> Contents:
    """The bytes of every file that was *seen*, provided that it still looks the same."""
    files: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for name, status in seen.files.items():
        if isinstance(status, str):
            problems[name] = status
            continue
        try:
            files[name], after = _bytes(name)
        except OSError as exc:
            problems[name] = _sentence(exc)
            continue
        if after != status:
            return Contents(torn=True)
    return Contents(files, problems)


def _names(path: str) -> list[str] | None:
    """The files of a directory in order; ``None``: it is none."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        return None
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if _belongs(entry.name))


def _belongs(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".") and _STATUS not in name


def _stat(path: str) -> Stat | str:
    try:
        return _stamp(os.stat(path))
    except OSError as exc:
        return _sentence(exc)


def _stamp(status: os.stat_result) -> Stat | str:
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _bytes(path: str) -> tuple[bytes, Stat | str]:
    """The content, and what the file looks like after it was read."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return b"".join(_blocks(file.fileno())), _stamp(os.fstat(file.fileno()))


def _blocks(fd: int) -> Iterator[bytes]:
    left = SIZE + 1
    while left and (block := os.read(fd, min(left, 2**20))):
        left -= len(block)
        yield block


def _sentence(error: OSError | ValueError) -> str:
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
