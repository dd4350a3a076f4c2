"""The directory of the sockets of a switch: of its bridges, and of ``ovs-vswitchd``.  Pure."""

from __future__ import annotations

from typing import Final

DEFAULT_DIRECTORY: Final = "/run/openvswitch"


def socket_directory(remote: str, given: str | None = None) -> str:
    """Return the directory of the sockets of the switch whose database is at *remote*.

    *given* is the directory that an option states, if it does.
    """
    kind, _, path = remote.partition(":")
    if given:
        return given
    return path.rpartition("/")[0] if kind == "unix" else DEFAULT_DIRECTORY
