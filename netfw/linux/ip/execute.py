"""Executes operations, one after the other, in the calling thread's namespace.

IPv6 operations on a host, namespace or device without IPv6 are not errors: they are left out and
reported, so that such a host is served IPv4 only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import field, frozen

from netfw.errors import NetfwError
from netfw.linux import netns
from netfw.linux.errno_errors import error_from_errno, is_absence
from netfw.linux.ip import ethtool, sysctl
from netfw.linux.ip.ipv6 import why_no_ipv6_here
from netfw.linux.ip.netlink_encode import Lookup, encode
from netfw.linux.ip.netlink_socket import Netlink, NetlinkError
from netfw.linux.ip.operations import (
    NetworkOperation,
    Removal,
    SetChecksumOffload,
    SetSysctl,
    devices,
    needs_ipv6,
)


@frozen
class Applied:
    """Result of a batch that succeeded."""

    done: tuple[NetworkOperation, ...] = ()
    skipped: Mapping[NetworkOperation, str] = field(factory=dict)
    """IPv6 operations that were skipped because there is no IPv6, and the reason."""


class BatchFailed(Exception):
    """Cause of a batch's error: the operation that failed, and those done before."""

    def __init__(self, failed: NetworkOperation, done: Sequence[NetworkOperation]) -> None:
        self.failed, self.done = failed, tuple(done)
        before = "; ".join(operation.text for operation in done) or "nothing"
        super().__init__(f"stopped at: {failed.text}; done before it: {before}")


def execute(netlink: Netlink, operations: Sequence[NetworkOperation]) -> Applied:
    """Execute *operations* in order, up to the first that is refused.

    The batch is not atomic: the kernel has no such thing.  The error's cause is a
    :class:`BatchFailed` that names the operation and what was done before it.

    :raises NotFound: an operation names a device or namespace that does not exist.
    :raises Conflict: an operation adds what exists already.
    :raises BackendBroken: netfw lacks a privilege, or the kernel lacks a feature.
    :raises OperationRefused: the kernel refused for another reason.
    """
    done: list[NetworkOperation] = []
    skipped: dict[NetworkOperation, str] = {}
    for operation in operations:
        try:
            _execute(netlink, operation)
        except (NetlinkError, NetfwError) as error:
            if (why := _why_skipped(operation)) is not None:
                skipped[operation] = why
                continue
            raise _as_error(error, operation) from _stopped(error, operation, done)
        done.append(operation)
    return Applied(tuple(done), skipped)


def _why_skipped(operation: NetworkOperation) -> str | None:
    """Return why there is no IPv6: a device may have it in a namespace without, and vice versa."""
    if not needs_ipv6(operation):
        return None
    reasons = (why_no_ipv6_here(device) for device in devices(operation) or {"all"})
    return next((why for why in reasons if why is not None), None)


def _stopped(
    error: Exception, operation: NetworkOperation, done: Sequence[NetworkOperation]
) -> BatchFailed:
    stopped = BatchFailed(operation, done)
    stopped.__cause__ = error
    return stopped


def _as_error(error: NetlinkError | NetfwError, operation: NetworkOperation) -> NetfwError:
    if isinstance(error, NetfwError):
        return error
    return error_from_errno(error.number, operation.text, error.message)


def _execute(netlink: Netlink, operation: NetworkOperation) -> None:
    match operation:
        case SetSysctl(name, value):
            sysctl.write_here(name, value)
        case SetChecksumOffload(name, on):
            _switch_offload(name, on)
        case _:
            _send(netlink, operation)


def _switch_offload(name: str, on: bool) -> None:
    try:
        ethtool.set_checksum_offload(name, on)
    except OSError as error:
        raise NetlinkError(error.errno or 0, error.strerror or "") from error


def _send(netlink: Netlink, operation: NetworkOperation) -> None:
    with ExitStack() as opened:

        def descriptor(namespace: str | Path) -> int:
            number = netns.open_namespace(namespace)
            opened.callback(os.close, number)
            return number

        try:
            netlink.send(encode(operation, Lookup(netlink.index, descriptor)))
        except NetlinkError as error:
            if not (isinstance(operation, Removal) and is_absence(error.number)):
                raise
