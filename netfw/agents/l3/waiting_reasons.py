"""Why routers and floating IPs wait for the switch.  Pure."""

from __future__ import annotations

from collections.abc import Set

from netfw.drivers.values.router_values import FloatingIpNat, RouterPart, RouterPort, RouterState
from netfw.model.values.ids import PortId
from netfw.model.values.text_validation import render_names

DISTRIBUTED_ADVICE = (
    "interfaces of a distributed router need enable_distributed_routing = true in [agent] of the "
    "L2 agent of this host"
)


def local_interfaces(state: RouterState) -> tuple[RouterPort, ...]:
    """Return the interfaces of the local part of a router."""
    return () if state.local is None else state.local.interfaces


def router_reason(interfaces: tuple[RouterPort, ...], unwired: Set[PortId]) -> str:
    """Return why a router waits whose ports *unwired* the switch has not admitted.

    *interfaces* are those of its local part.
    """
    names = render_names(sorted(map(str, unwired)), len(unwired))
    reason = f"the switch has not admitted port {names} yet"
    is_local = any(each.id in unwired for each in interfaces)
    return f"{reason}; {DISTRIBUTED_ADVICE}" if is_local else reason


def floating_ip_reason(
    nat: FloatingIpNat, interfaces: tuple[RouterPort, ...], unwired: Set[PortId]
) -> str:
    """Return why a floating IP waits for the interface to its port; empty: it does not."""
    if nat.part is not RouterPart.LOCAL:
        return ""
    to_port = {
        each.id
        for each in interfaces
        if any(nat.fixed_address in address.network for address in each.addresses)
    }
    is_cut_off = bool(to_port) and to_port <= unwired
    return router_reason(interfaces, to_port) if is_cut_off else ""
