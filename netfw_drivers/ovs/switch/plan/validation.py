"""Validation of switch values, without the machine.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain

from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import ExtensionKey, PortKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import (
    Endpoint,
    HostMac,
    LocalNetwork,
    RouterInterface,
    SwitchEntry,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.errors import InvalidInput, NetfwError, NotFound, NotSupported
from netfw.model.router import MAX_ROUTER_INTERFACES
from netfw.model.segment import VLAN_IDS, WELL_KNOWN_TYPES, NetworkType, Segment
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout, grant_violation
from netfw_drivers.ovs.switch.plan.settings import Settings


def refusals(
    put: Mapping[SwitchKey, SwitchValue], settings: Settings, layout: ExtensionLayout
) -> dict[SwitchKey, NetfwError]:
    """Return the keys that cannot be had, whatever the machine has."""
    found: dict[SwitchKey, NetfwError] = {}
    for key, value in put.items():
        problem = _problem(key, value, settings, layout)
        if problem is not None:
            found[key] = problem
    return found


def _problem(
    key: SwitchKey, value: SwitchValue, settings: Settings, layout: ExtensionLayout
) -> NetfwError | None:
    mismatch = entry_error(SwitchEntry, key, value)
    if mismatch is not None:
        return mismatch
    problems: Iterable[NetfwError] = ()
    match value:
        case Wiring():
            problems = chain(
                _wiring(key, value), _contributions_errors(value.contributions, layout)
            )
        case LocalNetwork():
            problems = chain(
                _network(value, settings), _portless_errors(value.contributions, layout)
            )
        case Tunnel() if isinstance(key, Endpoint):
            problems = _tunnel(key, settings)
        case HostMac():
            problems = _host(value)
        case SwitchContribution() if isinstance(key, ExtensionKey):
            problems = _contribution_errors(key, value, layout)
    return next(iter(problems), None)


def _wiring(key: SwitchKey, value: Wiring) -> Iterator[NetfwError]:
    if value.subport is None:
        return
    if value.subport.vlan not in VLAN_IDS:
        yield InvalidInput({"subport.vlan": f"{value.subport.vlan} is no tag of a sub-port"})
    if isinstance(key, PortKey) and value.subport.parent == key.port:
        yield InvalidInput({"subport.parent": "is the port itself"})


def _network(value: LocalNetwork, settings: Settings) -> Iterator[NetfwError]:
    if not value.segments:
        yield InvalidInput({"segments": "there is none that this host can reach"})
    for segment in value.segments:
        yield from _segment(segment, settings)
    yield from _routers(value.router_interfaces)


def _routers(interfaces: frozenset[RouterInterface]) -> Iterator[NetfwError]:
    """Yield what keeps distributed routers from being told apart."""
    if len(interfaces) > MAX_ROUTER_INTERFACES:
        text = f"a network has at most {MAX_ROUTER_INTERFACES}, not {len(interfaces)}"
        yield InvalidInput({"router_interfaces": text})
    named: tuple[tuple[str, list[Hashable]], ...] = (
        ("port", [one.port for one in interfaces]),
        ("MAC address", [one.mac for one in interfaces]),
        ("address", [address.ip for one in interfaces for address in one.addresses]),
    )
    for kind, values in named:
        twice = sorted(str(value) for value, count in Counter(values).items() if count > 1)
        if twice:
            yield InvalidInput({"router_interfaces": f"two have the {kind} {', '.join(twice)}"})


def _host(value: HostMac) -> Iterator[NetfwError]:
    kinds = [endpoint.type for endpoint in value.endpoints]
    if value.own and kinds:
        yield InvalidInput({"endpoints": "there is no tunnel to this host itself"})
    if len(set(kinds)) < len(kinds):
        yield InvalidInput({"endpoints": "a host has one of each type at most"})


def _segment(segment: Segment, settings: Settings) -> Iterator[NetfwError]:
    provider = segment.provider
    kind, physical = provider.network_type, provider.physical_network
    if not kind.is_well_known:
        known = ", ".join(WELL_KNOWN_TYPES)
        yield NotSupported(f"openvswitch carries no {kind} segments: it carries {known}")
    if kind.is_tunnel and kind not in settings.tunnel_types:
        yield NotSupported(f"this host does no {kind}: add it to tunnel_types")
    if kind in {NetworkType.FLAT, NetworkType.VLAN} and physical not in settings.mappings:
        yield NotFound(f"no bridge leads to {physical}: add {physical}:BRIDGE to bridge_mappings")
    if (kind.is_tunnel or kind is NetworkType.VLAN) and provider.segmentation_id is None:
        yield InvalidInput({"segmentation_id": f"a {kind} segment needs one to be wired"})


def _tunnel(endpoint: Endpoint, settings: Settings) -> Iterator[NetfwError]:
    local = settings.local_ip
    if endpoint.type not in settings.tunnel_types or local is None:
        yield NotSupported(f"this host does no {endpoint.type}: add it to tunnel_types")
    elif endpoint.address.version != local.version:
        yield InvalidInput(
            {str(endpoint): f"its address is not of the family of local_ip, {local}"}
        )
    elif endpoint.address == local:
        yield InvalidInput({str(endpoint): "that is this host itself"})


def _contributions_errors(
    contributions: Iterable[SwitchContribution], layout: ExtensionLayout
) -> Iterator[NetfwError]:
    for contribution in contributions:
        problem = grant_violation(contribution, layout)
        if problem is not None:
            yield problem


def _portless_errors(
    contributions: Iterable[SwitchContribution], layout: ExtensionLayout
) -> Iterator[NetfwError]:
    for contribution in contributions:
        if contribution.network_flows:
            text = "it has network_flows, which only contributions to ports have"
            yield InvalidInput({contribution.owner: text})
    yield from _contributions_errors(contributions, layout)


def _contribution_errors(
    key: ExtensionKey, value: SwitchContribution, layout: ExtensionLayout
) -> Iterator[NetfwError]:
    if value.owner != key.owner:
        yield InvalidInput({str(key): f"it is a contribution of {value.owner}"})
    yield from _portless_errors((value,), layout)
