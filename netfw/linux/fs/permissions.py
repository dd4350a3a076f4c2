"""Permissions of a user on a file, and directories that other users may change, by their modes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Set
from enum import IntEnum
from pathlib import Path

_ACL = "system.posix_acl_access"
_UID_MAP = Path("/proc/self/uid_map")
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")
_ALL_USERS = ["0", "0", "4294967295"]
_NOT_THERE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_MAX_LINKS = 40
"""Links that the kernel follows on one path."""


class Right(IntEnum):
    """The bits of a mode for others."""

    WRITE = stat.S_IWOTH
    SEARCH = stat.S_IXOTH


def has_permission(path: Path, right: Right, *, user: int, groups: Set[int]) -> bool:
    """Return whether *path* gives *right* to a process of this user and these groups.

    A path with an access control list is assumed to: only the kernel can evaluate it.
    """
    status = path.stat()
    if user == 0 or _ACL in os.listxattr(path):
        return True
    if user == status.st_uid:
        return bool(status.st_mode & right << 6)
    return bool(status.st_mode & (right << 3 if status.st_gid in groups else right))


def exposure_problem(path: Path) -> str | None:
    """Return which users could change what root has in the directory *path*, and what to do.

    All directories on the way are checked as far as they exist: a user that may write to one can
    replace those below, unless it is sticky, as ``/tmp`` is.  *path* itself must not be sticky:
    others could make files in it.  ``None``: root alone may, or this process is not root.
    """
    if os.geteuid() != 0:
        return None
    real = Path(os.path.realpath(path))
    for directory in dict.fromkeys(_directories_to(path)):
        try:
            status = directory.stat()
        except OSError as exc:
            if exc.errno not in _NOT_THERE:
                raise
            continue
        if stat.S_ISDIR(status.st_mode) and (reason := _exposure(directory, status, real)):
            return (
                f"{directory} {reason}: others could change what root reads and executes in "
                f"{path}: chown root:root {directory}; chmod go-w {directory}"
            )
    return None


def _directories_to(path: Path) -> Iterator[Path]:
    """Yield the directories that the kernel passes on the way to *path*, itself included.

    Each link on the way adds the directories of its target.
    """
    directory, *rest = map(Path, path.absolute().parts)
    yield directory
    links = 0
    while rest:
        name = rest.pop(0)
        found = directory.parent if name == Path("..") else directory / name
        if links < _MAX_LINKS and found.is_symlink():
            links += 1
            target = found.readlink()
            directory = Path("/") if target.is_absolute() else directory
            rest[:0] = map(Path, target.relative_to(target.anchor).parts)
        else:
            directory = found
            yield directory


def _exposure(directory: Path, status: os.stat_result, real: Path) -> str | None:
    if status.st_uid != 0 and not _is_outer_root(status.st_uid):
        return f"belongs to user {status.st_uid}"
    if status.st_mode & stat.S_ISVTX and directory != real:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "may be written to by everyone"
    if not status.st_mode & stat.S_IWGRP:  # the mask of an access control list, if there is one
        return None
    if _has_acl(directory):
        return "has an access control list by which others may write to it"
    return f"may be written to by group {status.st_gid}" if status.st_gid != 0 else None


def _has_acl(path: Path) -> bool:
    try:
        return _ACL in os.listxattr(path)
    except OSError:  # its file system has none
        return False


def _is_outer_root(uid: int) -> bool:
    """Return whether *uid* may be that of the machine's root, in a user namespace without it."""
    return _UID_MAP.read_text().split() != _ALL_USERS and uid == int(_OVERFLOW_UID.read_text())
