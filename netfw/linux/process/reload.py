"""Reload of a supervised program by SIGHUP, after its files were replaced."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from netfw.linux.fs.atomic_files import FileChange, change_files
from netfw.linux.process.supervised_program import ProcessKey
from netfw.linux.process.supervisor import Supervisor


def change_and_reload(
    supervisor: Supervisor, key: ProcessKey, changes: Sequence[FileChange], scratch: Path
) -> bool:
    """Replace the files of a program, and let it read them again; return whether it runs.

    The program sees the former files or the new ones, never a part; one that does not run reads
    them when it is started.

    :param scratch: as of :func:`~netfw.linux.fs.atomic_files.change_files`.
    :raises OperationRefused: no file was changed, and no signal was sent.
    """
    change_files(changes, scratch)
    return supervisor.signal(key, signal.SIGHUP)
