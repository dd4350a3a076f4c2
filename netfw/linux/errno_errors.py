"""Errors of netfw for the kernel's error numbers."""

from __future__ import annotations

import errno
import os

from netfw.errors import (
    BackendBroken,
    BackendError,
    BackendUnavailable,
    Conflict,
    NetfwError,
    NotFound,
    OperationRefused,
)

_ABSENT = {errno.ENODEV, errno.ENOENT, errno.ESRCH, errno.ENXIO, errno.EADDRNOTAVAIL}
_PRESENT = {errno.EEXIST}
_FORBIDDEN = {errno.EPERM, errno.EACCES, errno.EROFS}
_LACKING = {errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOSYS}
_BUSY = {errno.ENOBUFS, errno.EAGAIN, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def is_absence(number: int) -> bool:
    """Return whether *number* means that something does not exist."""
    return number in _ABSENT


def error_from_errno(number: int, what: str, message: str = "") -> NetfwError:
    """Return the error to raise when the kernel answered *number* to *what*.

    :param message: the kernel's own message, if it sent more than a number.
    """
    why = message or os.strerror(number)
    if number in _ABSENT:
        return NotFound(f"{what}: {why}")
    if number in _PRESENT:
        return Conflict(f"{what}: {why}")
    return _backend_error(number, what, why)


def _backend_error(number: int, what: str, why: str) -> BackendError:
    if number in _FORBIDDEN:
        return BackendBroken(
            f"{what}: {why}; run as root, or give the process the "
            "capabilities of its unit (CAP_NET_ADMIN, CAP_NET_BROADCAST, CAP_SYS_ADMIN)"
        )
    if number in _LACKING:
        return BackendBroken(f"{what}: {why}; this kernel lacks it (a module that is not loaded?)")
    if number in _BUSY:
        return BackendUnavailable(f"{what}: {why}")
    return OperationRefused({what: why})
