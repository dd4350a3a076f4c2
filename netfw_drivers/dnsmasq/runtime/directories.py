"""Directories of dnsmasq: whether it may read them, and whether it watches those that exist.

dnsmasq gives up root's privileges.  It logs nothing when it cannot enter a directory, and answers
no client.

dnsmasq starts inotify watches on the directories that exist when it starts.  A directory that is
removed, moved or restored later is another inode under the same path, which dnsmasq never reads.  A
marker file in it identifies a directory: however the directory was replaced, the ctime of that file
differs, and no program can choose a ctime.
"""

from __future__ import annotations

import grp
import os
import pwd
from contextlib import suppress
from functools import cache
from pathlib import Path

from netfw.linux.fs.atomic_files import FileChange, WriteFile
from netfw.linux.fs.permissions import Right, has_permission
from netfw_drivers.dnsmasq.config.paths import NetworkPaths

_MARKER = ".watched"
"""dnsmasq skips such a name."""
DEFAULT_USER = "nobody"
"""User that dnsmasq runs as by default."""
_GROUP = "dip"
"""Group that dnsmasq runs as by default, if it exists."""


def access_problem(directory: Path, user: str | None) -> str | None:
    """Return why a dnsmasq that root starts cannot enter *directory* as *user*, and what to do.

    Of a path that does not exist yet, the part that exists is checked.  ``None``: it can enter.
    """
    if os.geteuid() != 0:
        return None  # dnsmasq runs as the user that starts it
    try:
        account = pwd.getpwnam(user or DEFAULT_USER)
    except KeyError:
        return None if user is None else f"dnsmasq_user: there is no user {user!r} here: make it"
    groups = {account.pw_gid}
    with suppress(KeyError):
        groups.add(grp.getgrnam(_GROUP).gr_gid)
    path = directory.resolve()
    for part in (*reversed(path.parents), path):
        if part.is_dir() and not has_permission(
            part, Right.SEARCH, user=account.pw_uid, groups=groups
        ):
            return (
                f"dnsmasq runs as {account.pw_name}, which may not pass {part} on the way to "
                f"{directory}: chmod o+x {part}, or change dhcp_confs or dnsmasq_user"
            )
    return None


def watched_record(files: NetworkPaths) -> Path:
    """Return the file that records which directories dnsmasq found when it started."""
    return files.directory / "watched"


def missing_markers(files: NetworkPaths) -> list[FileChange]:
    """Return the changes that create the marker files that are missing."""
    return [WriteFile(marker, "") for marker in _markers(files) if not os.path.exists(marker)]


def directory_identities(files: NetworkPaths) -> str:
    """Return the identities of the directories; empty: one, or its marker, is missing."""
    try:
        markers = [os.stat(marker) for marker in _markers(files)]
    except OSError:
        return ""
    return " ".join(f"{each.st_dev}:{each.st_ino}:{each.st_ctime_ns}" for each in markers)


@cache
def _markers(files: NetworkPaths) -> tuple[str, ...]:
    return tuple(f"{path}/{_MARKER}" for path in (files.host, files.addn_hosts, files.opts))
