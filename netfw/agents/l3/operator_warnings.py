"""Warnings for the operator of a host that lacks L3 extensions which routers need.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import nsmallest
from typing import Final

from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.model import l3_extensions
from netfw.model.values.text_validation import render_names

NEEDED_EXTENSIONS: Final = {
    l3_extensions.ROUTER_FIREWALL: "firewall groups are not in force",
    l3_extensions.PORT_FORWARDING: "port forwardings are not in force",
    l3_extensions.CONNTRACK_HELPER: "conntrack helpers are not in force",
    l3_extensions.NDP_PROXY: "NDP proxies are not in force",
    l3_extensions.FIP_QOS: "QoS policies of floating IPs are not in force",
    l3_extensions.GATEWAY_IP_QOS: "QoS policies of gateways are not in force",
}
_MAX_NAMED = 20


def extension_warnings(index: L3ResourceIndex, extensions: Collection[str]) -> dict[str, str]:
    """Return a warning for each extension that routers need and *extensions* lacks."""
    warnings = {}
    for name, consequence in NEEDED_EXTENSIONS.items():
        if name not in extensions and (users := index.users_of_extension(name)):
            named = _named((f"{each.kind} {each.id}" for each in users), len(users))
            warnings[f"extension {name}"] = (
                f"{consequence}: {named}; add {name} to extensions of [agent]"
            )
    return warnings


def _named(names: Iterable[str], count: int) -> str:
    return render_names(nsmallest(_MAX_NAMED, names), count, _MAX_NAMED)
