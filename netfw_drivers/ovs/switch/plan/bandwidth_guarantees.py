"""Guaranteed bandwidth of ports, by HTB classes of the device that leads outside.  Pure.

The frames of a port are found by their source MAC address and VLAN tag, since a switch in userspace
hands no class of a packet to the kernel.  Class and filter of a port have its number in the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from attrs import field, frozen

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Wiring
from netfw.errors import NetfwError, NotSupported, ResourceExhausted
from netfw.linux.tc.text import (
    render_class,
    render_class_removal,
    render_filter,
    render_filter_removal,
    render_root,
)
from netfw.linux.tc.values import (
    HTB,
    ClassFilter,
    DeviceTraffic,
    TrafficChange,
    TrafficClass,
    shown_kbps,
    source_program,
)
from netfw.model.segment import Provider
from netfw.model.values.address import Mac
from netfw.ovs.ovsdb.values import Snapshot
from netfw.plan import Operation, Stage
from netfw_drivers.ovs.switch.plan.settings import USERSPACE, Settings

TRAFFIC = "tc"
HANDLE, WHOLE, OTHERS = 0x6E66, 0xFFFF, 0xFFFE
"""Numbers of our queueing discipline, of the class of the whole device, and of that for frames
without a guarantee.  Ports have lower numbers."""
LEAST_SHARE = 100
"""One part in as many is left to frames without a guarantee, even if all is guaranteed: ARP and
DHCP have to pass."""
SEND_BUFFER_PACKETS = 92
"""Full frames that fit into the send buffer (212,992 octets) by which a switch in userspace sends
all its packets.  If one queue filled it, frames of all others would be lost."""
SHORTEST_QUEUE = 10


@frozen(kw_only=True)
class Guarantee:
    """Bandwidth that the frames of a port keep where they leave this host."""

    bridge: str
    number: int
    """Number of the port in the switch."""
    mac: Mac
    vlan: int | None
    kbps: int


@frozen(kw_only=True)
class GuaranteePlan:
    """What to change on devices, and the guarantees that are in force after that."""

    in_force: Mapping[PortKey, Guarantee] = field(factory=dict)
    puts: tuple[Stage, ...] = ()
    removals: tuple[Stage, ...] = ()
    refused: Mapping[PortKey, NetfwError] = field(factory=dict)


def make_guarantee(
    wiring: Wiring, number: int, provider: Provider, settings: Settings
) -> Guarantee | NetfwError | None:
    """Return what the contributions of a port guarantee, or why this host cannot."""
    kbps = max((each.guaranteed_kbps for each in wiring.contributions), default=0)
    if not kbps:
        return None
    bridge = settings.mappings.get(provider.physical_network or "")
    if bridge is None:
        return NotSupported(
            f"minimum bandwidth is guaranteed on physical networks, and a network of type "
            f"{provider.network_type} is none: remove the rule, or use a flat or VLAN network"
        )
    if settings.egress_kbps(bridge) is None:
        return NotSupported(
            f"minimum bandwidth needs the bandwidth of the device of {bridge}: set "
            f"resource_provider_bandwidths = {bridge}:KBPS:"
        )
    return Guarantee(
        bridge=bridge,
        number=number,
        mac=wiring.mac,
        vlan=provider.segmentation_id,
        kbps=kbps,
    )


def physical_devices(snapshot: Snapshot, settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the devices of the system on each bridge that leads to a physical network."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys(settings.mappings.values(), ())
    for port in snapshot.ports.values():
        if port.bridge in found and port.name not in settings.physical_ends:
            names = [each.name for each in port.interfaces if each.type in ("", "system")]
            found[port.bridge] += tuple(names)
    return found


def plan_guarantees(
    wanted: Mapping[PortKey, Guarantee],
    snapshot: Snapshot,
    traffic: Mapping[str, DeviceTraffic],
    settings: Settings,
    is_removable: Callable[[int], bool],
) -> GuaranteePlan:
    """Plan the classes of all devices.

    *traffic* has the devices that were read; *is_removable* tells of the number of a class whether
    it may go if no guarantee has it.
    """
    if not wanted and all(each.handle != HANDLE for each in traffic.values()):
        return GuaranteePlan()
    plans: list[_DevicePlan] = []
    refused: dict[PortKey, NetfwError] = {}
    for bridge, devices in physical_devices(snapshot, settings).items():
        own = {key: each for key, each in wanted.items() if each.bridge == bridge}
        problem = _device_problem(bridge, devices, traffic) if own else None
        if problem is not None:
            refused |= dict.fromkeys(own, problem)
            continue
        for device in devices:
            if device in traffic and (own or traffic[device].handle == HANDLE):
                plan = _DevicePlan(
                    device,
                    traffic[device],
                    own,
                    bridge=bridge,
                    settings=settings,
                    is_removable=is_removable,
                )
                plans.append(plan)
                refused |= plan.refused
    return GuaranteePlan(
        in_force=wanted,
        puts=tuple(Stage((each,)) for plan in plans for each in plan.puts()),
        removals=tuple(Stage((each,)) for plan in plans for each in plan.removals()),
        refused=refused,
    )


def _device_problem(
    bridge: str, devices: Collection[str], traffic: Mapping[str, DeviceTraffic]
) -> NetfwError | None:
    if len(devices) != 1:
        names = ", ".join(sorted(devices)) or "none"
        return NotSupported(
            f"minimum bandwidth needs one device of the kernel on {bridge}, and it has {names}"
        )
    (device,) = devices
    if device not in traffic:
        return NotSupported(
            f"minimum bandwidth: device {device} of {bridge} is not in the network namespace of "
            "the agent"
        )
    found = traffic[device]
    if not found.is_default and (found.kind, found.handle) != (HTB, HANDLE):
        return NotSupported(
            f"minimum bandwidth: device {device} has the queueing discipline {found.kind} "
            f"{found.handle:x}: of another owner, which is left as it is: remove it (tc qdisc del "
            f"dev {device} root), or the rule"
        )
    return None


class _DevicePlan:
    """The plan of one device."""

    def __init__(
        self,
        device: str,
        traffic: DeviceTraffic,
        wanted: Mapping[PortKey, Guarantee],
        *,
        bridge: str,
        settings: Settings,
        is_removable: Callable[[int], bool],
    ) -> None:
        self._device, self._traffic, self._wanted = device, traffic, wanted
        self._fresh = traffic.handle != HANDLE
        self._capacity = shown_kbps(settings.egress_kbps(bridge) or 1)
        self._limited = settings.datapath_type == USERSPACE
        numbers = {each.number for each in wanted.values()}
        left = traffic.classes.keys() - numbers - {WHOLE, OTHERS}
        self._gone = () if self._fresh else tuple(sorted(filter(is_removable, left)))
        self._kept = {} if self._fresh else {n: traffic.classes[n] for n in left - {*self._gone}}
        self.refused = dict(self._exceeding(bridge))

    def puts(self) -> Iterator[Operation]:
        """Yield what makes and changes classes."""
        if not self._wanted and not self._kept:
            return
        owners = frozenset(self._wanted)
        if self._fresh:
            root = (render_root(self._device, HANDLE, OTHERS), *self._lines(*self._shared()))
            undo = (f"qdisc del dev {self._device} root",)
            yield self._operation("add root class", root, owners, undo)
        else:
            for each in self._shared():
                if self._traffic.classes.get(each.minor) != each:
                    text = f"set class {each.minor:x} rate {each.kbps} kbit/s"
                    yield self._operation(text, tuple(self._lines(each)), owners)
        for key, guarantee in self._wanted.items():
            yield from self._put(key, guarantee)

    def removals(self) -> Iterator[Operation]:
        """Yield what removes classes; without any, the device has its default again."""
        if self._fresh:
            return
        if not self._wanted and not self._kept:
            yield self._operation("remove all classes", (f"qdisc del dev {self._device} root",))
            return
        for number in self._gone:
            lines = [render_class_removal(self._device, HANDLE, number)]
            if number in self._traffic.filters:
                chosen = self._traffic.filters[number]
                lines.insert(0, render_filter_removal(self._device, HANDLE, chosen))
            yield self._operation(f"remove class {number:x}", tuple(lines))

    def _exceeding(self, bridge: str) -> Iterator[tuple[PortKey, NetfwError]]:
        """Yield the ports for which nothing is left; those that have their class come first."""
        left = self._capacity - sum(each.kbps for each in self._kept.values())

        def rank(entry: tuple[PortKey, Guarantee]) -> tuple[bool, str]:
            found = self._traffic.classes.get(entry[1].number)
            return found is None or found.kbps != shown_kbps(entry[1].kbps), str(entry[0])

        for key, guarantee in sorted(self._wanted.items(), key=rank):
            if guarantee.kbps > left:
                yield (
                    key,
                    ResourceExhausted(
                        f"minimum bandwidth of {guarantee.kbps} kbit/s: of the {self._capacity} "
                        f"kbit/s of {bridge} only {left} are not guaranteed to other ports"
                    ),
                )
            else:
                left -= guarantee.kbps

    def _shared(self) -> tuple[TrafficClass, TrafficClass]:
        """Return the class of the device, and that of frames without a guarantee."""
        used = sum(each.kbps for each in self._wanted.values())
        used += sum(each.kbps for each in self._kept.values())
        rest = max(self._capacity - used, self._capacity // LEAST_SHARE, 8)
        most = self._capacity
        return (
            TrafficClass(minor=WHOLE, kbps=most, ceil_kbps=most),
            self._class(OTHERS, rest),
        )

    def _class(self, number: int, kbps: int) -> TrafficClass:
        count = len(self._wanted) + len(self._kept) + 1
        limit = max(SEND_BUFFER_PACKETS // count, SHORTEST_QUEUE) if self._limited else None
        return TrafficClass(
            minor=number,
            parent=WHOLE,
            kbps=shown_kbps(min(kbps, self._capacity)),
            ceil_kbps=self._capacity,
            limit=limit,
        )

    def _put(self, key: PortKey, guarantee: Guarantee) -> Iterator[Operation]:
        number = guarantee.number
        wanted = self._class(number, guarantee.kbps)
        chosen = ClassFilter(
            minor=number,
            priority=1 if guarantee.vlan is not None else 2,
            program=source_program(guarantee.mac, guarantee.vlan),
        )
        have = None if self._fresh else self._traffic.classes.get(number)
        have_filter = None if self._fresh else self._traffic.filters.get(number)
        lines: list[str] = []
        if have != wanted:
            lines += self._lines(wanted)
        if have_filter != chosen:
            if have_filter is not None and have_filter.priority != chosen.priority:
                lines.append(render_filter_removal(self._device, HANDLE, have_filter))
            lines.append(render_filter(self._device, HANDLE, chosen))
        if lines:
            removal = render_class_removal(self._device, HANDLE, number)
            text = f"guarantee {guarantee.kbps} kbit/s to {guarantee.mac} by class {number:x}"
            undo = (removal,) if have is None else ()
            yield self._operation(text, tuple(lines), {key}, undo)

    def _lines(self, *classes: TrafficClass) -> Iterator[str]:
        for each in classes:
            yield from render_class(self._device, HANDLE, each)

    def _operation(
        self,
        text: str,
        lines: tuple[str, ...],
        owners: Collection[PortKey] = (),
        undo: tuple[str, ...] = (),
    ) -> Operation:
        text = f"{self._device}: {text}"
        change = TrafficChange(device=self._device, text=text, lines=lines, undo=undo)
        return Operation(TRAFFIC, text, frozenset(owners), change)
