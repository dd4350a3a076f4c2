"""A kernel that refuses one call every change of the network."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_PR_CAPBSET_DROP: Final = 24
_CAP_NET_ADMIN: Final = 12
_VERSION_3: Final = 0x20080522
"""The version of capget(2) and capset(2) with 64 capabilities."""

_libc = ctypes.CDLL(None, use_errno=True)


def without_network_privileges(call: Callable[[], T]) -> T:
    """Return the result of *call* in a thread without CAP_NET_ADMIN.

    Threads and processes that the call starts lack it as well.  The thread ends with the call.
    """
    with ThreadPoolExecutor(1, initializer=_drop_network_privileges) as thread:
        return thread.submit(call).result()


def _drop_network_privileges() -> None:
    """Give up CAP_NET_ADMIN, for this thread alone and for good."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(header, data))
    if not data[0] >> _CAP_NET_ADMIN & 1:
        return  # nothing to give up: the kernel refuses this process in any case
    _check(_libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(_CAP_NET_ADMIN), 0, 0, 0))
    for kind in range(3):  # effective, permitted, inheritable
        data[kind] &= ~(1 << _CAP_NET_ADMIN)
    _check(_libc.capset(header, data))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"capabilities cannot be given up: {os.strerror(number)}")
