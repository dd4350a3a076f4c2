"""Processes of netfw in a namespace that is about to go, whoever started them.

A supervisor knows its own by its directory.  Of one whose directory is lost, or is another one
now, they would live on for ever in a namespace without a name.
"""

from __future__ import annotations

import logging
import os

from netfw.linux import netns
from netfw.linux.process.identity import hold_marked, mark_of
from netfw.linux.process.launch import end
from netfw.linux.process.program import Patience

LOG = logging.getLogger(__name__)


def end_stranded(namespace: str, patience: Patience | None = None) -> None:
    """End every process in *namespace* that some supervisor started; others are left alone.

    :raises NotFound: there is no such namespace.
    :raises BackendUnavailable: one does not end.
    """
    wanted = netns.identity(namespace)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if not _is_in(pid, wanted) or (mark := mark_of(pid)) is None:
            continue
        handle = hold_marked(pid, mark)
        if handle is None:
            continue
        try:
            LOG.warning("%s is left in %s: ending it", handle.identity.argv[0], namespace)
            end(handle, (), patience or Patience())
        finally:
            handle.close()


def _is_in(pid: int, wanted: netns.Identity) -> bool:
    try:
        found = os.stat(netns.of_process(pid))
    except OSError:
        return False  # it ended, or is a thread of the kernel
    return netns.Identity(found.st_dev, found.st_ino) == wanted
