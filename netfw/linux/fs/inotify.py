"""How many programs may have files watched by the kernel."""

from __future__ import annotations

import logging
import os
from pathlib import Path

LOG = logging.getLogger(__name__)

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
"""How many programs of one user may; 128 on a machine where nobody thought of it."""
ADVICE = "sysctl -w fs.inotify.max_user_instances=4096"


_LEAST = 4096


def instance_limit_problem(programs: int, limit: Path = INSTANCES) -> str | None:
    """Why *programs* of one user will soon be too many, with what to do; ``None``: there is room,
    or `allow_more_instances` can make some."""
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
    """Let each user have at least *least* such programs; whether that had to be, and could be,
    changed.  It is a setting of the whole machine, so that it is logged, and never lowered."""
    try:
        former = int(limit.read_text())
        if former >= least:
            return False
        limit.write_text(f"{least}\n")
    except (OSError, ValueError):
        return False
    LOG.warning("%s was %d, which is too little: it is %d now", limit, former, least)
    return True
