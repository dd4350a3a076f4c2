"""Options of quotas: how many of each resource a project may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from oslo_config import cfg

GROUP = "quotas"
PREFIX = "quota_"

LIMITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "network": 100,
        "subnet": 100,
        "subnetpool": -1,
        "port": 500,
        "router": 10,
        "floatingip": 50,
        "port_forwarding": 500,
        "local_ip": 50,
        "firewall_group": 10,
        "firewall_policy": 10,
        "firewall_rule": 100,
        "rbac_policy": 10,
        "security_group": 10,
        "security_group_rule": 100,
        "trunk": -1,
    }
)
"""Resources that are counted, by their names in the API, and their default limits."""

QUOTAS = (
    cfg.IntOpt(
        "default_quota",
        default=-1,
        min=-1,
        help="How many a project may have of what has no option of its own; -1: any number.",
    ),
    *(
        cfg.IntOpt(
            f"{PREFIX}{name}",
            default=limit,
            min=-1,
            help=f"How many a project may have of {name}; -1: any number.",
        )
        for name, limit in LIMITS.items()
    ),
)


def limits(values: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits by resource name, from the values of the group's options."""
    return {name: int(values[f"{PREFIX}{name}"]) for name in LIMITS}


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return groups and their options, for the sample generator."""
    return [(GROUP, QUOTAS)]
