"""Names of namespaces, devices and chains of routers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from attrs import frozen

from netfw.drivers.values.keys import AgentGatewayKey, RouterKey
from netfw.drivers.values.router_contribution import RuleChain
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import NetworkId, RouterId

NAMESPACE, CENTRAL_NAMESPACE, GATEWAY_NAMESPACE = "qrouter-", "snat-", "fip-"
"""Prefixes of the namespaces of routers, of central parts and of agent gateways."""
INTERFACE, GATEWAY, HA = "qr-", "qg-", "ha-"
"""Prefixes of the devices of interfaces, gateways and ports on HA networks."""
CENTRAL_INTERFACE, AGENT_GATEWAY = "sg-", "fg-"
"""Prefixes of the devices of a central part on internal networks, and of agent gateways."""
ROUTER_END, GATEWAY_END = "rfp-", "fpr-"
"""Prefixes of the ends of the link between a router and an agent gateway."""
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
_DIGITS = 16
LONGEST_SUFFIX = max(EXTENSION_SUFFIXES.values(), key=len)


def extension_chain(owner: str, chain: RuleChain) -> str:
    """Return the name of the chain of an extension that is entered from *chain*."""
    return f"{owner}{EXTENSION_SUFFIXES[chain]}"


def extension_subchain(owner: str, chain: RuleChain, name: str) -> str:
    """Return the name of a chain of an extension below that of *chain*; its length is fixed."""
    digest = sha256(f"{owner} {chain} {name}".encode()).hexdigest()
    return f"EXT-{digest[:_DIGITS]}"


@frozen
class CentralPart:
    """Identity of the central part of a distributed router."""

    router: RouterId

    def __str__(self) -> str:
        return f"{CENTRAL_NAMESPACE}{self.router}"


@frozen
class OptionalRuleKey:
    """Owner of a contributed rule of a router that is left out if it is refused."""

    router: RouterId
    subject: str


PartId = RouterId | CentralPart
"""Identity of what has a namespace of its own.  The id of a router stands for the full router, or
for the local part of a distributed one: a host has one of them, in the same namespace."""


def part_key(part: PartId) -> RouterKey:
    """Return the key of the router that a part belongs to."""
    return RouterKey(part.router if isinstance(part, CentralPart) else part)


def interface_prefix(part: PartId) -> str:
    """Return the prefix of the devices on internal networks."""
    return CENTRAL_INTERFACE if isinstance(part, CentralPart) else INTERFACE


def router_namespace(part: PartId) -> str:
    """Return Neutron's name for the namespace of a router, or of a part of it."""
    return str(part) if isinstance(part, CentralPart) else f"{NAMESPACE}{part}"


def gateway_namespace(network: NetworkId) -> str:
    """Return Neutron's name for the namespace of an agent gateway."""
    return f"{GATEWAY_NAMESPACE}{network}"


def link_devices(router: RouterId) -> tuple[str, str]:
    """Return the names of the link to an agent gateway: the router's end, the gateway's end."""
    return device_name(ROUTER_END, router), device_name(GATEWAY_END, router)


def config_path(directory: Path, service: str, part: PartId) -> Path:
    """Return the path of the configuration of a daemon, beside its pid files."""
    return directory / service / f"{part}.conf"


def parse_part(text: str) -> PartId | None:
    """Return the part whose text this is; None if it is not that of a part."""
    try:
        id = RouterId(UUID(text.removeprefix(CENTRAL_NAMESPACE)))
    except ValueError:
        return None
    found = (part for part in (id, CentralPart(id)) if str(part) == text)
    return next(found, None)


def parse_namespace(name: str) -> PartId | None:
    """Return the part of a namespace; None if it is not the namespace of a router."""
    if name.startswith(NAMESPACE):
        part = parse_part(name.removeprefix(NAMESPACE))
        return None if isinstance(part, CentralPart) else part
    return parse_part(name) if name.startswith(CENTRAL_NAMESPACE) else None


def parse_gateway_namespace(name: str) -> NetworkId | None:
    """Return the network of the namespace of an agent gateway; None if it is no such name."""
    try:
        id = NetworkId(UUID(name.removeprefix(GATEWAY_NAMESPACE)))
    except ValueError:
        return None
    return id if gateway_namespace(id) == name else None


NetnsId = PartId | AgentGatewayKey
"""Identity of a namespace that is watched."""


def netns_name(id: NetnsId) -> str:
    """Return the name of a namespace."""
    if isinstance(id, AgentGatewayKey):
        return gateway_namespace(id.network)
    return router_namespace(id)


def netns_key(id: NetnsId) -> RouterKey | AgentGatewayKey:
    """Return the key that a namespace belongs to."""
    return id if isinstance(id, AgentGatewayKey) else part_key(id)


def parse_netns(name: str) -> NetnsId | None:
    """Return the identity of a namespace; None if it is none of the driver."""
    network = parse_gateway_namespace(name)
    return parse_namespace(name) if network is None else AgentGatewayKey(network)
