"""What the machine has of the ports of one bridge, and how the driver was configured.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from netfw.drivers.interface import Attachment
from netfw.linux.ip.values import Link
from netfw.model.values.device_names import device_name, is_device_name, is_namespace_name
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.values import Bridge, OvsdbPort
from netfw.plan import Update

NETNS = "netfw-netns"
DEVICE = "netfw-device"
"""Where a port's device is, and what it is called when that is not the name of the OVS port."""
STATUS = "iface-status"
ATTACHED_MAC = "attached-mac"

TAP = "tun"
MADE_BY_SWITCH = frozenset({TAP, "openvswitch"})
"""Kinds of the devices that a switch makes for internal ports: in userspace, in the kernel."""

Namespace = str | None
"""A network namespace by name; ``None`` is the switch's own."""


@frozen(kw_only=True)
class Observed:
    """What the machine has, as far as an update concerns it."""

    bridge: Bridge | None
    ours: Mapping[PortId, tuple[OvsdbPort, ...]] = field(factory=dict)
    named: Mapping[str, OvsdbPort] = field(factory=dict)
    """OVS ports of the names in question, of any owner."""
    links: Mapping[Namespace, Mapping[str, Link]] = field(factory=dict)
    """Devices by namespace; a namespace that is not in here does not exist."""

    def link(self, namespace: Namespace, name: str) -> Link | None:
        return self.links.get(namespace, {}).get(name)


@frozen(kw_only=True)
class InterfaceSettings:
    """How this driver was configured."""

    bridge: str
    use_veth: bool = False

    def port_name(self, port_id: PortId, attachment: Attachment) -> str:
        """Return the name of the OVS port: the device, or the veth's end at the bridge."""
        if not self.use_veth:
            return attachment.device
        end = device_name("tap", port_id)
        return end if end != attachment.device else device_name("ovs", port_id)

    def names(
        self, put: Mapping[PortId, Attachment], ours: Mapping[PortId, tuple[OvsdbPort, ...]]
    ) -> dict[Namespace, set[str]]:
        """Return the devices to read, by namespace, for these keys alone."""
        found: dict[Namespace, set[str]] = {None: set()}
        for port_id in put.keys() | ours.keys():
            names: set[str] = set()
            namespaces: set[Namespace] = {None}
            for port in ours.get(port_id, ()):
                names |= {port.name, device_of(port)}
                namespaces.add(namespace_of(port))
            wanted = put.get(port_id)
            if wanted is not None:
                names |= {self.port_name(port_id, wanted), wanted.device}
                namespaces.add(wanted.netns)
            for namespace in namespaces:
                found.setdefault(namespace, set()).update(filter(is_device_name, names))
        return found


def namespace_of(port: OvsdbPort) -> Namespace:
    """Return the namespace of a port's device; an invalid mark counts as none."""
    name = port.external_ids.get(NETNS)
    return name if name is not None and is_namespace_name(name) else None


def device_of(port: OvsdbPort) -> str:
    """Return the device that the owner of a port uses; an invalid mark counts as none."""
    name = port.external_ids.get(DEVICE)
    return name if name is not None and is_pair(port) and is_device_name(name) else port.name


def is_pair(port: OvsdbPort) -> bool:
    """Return whether a port of ours is one end of a veth pair."""
    return DEVICE in port.external_ids and port.interface.type != "internal"


def has_valid_marks(port: OvsdbPort) -> bool:
    """Return whether the marks of a port are valid, as this driver makes them."""
    marks = port.external_ids
    namespace, device = marks.get(NETNS), marks.get(DEVICE)
    return (namespace is None or is_namespace_name(namespace)) and (
        device is None or is_device_name(device)
    )


def is_unusable(port: OvsdbPort) -> bool:
    """Return whether a port of ours never had a device."""
    if is_pair(port):
        return STATUS not in port.interface.external_ids
    return port.interface.error is not None


def is_abandoned(port: OvsdbPort, link: Link) -> bool:
    """Return whether *link* is the port's device, and the switch that made it has ended.

    A tap loses its carrier with the process that has it open.
    """
    return (
        link.kind == TAP
        and link.mac == port.interface.mac
        and not link.carrier
        and not is_unusable(port)
    )


def is_stranded(port: OvsdbPort, observed: Observed) -> bool:
    """Return whether a port of ours cannot be moved, because its name is taken there."""
    namespace = namespace_of(port)
    root_link, there = observed.link(None, port.name), observed.link(namespace, port.name)
    return (
        namespace is not None
        and not is_pair(port)
        and root_link is not None
        and root_link.kind in MADE_BY_SWITCH
        and there is not None
        and there.kind not in MADE_BY_SWITCH
    )


def leaving(update: Update[PortId, Attachment], observed: Observed) -> Iterator[PortId]:
    """Return the ports of ours that *update* removes."""
    yield from sorted(update.drop & observed.ours.keys())
    if update.complete:
        staying = update.put.keys() | update.drop | update.keep
        yield from sorted(observed.ours.keys() - staying)
