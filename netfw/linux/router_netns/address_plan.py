"""Changes of the addresses of a router namespace, by the time at which they are safe.  Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from attrs import evolve, frozen

from netfw.linux.ip.operations import AddAddress, DelAddress, NetworkOperation
from netfw.linux.ip.plan import plan_addresses
from netfw.linux.ip.values import Address, FoundAddress
from netfw.linux.router_netns.values import NetnsDevice, NetnsLink, NetnsPort, RouterNetns
from netfw.linux.service_netns.device_plan import LOOPBACK, MAKES_LINK_LOCAL, is_to_be_plugged
from netfw.linux.service_netns.values import ObservedNetns, why_without_ipv6
from netfw.model.values.address import IpAddress, IpInterface


@frozen(kw_only=True)
class AddressChanges:
    """Changes of addresses, by the time at which they are safe."""

    floating: tuple[DelAddress, ...]
    """Single addresses that are removed, after the filters have changed."""
    new: tuple[NetworkOperation, ...]
    """Addresses that are added, after the filters and devices."""
    old: tuple[NetworkOperation, ...]
    """Addresses of networks that are removed, after their replacements are in use."""
    bare: frozenset[str]
    """Devices that lose all IPv4 addresses, and with the last one their IPv4 routes, before others
    are added."""

    @property
    def devices(self) -> frozenset[str]:
        """Devices whose routes may be removed with an address."""
        gone = (each for each in (*self.new, *self.old) if isinstance(each, DelAddress))
        return frozenset(each.address.device for each in gone) | self.bare


def plan_address_changes(wanted: RouterNetns, found: ObservedNetns) -> AddressChanges:
    """Return the changes of the addresses of all ports."""
    floating: list[DelAddress] = []
    new: list[NetworkOperation] = []
    old: list[NetworkOperation] = []
    for port in wanted.devices:
        addresses = desired = list(_addresses(port, found))
        if is_to_be_made(port, found):
            new += [AddAddress(address, replace=True) for address in addresses]
            desired = []
        have = [*_present(port, found)]
        planned = plan_addresses(desired, have) if port.device in found.links else ()
        ips = {address.interface.ip for address in addresses} if planned else set[IpAddress]()
        for operation in planned:
            if not isinstance(operation, DelAddress):
                (old if _is_renewed(operation) else new).append(operation)
            elif operation.address.interface.ip in ips:
                new.insert(0, operation)  # one address cannot have two prefix lengths
            elif _is_single(operation.address.interface):
                floating.append(operation)
            else:
                old.append(operation)
    single = {each.address.device for each in floating if each.address.interface.version == 4}
    bare = frozenset(single) - _numbered(found, floating)
    return AddressChanges(floating=tuple(floating), new=tuple(new), old=tuple(old), bare=bare)


def is_to_be_made(device: NetnsDevice, found: ObservedNetns) -> bool:
    """Return whether the device is missing, wrong, or without its other end or its switch."""
    if isinstance(device, NetnsPort):
        return is_to_be_plugged(device, found)
    link = found.links.get(device.device)
    return link is None or (isinstance(device, NetnsLink) and device.is_broken)


def _numbered(found: ObservedNetns, removed: Iterable[DelAddress]) -> frozenset[str]:
    """Return the devices that have an IPv4 address when these are removed."""
    gone = {each.address for each in removed}
    there = (entry.address for entry in found.addresses if entry.address not in gone)
    return frozenset(each.device for each in there if each.interface.version == 4)


def plan_departures(found: ObservedNetns, keep: Container[str]) -> Iterator[DelAddress]:
    """Remove the addresses of devices that are not to be kept, and added ones of the loopback."""
    for entry in found.addresses:
        device = entry.address.device
        leaves = device in found.links and device not in keep
        usual = device == LOOPBACK and (entry.address.interface.is_loopback or not entry.permanent)
        if leaves and not usual and not entry.automatic:
            yield DelAddress(entry.address)


def _present(port: NetnsDevice, found: ObservedNetns) -> Iterator[FoundAddress]:
    """Yield the addresses of a device, without virtual ones.

    The link-local address that the kernel made before it was told not to is one like any other.
    """
    makes_none = port.settings.get(f"ipv6/{MAKES_LINK_LOCAL}") == "1"
    for entry in found.addresses:
        address = entry.address
        if address.device != port.device:
            continue
        if address.peer is None and address.interface in port.virtual_addresses:
            continue
        yield evolve(entry, automatic=False) if makes_none and entry.automatic else entry


def _is_renewed(operation: NetworkOperation) -> bool:
    return isinstance(operation, AddAddress) and operation.replace


def _is_single(interface: IpInterface) -> bool:
    return interface.network.prefixlen == interface.max_prefixlen


def _addresses(port: NetnsDevice, found: ObservedNetns) -> Iterator[Address]:
    without = why_without_ipv6(port, found)
    for interface in port.addresses:
        if interface.version == 4 or without is None:
            nodad = interface.version == 6
            yield Address(device=port.device, interface=interface, nodad=nodad)
