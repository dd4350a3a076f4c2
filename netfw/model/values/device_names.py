"""Names of devices and namespaces that the kernel accepts and files and rules can hold."""

from __future__ import annotations

import re
from uuid import UUID

DEVICE_NAME_LENGTH = 15
DHCP_NAMESPACE = "qdhcp-"
"""Prefix of the names of DHCP servers' namespaces."""
_DEVICE = re.compile(r"[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,14}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9_.:@-]{0,254}")


def is_device_name(name: str) -> bool:
    """Return whether netfw can use *name* for a device."""
    return _DEVICE.fullmatch(name) is not None and name not in {".", "..", "all", "default"}


def is_namespace_name(name: str) -> bool:
    """Return whether netfw can use *name* for a namespace."""
    return _NAMESPACE.fullmatch(name) is not None


def check_device_name(name: str) -> None:
    """Refuse text that cannot be the name of a network device.

    The kernel itself refuses colons and makes a number of ``%d``; a dash at the beginning makes an
    option of a name.

    :raises ValueError: too long, empty, or with a character that netfw does not use.
    """
    if not is_device_name(name):
        raise ValueError(
            f"not a device name: {name!r} (1 to {DEVICE_NAME_LENGTH} of A-Z a-z 0-9 _ . @ -, "
            "no dash first)"
        )


def check_namespace_name(name: str) -> None:
    """Refuse text that cannot be the name of a network namespace.

    :raises ValueError: empty, too long, or with a character that netfw does not use.
    """
    if not is_namespace_name(name):
        raise ValueError(f"not a namespace name: {name!r} (A-Z a-z 0-9 _ . : @ -)")


def device_name(prefix: str, port_id: UUID) -> str:
    """Return Neutron's device name: *prefix* and the port id, cut to 14 characters."""
    return f"{prefix}{port_id}"[:14]


def dhcp_namespace(network_id: UUID) -> str:
    """Return Neutron's name for the namespace of a network's DHCP server."""
    return f"{DHCP_NAMESPACE}{network_id}"
