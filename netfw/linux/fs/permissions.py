"""Permissions of a user on a file, by its mode."""

from __future__ import annotations

import os
import stat
from collections.abc import Set
from enum import IntEnum
from pathlib import Path

_ACL = "system.posix_acl_access"


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
