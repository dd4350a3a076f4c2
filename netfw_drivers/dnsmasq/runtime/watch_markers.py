"""Whether dnsmasq looks into the directories that are there.

It has the kernel watch those that it finds when it starts.  One that is removed, moved or restored
from elsewhere meanwhile is another one, though its path is the same, and is never looked into.  A
directory is known by a file in it that is made once: whatever is done to get another directory, the
time when that file was last touched differs, which nobody can choose.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from netfw.linux.fs.atomic_files import FileChange, WriteFile
from netfw_drivers.dnsmasq.config.paths import NetworkPaths

_MARK = ".watched"
"""dnsmasq passes over such a name."""


def note_of(files: NetworkPaths) -> Path:
    """Where it says which directories dnsmasq found when it was started."""
    return files.directory / "watched"


def marks_missing(files: NetworkPaths) -> list[FileChange]:
    """What makes directories known that are not."""
    return [WriteFile(mark, "") for mark in _marks(files) if not os.path.exists(mark)]


def directories_there(files: NetworkPaths) -> str:
    """Which directories there are now; empty: one is missing, or not known."""
    try:
        found = [os.stat(mark) for mark in _marks(files)]
    except OSError:
        return ""
    return " ".join(f"{each.st_dev}:{each.st_ino}:{each.st_ctime_ns}" for each in found)


@cache
def _marks(files: NetworkPaths) -> tuple[str, ...]:
    return tuple(f"{each}/{_MARK}" for each in (files.host, files.addn_hosts, files.opts))
