"""Check whether an address is one of this host's, without a netlink socket."""

from __future__ import annotations

import errno
import socket
from ipaddress import IPv4Address
from pathlib import Path

from netfw.model.values.address import IpAddress

_SIX = Path("/proc/thread-self/net/if_inet6")
"""One address a line, including tentative ones, which cannot be bound to."""


def is_local(address: IpAddress) -> bool:
    """Return whether an interface of the calling thread's network namespace has *address*.

    Where ``net.ipv4.ip_nonlocal_bind`` is set every IPv4 address counts as local.
    """
    if address.is_unspecified:
        return False
    if isinstance(address, IPv4Address):
        return _can_be_bound_to(address)
    try:
        lines = _SIX.read_text().splitlines()
    except FileNotFoundError:  # a kernel without IPv6
        return False
    return any(line.startswith(address.packed.hex()) for line in lines)


def _can_be_bound_to(address: IPv4Address) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError as exc:
            if exc.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
                return False
            raise
    return True
