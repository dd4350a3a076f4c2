"""The sandbox: namespaces around a whole command, so that nothing in it can touch the machine.

The command is executed again inside new network, mount and process namespaces; when it ends, or
is killed, the kernel ends every process in there and forgets every device and mount.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

INSIDE = "NETFW_SANDBOX"
"""Environment variable that is set within."""

_PREPARE = 'mount -t tmpfs tmpfs /run && ip link set lo up && "$@"; exit $?'


def inside() -> bool:
    """Whether this process runs in a sandbox."""
    return INSIDE in os.environ


def command(argv: Sequence[str]) -> list[str]:
    """The command line that runs *argv* in a sandbox."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["unshare", *user, *spaces, "sh", "-c", _PREPARE, "sh", *argv]


def enter(argv: Sequence[str]) -> None:
    """Replace this process by *argv* in a sandbox; does not return."""
    line = command(argv)
    os.execvpe(line[0], line, {**os.environ, INSIDE: "1"})


def require() -> None:
    """Refuse to go on outside of a sandbox.

    :raises RuntimeError: this process sees the machine's own network.
    """
    if not inside():
        raise RuntimeError(
            "this would touch the machine's own network: run pytest with --sandbox, "
            "or the command with `netfw lab run -- COMMAND`"
        )
