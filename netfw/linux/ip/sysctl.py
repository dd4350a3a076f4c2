"""Kernel parameters of a namespace, read and written without a process.

For names see :mod:`netfw.linux.ip.sysctl_names`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.ip.operations import SetSysctl
from netfw.linux.ip.plan import plan_sysctl
from netfw.linux.ip.sysctl_names import path_of
from netfw.linux.netns import Namespace

_LONGEST: Final = 1 << 16
"""Bytes of a value; the kernel returns it by one read, as it accepts one write."""


def read(name: str, namespace: Namespace = None) -> str:
    """Return the value, as the kernel prints it.

    :raises NotFound: no such parameter (or device) there.
    """
    return netns.run_in(namespace, read_here, name)


def write(name: str, value: str, namespace: Namespace = None) -> None:
    """Set the value.

    :raises NotFound: no such parameter (or device) there.
    :raises OperationRefused: the kernel does not accept that value.
    :raises BackendBroken: netfw may not write it.
    """
    netns.run_in(namespace, write_here, name, value)


def converge(wanted: Mapping[str, str], namespace: Namespace = None) -> tuple[SetSysctl, ...]:
    """Set the parameters that differ, in the order given; return those that were set.

    :raises NotFound: no such parameter (or device) there.
    """
    return netns.run_in(namespace, _converge_here, wanted)


def read_many(names: Iterable[str], namespace: Namespace = None) -> dict[str, str]:
    """Return several values at once; parameters that do not exist are omitted."""
    if namespace is None:
        return _read_many_here(names)
    return netns.run_in(namespace, _read_many_here, tuple(names))


def read_here(name: str) -> str:
    """Read a value as :func:`read` does, in the calling thread and its namespace."""
    try:
        descriptor = os.open(path_of(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, _LONGEST).decode().strip()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise error_from_errno(error.errno or 0, f"sysctl {name}", error.strerror or "") from error


def write_here(name: str, value: str) -> None:
    """Write a value as :func:`write` does, in the calling thread and its namespace."""
    try:
        # Never create: /proc would refuse, but a wrong root should not become a file.
        descriptor = os.open(path_of(name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        what = f"sysctl -w {name}={value}"
        raise error_from_errno(error.errno or 0, what, error.strerror or "") from error


def _read_many_here(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = read_here(name)
        except NotFound:
            continue
    return found


def _converge_here(wanted: Mapping[str, str]) -> tuple[SetSysctl, ...]:
    found = {name: read_here(name) for name in wanted}
    changes = tuple(op for op in plan_sysctl(wanted, found) if isinstance(op, SetSysctl))
    for change in changes:
        write_here(change.name, change.value)
    return changes
