"""Names of namespaces, devices and chains of routers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from netfw.drivers.values.contribution import RuleChain
from netfw.model.ids import RouterId

NAMESPACE = "qrouter-"
INTERFACE, GATEWAY, HA = "qr-", "qg-", "ha-"
"""Prefixes of the devices of interfaces, gateways and ports on HA networks."""
CHAIN_OWNER = "router"

EXTENSION_SUFFIXES: Mapping[RuleChain, str] = MappingProxyType(
    {
        RuleChain.PREROUTING: "-PRE",
        RuleChain.INPUT: "-IN",
        RuleChain.FORWARD: "-FWD",
        RuleChain.OUTPUT: "-OUT",
        RuleChain.POSTROUTING: "-POST",
    }
)
"""Ends of the names of the chains of extensions; the driver's own are in lower case."""
LONGEST_SUFFIX = max(EXTENSION_SUFFIXES.values(), key=len)


def extension_chain(owner: str, chain: RuleChain) -> str:
    """Return the name of the chain of an extension that is entered from *chain*."""
    return f"{owner}{EXTENSION_SUFFIXES[chain]}"


def router_namespace(router: RouterId) -> str:
    """Return Neutron's name for the namespace of a router."""
    return f"{NAMESPACE}{router}"


def config_path(directory: Path, service: str, router: RouterId) -> Path:
    """Return the path of the configuration of a daemon, beside its pid files."""
    return directory / service / f"{router}.conf"


def parse_namespace(name: str) -> RouterId | None:
    """Return the router of a namespace; None if it is not the namespace of a router."""
    if not name.startswith(NAMESPACE):
        return None
    try:
        id = RouterId(UUID(name.removeprefix(NAMESPACE)))
    except ValueError:
        return None
    return id if router_namespace(id) == name else None
