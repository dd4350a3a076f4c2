"""System calls that Python 3.11 does not offer; they act on the calling thread alone."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_FS = 0x00000200
CLONE_NEWNET = 0x40000000

MS_BIND = 0x1000
MS_REC = 0x4000
MS_SHARED = 1 << 20
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)


def setns(descriptor: int, kind: int) -> None:
    """Move the calling thread into the namespace that *descriptor* refers to.

    :raises OSError: the kernel refused.
    """
    _check(_libc.setns(descriptor, kind), "setns")


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces of its own.

    :raises OSError: the kernel refused.
    """
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, flags: int) -> None:
    """Mount without a file system type: bind mounts and changes of propagation.

    :raises OSError: the kernel refused.
    """
    result = _libc.mount(source.encode(), target.encode(), b"none", ctypes.c_ulong(flags), None)
    _check(result, f"mount {target}")


def umount(target: str, flags: int = 0) -> None:
    """Take the topmost mount away from *target*.

    :raises OSError: the kernel refused.
    """
    _check(_libc.umount2(target.encode(), flags), f"umount {target}")


def _check(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
