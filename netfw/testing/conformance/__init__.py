"""What every driver must keep, as pytest classes for a vendor to subclass: one file per contract.

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
    from netfw.testing.conformance.api_extension import ApiExtensionConformance
    from netfw.testing.conformance.dhcp import DhcpDriverConformance
    from netfw.testing.conformance.extension import ExtensionDriverConformance
    from netfw.testing.conformance.firewall import FirewallDriverConformance
    from netfw.testing.conformance.interface import InterfaceDriverConformance
    from netfw.testing.conformance.ipam import IpamDriverConformance
    from netfw.testing.conformance.mechanism import MechanismDriverConformance
    from netfw.testing.conformance.metadata import MetadataDriverConformance
    from netfw.testing.conformance.notifier import NotifierConformance
    from netfw.testing.conformance.state_source import StateSourceConformance
    from netfw.testing.conformance.switch import SwitchDriverConformance
    from netfw.testing.conformance.transport import TransportConformance
    from netfw.testing.conformance.type_driver import TypeDriverConformance

__all__ = [
    "ApiExtensionConformance",
    "DhcpDriverConformance",
    "ExtensionDriverConformance",
    "FirewallDriverConformance",
    "InterfaceDriverConformance",
    "IpamDriverConformance",
    "MechanismDriverConformance",
    "MetadataDriverConformance",
    "NotifierConformance",
    "StateSourceConformance",
    "SwitchDriverConformance",
    "TransportConformance",
    "TypeDriverConformance",
]

_HOMES = {
    "ApiExtensionConformance": "api_extension",
    "DhcpDriverConformance": "dhcp",
    "ExtensionDriverConformance": "extension",
    "FirewallDriverConformance": "firewall",
    "InterfaceDriverConformance": "interface",
    "IpamDriverConformance": "ipam",
    "MechanismDriverConformance": "mechanism",
    "MetadataDriverConformance": "metadata",
    "NotifierConformance": "notifier",
    "StateSourceConformance": "state_source",
    "SwitchDriverConformance": "switch",
    "TransportConformance": "transport",
    "TypeDriverConformance": "type_driver",
}


def __getattr__(name: str) -> Any:
    """A suite is loaded when it is asked for: each needs what its own contract needs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
