"""Daemons without which a router is in force: its last steps start them.  Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType

from netfw.drivers.values.router_values import RouterDriverKey
from netfw.errors import NetfwError, OperationRefused, PartlyInvalid
from netfw_drivers.linux_router.plan.daemons.conntrackd_plan import SERVICE as CONNTRACKD
from netfw_drivers.linux_router.plan.daemons.delegation_plan import SERVICE as DHCLIENT
from netfw_drivers.linux_router.plan.daemons.radvd_plan import SERVICE as RADVD

OPTIONAL: Mapping[str, str] = MappingProxyType(
    {
        RADVD: "advertisements",
        CONNTRACKD: "connections after a failover",
        DHCLIENT: "delegated prefixes",
    }
)
"""What is left out of a router without each of them."""


def left_out_daemons(
    failed: Mapping[RouterDriverKey, NetfwError], put: Container[RouterDriverKey]
) -> dict[RouterDriverKey, PartlyInvalid]:
    """Return the errors of the keys of *put* of which such a daemon alone failed."""
    found: dict[RouterDriverKey, PartlyInvalid] = {}
    for key, error in failed.items():
        if key in put and isinstance(error, OperationRefused):
            services = {getattr(each, "backend", None) for each in error.reasons}
            if services <= OPTIONAL.keys():
                found[key] = _left_out(services, error.reasons.values())
    return found


def _left_out(services: Iterable[object], reasons: Iterable[str]) -> PartlyInvalid:
    names = (name for service, name in OPTIONAL.items() if service in services)
    return PartlyInvalid({" and ".join(names): "; ".join(reasons)})
