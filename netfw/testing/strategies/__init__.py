"""Hypothesis strategies for every value of the model, for the tests of drivers and of netfw.

``resources(Kind.PORT)`` draws ports; the other functions draw single kinds and the parts they are
made of.  Whatever is drawn is a value that the model accepts.  Only this package imports
hypothesis: install it to use these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import Kind, Resource
from netfw.testing.strategies.basic import (
    addresses,
    booleans,
    dns_names,
    documents,
    hosts,
    ids,
    macs,
    maybe,
    moments,
    prefixes,
    routes,
    several,
    texts,
    tokens,
)
from netfw.testing.strategies.networks import (
    address_pairs,
    bindings,
    dhcp_options,
    fixed_ips,
    networks,
    ports,
    providers,
    segments,
    subnets,
    trunks,
    vif_details,
)
from netfw.testing.strategies.pools import address_scopes, subnet_pools
from netfw.testing.strategies.services import (
    address_groups,
    agents,
    default_security_group_rules,
    external_gateways,
    floating_ips,
    ndp_proxies,
    packet_logs,
    port_forwardings,
    qos_policies,
    qos_rules,
    rbac_policies,
    routers,
    security_group_rules,
    security_groups,
)

__all__ = [
    "address_groups",
    "address_pairs",
    "address_scopes",
    "addresses",
    "agents",
    "bindings",
    "booleans",
    "default_security_group_rules",
    "dhcp_options",
    "dns_names",
    "documents",
    "external_gateways",
    "fixed_ips",
    "floating_ips",
    "hosts",
    "ids",
    "macs",
    "maybe",
    "moments",
    "ndp_proxies",
    "networks",
    "packet_logs",
    "port_forwardings",
    "ports",
    "prefixes",
    "providers",
    "qos_policies",
    "qos_rules",
    "rbac_policies",
    "resources",
    "routers",
    "routes",
    "security_group_rules",
    "security_groups",
    "segments",
    "several",
    "subnet_pools",
    "subnets",
    "texts",
    "tokens",
    "trunks",
    "vif_details",
]

_BY_KIND: Mapping[Kind, Callable[[], SearchStrategy[Any]]] = MappingProxyType(
    {
        Kind.NETWORK: networks,
        Kind.SEGMENT: segments,
        Kind.SUBNET: subnets,
        Kind.SUBNET_POOL: subnet_pools,
        Kind.ADDRESS_SCOPE: address_scopes,
        Kind.PORT: ports,
        Kind.ROUTER: routers,
        Kind.FLOATING_IP: floating_ips,
        Kind.PORT_FORWARDING: port_forwardings,
        Kind.NDP_PROXY: ndp_proxies,
        Kind.SECURITY_GROUP: security_groups,
        Kind.SECURITY_GROUP_RULE: security_group_rules,
        Kind.DEFAULT_SECURITY_GROUP_RULE: default_security_group_rules,
        Kind.ADDRESS_GROUP: address_groups,
        Kind.PACKET_LOG: packet_logs,
        Kind.QOS_POLICY: qos_policies,
        Kind.RBAC_POLICY: rbac_policies,
        Kind.TRUNK: trunks,
        Kind.AGENT: agents,
    }
)


def resources(kind: Kind | None = None) -> SearchStrategy[Resource]:
    """Draw resources of *kind*, or of any."""
    if kind is not None:
        return _BY_KIND[kind]()
    return st.sampled_from(Kind).flatmap(resources)
