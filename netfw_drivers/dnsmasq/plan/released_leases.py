"""Leases of ports that must not have them any more.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.drivers.dhcp import DhcpKey
from netfw.drivers.values.keys import PortKey
from netfw.model.values.device_names import dhcp_namespace
from netfw_drivers.dnsmasq.config.file_parsers import HostEntry, Lease, find_leases, read_leases
from netfw_drivers.dnsmasq.config.subnet_modes import served
from netfw_drivers.dnsmasq.plan.steps import ReleaseLease
from netfw_drivers.dnsmasq.plan.target import NetworkTarget


def plan_released_leases(
    target: NetworkTarget, *, all_leases: bool
) -> list[tuple[ReleaseLease, DhcpKey]]:
    """Return one release per address, each with the key that it is done for.

    :param all_leases: release also the leases that belong to no port.
    """
    if not target.found.leases:
        return []
    leases = [*_leases_of_gone(target), *_leases_of_changed(target)]
    releases = {lease.address: (_release(target, lease), owner) for lease, owner in leases}
    for lease in _orphaned_leases(target) if all_leases else ():
        releases[lease.address] = (_release(target, lease, orphaned=True), target.key)
    return [*releases.values()]


def is_served(target: NetworkTarget, lease: Lease) -> bool:
    """Return whether dnsmasq serves the address of *lease*, and so handles its release.

    True as well if the network's subnets are unknown.
    """
    if target.value is None:
        return True
    return any(lease.address in subnet.cidr for subnet, _ in served(target.value.subnets))


def _leases_of_gone(target: NetworkTarget) -> Iterator[tuple[Lease, DhcpKey]]:
    files = target.found.files
    for port in sorted(target.gone, key=str):
        former = files.tombstones.get(port) or files.entry(port)
        for lease in _held_leases(target, former, former):
            yield lease, PortKey(port)


def _leases_of_changed(target: NetworkTarget) -> Iterator[tuple[Lease, DhcpKey]]:
    """Yield leases on addresses that a port loses; all of them if its MAC address changes."""
    files = target.found.files
    for port, changed in target.changed.items():
        if port in files.ports:
            former, now = files.entry(port), changed.entry
            lost = former.addresses - (now.addresses if former.macs == now.macs else set())
            for lease in _held_leases(target, HostEntry(former.macs, frozenset(lost)), former):
                yield lease, changed.owner


def _orphaned_leases(target: NetworkTarget) -> Iterator[Lease]:
    files = target.found.files
    known = {address for entry in target.entries() for address in entry.addresses}
    known |= {address for port in target.gone for address in files.entry(port).addresses}
    for lease in read_leases(target.found.leases):
        if lease.address not in known:
            yield lease


def _held_leases(target: NetworkTarget, entry: HostEntry, former: HostEntry) -> Iterator[Lease]:
    """Yield the leases on the addresses of *entry* whose holder is *former*."""
    for lease in find_leases(target.found.leases, sorted(entry.addresses, key=str)):
        if lease.address.version == 6 or lease.holder in former.macs:
            yield lease


def _release(target: NetworkTarget, lease: Lease, *, orphaned: bool = False) -> ReleaseLease:
    text = target.spec.text.interface if target.spec else target.found.files.interface or ""
    return ReleaseLease(
        files=target.paths,
        netns=dhcp_namespace(target.id),
        device=text.strip(),
        lease=lease,
        orphaned=orphaned,
    )
