"""Warnings for the operator of a host, although nothing failed.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import nsmallest

from netfw.agents.l2.desired_switch import DesiredSwitch
from netfw.agents.l2.hybrid_ports import has_hybrid_plug
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.firewall import FirewallCapability
from netfw.model.local_ip import EXTENSION as LOCAL_IP_EXTENSION
from netfw.model.packet_log import EXTENSION
from netfw.model.values.address import IpAddress
from netfw.model.values.text_validation import render_names

_MAX_NAMED = 20


def collect_warnings(
    desired: DesiredSwitch, firewall: DriverInfo[Capability] | None
) -> dict[str, str]:
    """Return the warnings by name, the most important first."""
    warnings: dict[str, str] = {}
    if desired.untrusted and (
        firewall is None or FirewallCapability.FILTERING not in firewall.capabilities
    ):
        name = "no firewall_driver" if firewall is None else f"firewall_driver {firewall.name}"
        warnings[name] = (
            f"security groups of {_ports(len(desired.untrusted))} are not enforced; "
            f"set {'' if firewall is None else 'another '}firewall_driver of [agent]"
        )
    elif desired.mixed_networks:
        warnings["port_security"] = (
            "ports without port security share networks with filtered ports of other projects, "
            "and can open connections to them whatever their security groups: "
            f"{_named(map(str, desired.mixed_networks), len(desired.mixed_networks))}"
        )
    own = {endpoint.address for endpoint in desired.view.facts.endpoints}
    if own and (advertised := desired.advertised_addresses - own):
        warnings["local_ip"] = (
            f"tunnels of this host start at {_texts(own)}, but the source advertises "
            f"{_texts(advertised)} to other hosts: change local_ip, or the source"
        )
    if desired.unbound:
        names = (device.name for port in desired.unbound if (device := desired.device(port)))
        warnings["unbound_devices"] = (
            "plugged, but not bound to this host, and therefore dead: "
            f"{_named(names, len(desired.unbound))}"
        )
    return warnings


def hybrid_plug_warnings(
    desired: DesiredSwitch, firewall: DriverInfo[Capability] | None
) -> dict[str, str]:
    """Return a warning of ports that have yet to be plugged anew to move from *firewall*."""
    if firewall is None:
        return {}
    names = [each.name for each in desired.devices.values() if has_hybrid_plug(each.name)]
    if not names:
        text = "no port has a hybrid plug any more: make it one of retired_firewall_drivers"
    else:
        text = f"filters ports that have to be plugged anew to move: {_named(names, len(names))}"
    return {f"hybrid_firewall_driver {firewall.name}": text}


def logging_warnings(
    desired: DesiredSwitch, index: L2ResourceIndex, extensions: Collection[str]
) -> dict[str, str]:
    """Return a warning of ports that should be logged and are not."""
    if EXTENSION in extensions or not index.is_logging():
        return {}
    ports = (index.port(id) for id in desired.ports())
    count = sum(port is not None and index.is_logged(port) for port in ports)
    if not count:
        return {}
    text = f"packets of {_ports(count)} should be logged: set extensions = {EXTENSION} of [agent]"
    return {"packet logs": text}


def local_ip_warnings(index: L2ResourceIndex, extensions: Collection[str]) -> dict[str, str]:
    """Return a warning of ports that local IPs should lead to and do not."""
    unserved = index.ports_without_local_ip(served=LOCAL_IP_EXTENSION in extensions)
    if not unserved:
        return {}
    if LOCAL_IP_EXTENSION in extensions:
        remedy = "another port of this host has the same one: delete one port_association"
    else:
        remedy = f"set extensions = {LOCAL_IP_EXTENSION} of [agent]"
    names = _named(map(str, unserved), len(unserved))
    return {"local IPs": f"not all local IPs lead to their ports {names}: {remedy}"}


def _texts(addresses: Iterable[IpAddress]) -> str:
    return ", ".join(sorted(map(str, addresses)))


def _named(names: Iterable[str], count: int) -> str:
    return render_names(nsmallest(_MAX_NAMED, names), count, _MAX_NAMED)


def _ports(number: int) -> str:
    return "1 port" if number == 1 else f"{number} ports"
