"""Users that a process can become."""

from __future__ import annotations

import pwd
from collections.abc import Iterable
from pathlib import Path


def first_user(names: Iterable[str]) -> str | None:
    """Return the first of *names* that is a user here, with ids of this user namespace."""
    for name in names:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if _is_mapped("uid", found.pw_uid) and _is_mapped("gid", found.pw_gid):
            return name
    return None


def _is_mapped(kind: str, id: int) -> bool:
    ranges = Path(f"/proc/self/{kind}_map").read_text().splitlines()
    firsts = ((int(first), int(count)) for first, _, count in map(str.split, ranges))
    return any(first <= id < first + count for first, count in firsts)
