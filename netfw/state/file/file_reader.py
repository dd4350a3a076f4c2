"""Reads a file or a directory of files, with checks against concurrent writes.

A *signature* is the result of ``stat``; two equal signatures with a pause between them mean that no
process is writing.  Nothing here raises: an unreadable file is reported as a problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from netfw.state.file.parse import SIZE

FILES: Final = 1000
"""Maximum number of files in a directory."""
SUFFIXES: Final = (".yaml", ".yml", ".json")
_STATUS: Final = ".status."

Stat = tuple[int, int, int, int, int]


@frozen
class FileSignatures:
    """The signature of each file by path, or why it has none."""

    files: Mapping[str, Stat | str] = field(factory=dict)
    problem: str = ""


@frozen
class Contents:
    """The bytes of all files, and why some cannot be read."""

    files: Mapping[str, bytes] = field(factory=dict)
    problems: Mapping[str, str] = field(factory=dict)
    torn: bool = False
    """A file changed while it was read: retry."""


def stat_files(path: str) -> FileSignatures:
    """Return the signatures of the files at *path*."""
    try:
        names = _names(path)
    except (OSError, ValueError) as exc:  # ValueError: an invalid file name
        return FileSignatures(problem=_read_problem(exc))
    if names is None:
        return FileSignatures({path: _stat(path)})
    if not names:
        return FileSignatures(
            problem=f"is a directory without a file that ends in {', '.join(SUFFIXES)}"
        )
    if len(names) > FILES:
        return FileSignatures(problem=f"is a directory of more than {FILES} files")
    return FileSignatures({name: _stat(name) for name in names})


def read(signatures: FileSignatures) -> Contents:
    """Read every file of *signatures*, provided that its signature is unchanged."""
    files: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    for name, status in signatures.files.items():
        if isinstance(status, str):
            problems[name] = status
            continue
        try:
            files[name], after = _read_file(name)
        except OSError as exc:
            problems[name] = _read_problem(exc)
            continue
        if after != status:
            return Contents(torn=True)
    return Contents(files, problems)


def _names(path: str) -> list[str] | None:
    """Return the files of a directory in order; ``None``: *path* is not a directory."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        return None
    with os.scandir(path) as entries:
        return sorted(entry.path for entry in entries if _is_topology_file(entry.name))


def _is_topology_file(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".") and _STATUS not in name


def _stat(path: str) -> Stat | str:
    try:
        return _signature(os.stat(path))
    except OSError as exc:
        return _read_problem(exc)


def _signature(status: os.stat_result) -> Stat | str:
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _read_file(path: str) -> tuple[bytes, Stat | str]:
    """Return the content, and the signature of the file after it was read."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return b"".join(_read_blocks(file.fileno())), _signature(os.fstat(file.fileno()))


def _read_blocks(fd: int) -> Iterator[bytes]:
    left = SIZE + 1
    while left and (block := os.read(fd, min(left, 2**20))):
        left -= len(block)
        yield block


def _read_problem(error: OSError | ValueError) -> str:
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"
