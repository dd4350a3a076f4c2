"""Detection of IPv6: a host without it is served IPv4 only, and that is reported."""

from __future__ import annotations

from pathlib import Path

from netfw.errors import NotFound
from netfw.linux.ip import sysctl
from netfw.linux.ip.sysctl_names import device_parameter

# Not /proc/net: that is the namespace of the process's first thread, not of this one.
_ADDRESSES = Path("/proc/thread-self/net/if_inet6")


def why_no_ipv6(in_kernel: bool, disabled: str | None) -> str | None:
    """Return why there is no IPv6, or None if there is.

    :param in_kernel: whether the kernel has a table of IPv6 addresses at all.
    :param disabled: the value of ``disable_ipv6``, None when there is no such device.
    """
    if not in_kernel:
        return "this kernel has no IPv6 (module not loaded, or ipv6.disable=1 at boot)"
    if disabled not in ("0", None):
        return f"IPv6 is switched off here (disable_ipv6={disabled})"
    return None


def why_no_ipv6_here(device: str = "all") -> str | None:
    """Call :func:`why_no_ipv6` for a device of the calling thread's namespace, or for all of it."""
    try:
        name = device_parameter("ipv6", device, "disable_ipv6")
        disabled: str | None = sysctl.read_here(name)
    except NotFound:
        disabled = None
    return why_no_ipv6(_ADDRESSES.exists(), disabled)
