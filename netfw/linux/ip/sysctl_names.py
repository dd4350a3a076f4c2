"""Names of kernel parameters, as sysctl(8) takes them.  Pure.

Dots separate, unless a slash comes first, so that devices may have dots in their names:
``net.ipv4.ip_forward``, ``net/ipv4/conf/eth0.1/forwarding``.
"""

from __future__ import annotations

from functools import lru_cache

_ROOT = "/proc/sys"
_CACHED = 4096
"""Limit of cached names; a router has a dozen for each of its devices."""


@lru_cache(_CACHED)
def path_of(name: str) -> str:
    """Return the path of the parameter in ``/proc/sys``.

    :raises ValueError: not a name of a parameter.
    """
    slash, dot = name.find("/"), name.find(".")
    by_slash = slash >= 0 and (dot < 0 or slash < dot)
    # Where dots separate, a slash stands for a dot within a word.
    parts = name.split("/") if by_slash else [part.replace("/", ".") for part in name.split(".")]
    if not all(parts) or {".", ".."} & set(parts) or not name.isprintable() or " " in name:
        raise ValueError(f"not the name of a kernel parameter: {name!r}")
    return "/".join((_ROOT, *parts))


def device_parameter(family: str, device: str, parameter: str) -> str:
    """Return the name of a parameter of one device, whatever characters its name has.

    One of its neighbour table begins with ``neigh/``.
    """
    folder, _, name = parameter.rpartition("/")
    return f"net/{family}/{folder or 'conf'}/{device}/{name}"
