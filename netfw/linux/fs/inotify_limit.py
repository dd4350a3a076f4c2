"""Limit of inotify instances."""

from __future__ import annotations

import logging
import os
from pathlib import Path

LOG = logging.getLogger(__name__)

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
"""Instances per user; the kernel's default is 128."""
ADVICE = "sysctl -w fs.inotify.max_user_instances=4096"


_LEAST = 4096


def instance_limit_problem(programs: int, limit: Path = INSTANCES) -> str | None:
    """Return why *programs* of one user will soon be too many, with a remedy; ``None`` if there is
    room, or `allow_more_instances` can make some."""
    try:
        allowed = int(limit.read_text())
    except (OSError, ValueError):
        return None
    may_be_raised = allowed < _LEAST and os.access(limit, os.W_OK)
    if programs * 4 < allowed * 3 or (may_be_raised and programs * 4 < _LEAST * 3):
        return None
    enough = max(_LEAST, 4 * programs)
    return (
        f"{programs} programs have files watched, and this machine allows a user {allowed}: "
        f"sysctl -w fs.inotify.max_user_instances={enough}"
    )


def allow_more_instances(least: int = _LEAST, limit: Path = INSTANCES) -> bool:
    """Raise the limit to *least* if it is lower; return whether it was changed.

    It is a setting of the whole host: a change is logged, and it is never lowered."""
    try:
        former = int(limit.read_text())
        if former >= least:
            return False
        limit.write_text(f"{least}\n")
    except (OSError, ValueError):
        return False
    LOG.warning("%s: raised from %d to %d", limit, former, least)
    return True
