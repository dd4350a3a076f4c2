"""How many programs may have files watched by the kernel."""

from __future__ import annotations

import logging
from pathlib import Path

LOG = logging.getLogger(__name__)

INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
"""How many programs of one user may; 128 on a machine where nobody thought of it."""
ADVICE = "sysctl -w fs.inotify.max_user_instances=4096"


def allow_more_instances(least: int = 4096, limit: Path = INSTANCES) -> bool:
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
