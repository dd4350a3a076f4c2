"""Conformance suites: pytest classes for a vendor to subclass, one per contract.

1. Every numbered promise and every ``:raises:`` of a contract has a test; a test counts them.
2. A test is skipped only for a capability that the driver does not declare.
3. The suites look at the machine through hooks that the vendor overrides, never through the driver
   alone: a driver is not its own witness.
4. The suites are themselves tested against drivers that break one promise each.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netfw.testing.conformance.dhcp.suite import DhcpDriverConformance
    from netfw.testing.conformance.firewall.suite import FirewallDriverConformance
    from netfw.testing.conformance.interface import InterfaceDriverConformance
    from netfw.testing.conformance.l2_extension import L2ExtensionConformance
    from netfw.testing.conformance.l3_extension import L3ExtensionConformance
    from netfw.testing.conformance.metadata.suite import MetadataDriverConformance
    from netfw.testing.conformance.router.suite import RouterDriverConformance
    from netfw.testing.conformance.server.api_extension import ApiExtensionConformance
    from netfw.testing.conformance.server.core_plugin import CorePluginConformance
    from netfw.testing.conformance.server.extension_driver import ExtensionDriverConformance
    from netfw.testing.conformance.server.ipam import IpamDriverConformance
    from netfw.testing.conformance.server.mechanism import MechanismDriverConformance
    from netfw.testing.conformance.server.notifier import NotifierConformance
    from netfw.testing.conformance.server.service_plugin import ServicePluginConformance
    from netfw.testing.conformance.server.type_driver import TypeDriverConformance
    from netfw.testing.conformance.state_source.suite import StateSourceConformance
    from netfw.testing.conformance.switch.suite import SwitchDriverConformance
    from netfw.testing.conformance.transport.suite import TransportConformance

__all__ = [
    "ApiExtensionConformance",
    "CorePluginConformance",
    "DhcpDriverConformance",
    "ExtensionDriverConformance",
    "FirewallDriverConformance",
    "InterfaceDriverConformance",
    "IpamDriverConformance",
    "L2ExtensionConformance",
    "L3ExtensionConformance",
    "MechanismDriverConformance",
    "MetadataDriverConformance",
    "NotifierConformance",
    "RouterDriverConformance",
    "ServicePluginConformance",
    "StateSourceConformance",
    "SwitchDriverConformance",
    "TransportConformance",
    "TypeDriverConformance",
]

_MODULES = {
    "ApiExtensionConformance": "server.api_extension",
    "CorePluginConformance": "server.core_plugin",
    "DhcpDriverConformance": "dhcp.suite",
    "ExtensionDriverConformance": "server.extension_driver",
    "FirewallDriverConformance": "firewall.suite",
    "InterfaceDriverConformance": "interface",
    "IpamDriverConformance": "server.ipam",
    "L2ExtensionConformance": "l2_extension",
    "L3ExtensionConformance": "l3_extension",
    "MechanismDriverConformance": "server.mechanism",
    "MetadataDriverConformance": "metadata.suite",
    "NotifierConformance": "server.notifier",
    "RouterDriverConformance": "router.suite",
    "ServicePluginConformance": "server.service_plugin",
    "StateSourceConformance": "state_source.suite",
    "SwitchDriverConformance": "switch.suite",
    "TransportConformance": "transport.suite",
    "TypeDriverConformance": "server.type_driver",
}


def __getattr__(name: str) -> Any:
    """Import a suite on first access: each needs what its own contract needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
