"""The sandbox: namespaces around a whole command, so that nothing in it can touch the machine.

The command is executed again inside new network, mount and process namespaces, by an ordinary user
within a user namespace.  ``/run`` is empty in there, ``/sys`` shows the sandbox's own devices; all
other files are the machine's.  When the command ends, or is killed, the kernel ends every process
in there and removes every device and mount.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from netfw.testing.lab.prerequisites import search_path

INSIDE = "NETFW_SANDBOX"
"""Environment variable that names, inside, the process namespace of the sandbox."""


def inside() -> bool:
    """Return whether this process runs in a sandbox; the variable alone is not enough."""
    return os.environ.get(INSIDE) == _process_namespace()


def command(argv: Sequence[str]) -> list[str]:
    """Return the command line that runs *argv* in a sandbox."""
    return [sys.executable, "-P", "-m", "netfw.testing.lab.launcher", *argv]


def enter(argv: Sequence[str]) -> NoReturn:
    """Replace this process by *argv* in a sandbox.

    The process keeps its pid and its terminal, and ends as *argv* ends.
    """
    line = command(argv)
    os.execv(line[0], line)


def environment() -> dict[str, str]:
    """Return the environment for a process in the sandbox that this process is in."""
    return {**os.environ, "PATH": search_path(), INSIDE: _process_namespace()}


def require() -> None:
    """Raise outside of a sandbox.

    :raises RuntimeError: this process sees the machine's own network.
    """
    if not inside():
        raise RuntimeError(
            "this would touch the machine's own network: run pytest with --sandbox, "
            "or the command with `netfw lab run -- COMMAND`"
        )


def _process_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)
