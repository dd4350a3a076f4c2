"""System calls that only the lab needs, beside those of ``netfw.linux.syscalls``."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWUTS = 0x04000000

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def mount(kind: str, target: str, options: str = "") -> None:
    """Mount a new file system of this *kind* (``tmpfs``, ``proc``, ...) on *target*.

    :raises OSError: the kernel refused.
    """
    if _libc.mount(
        kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(0), options.encode()
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def show_own_devices() -> None:
    """Make ``/sys`` show the network devices of this namespace and not the machine's.

    A kernel that does not let an ordinary user do this does not let them write there either.
    """
    with contextlib.suppress(PermissionError):
        mount("sysfs", "/sys")


def has_ipv6() -> bool:
    """Return whether this kernel has IPv6."""
    return os.path.isdir("/proc/sys/net/ipv6")


def use_addresses_at_once() -> None:
    """Disable duplicate address detection for devices that are added to this namespace.

    The lab's addresses are unique.  Detection takes the kernel a second or two, in which an
    instance is unreachable; and on a host, when it ends long after the device was plugged, the
    switch loses packets that are to enter a tunnel (see docs/lab.md).
    """
    if has_ipv6():
        Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
