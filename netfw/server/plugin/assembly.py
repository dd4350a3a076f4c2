"""The core of a server, put together of its database and its drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from netfw.drivers.base import Capability, Host
from netfw.drivers.change import Change
from netfw.drivers.extension_driver import ExtensionDriver
from netfw.drivers.ipam import IpamDriver
from netfw.drivers.mechanism import MechanismDriver
from netfw.drivers.notifier import Notifier
from netfw.drivers.service_plugin import ServicePlugin
from netfw.drivers.type_driver import TypeDriver
from netfw.errors import ConfigError
from netfw.server.db.database import Database
from netfw.server.plugin.attendance import Attendance, attend
from netfw.server.plugin.backbone import Backbone, Watcher
from netfw.server.plugin.binder import Binder
from netfw.server.plugin.extensions import Extensions
from netfw.server.plugin.keeper import Keeper
from netfw.server.plugin.mechanisms import Mechanisms
from netfw.server.plugin.networks import NetworkKeeper, SegmentKeeper
from netfw.server.plugin.outbox import OutboxWatch
from netfw.server.plugin.outbox_delivery import Delivery, Pace
from netfw.server.plugin.outbox_targets import DriverTarget, NotifierTarget, Target
from netfw.server.plugin.port_bindings import PortBindingKeeper
from netfw.server.plugin.ports import PortKeeper
from netfw.server.plugin.segment_types import SegmentTypes
from netfw.server.plugin.settings import Settings
from netfw.server.plugin.statuses import PortStatuses
from netfw.server.plugin.subnets import SubnetKeeper
from netfw.server.plugin.unit import Unit


@frozen(kw_only=True)
class Drivers:
    """The drivers of one server, each sort in the order of the configuration."""

    ipam: IpamDriver
    types: Sequence[TypeDriver] = ()
    mechanisms: Sequence[MechanismDriver] = ()
    extensions: Sequence[ExtensionDriver] = ()
    notifiers: Sequence[Notifier] = ()


@frozen(kw_only=True)
class Core:
    """What the core plugin works with."""

    backbone: Backbone
    types: SegmentTypes
    mechanisms: Mechanisms
    extensions: Extensions
    binder: Binder
    attendance: Attendance
    delivery: Delivery
    """To be started by who runs a server, and closed at its end."""

    def keepers(self) -> tuple[Keeper, ...]:
        """Of all resources that the core plugin keeps."""
        return (
            NetworkKeeper(self.types, self.extensions),
            SegmentKeeper(),
            SubnetKeeper(self.extensions),
            PortKeeper(self.binder, self.extensions),
            PortBindingKeeper(),
            *self.attendance.keepers,
        )

    def add_service_plugins(self, services: Sequence[ServicePlugin]) -> None:
        """Give service plugins their say in changes of any resource, after all who have theirs."""
        self.attendance.services.extend(each.describe().name for each in services)
        for each in services:
            if type(each).check is not ServicePlugin.check:
                self.backbone.watchers.append(_asking(each))


def _asking(plugin: ServicePlugin) -> Watcher:
    def ask(_: Unit, change: Change) -> None:
        plugin.check(change)

    return ask


def assemble(
    database: Database,
    drivers: Drivers,
    settings: Settings | None = None,
    quotas: Mapping[str, int] | None = None,
) -> Core:
    """Put the core together; nothing is read or written before its backbone is started.

    :raises ConfigError: drivers contradict each other, or the settings.
    """
    info = drivers.ipam.describe()
    if Capability.EXTERNAL in info.capabilities:
        raise ConfigError(
            f"ipam_driver: {info.name} keeps its books outside the database, and this server calls "
            "it within transactions only"
        )
    chosen = Settings() if settings is None else settings
    backbone = Backbone(
        database=database, settings=chosen, ipam=drivers.ipam, quotas=dict(quotas or {})
    )
    types = SegmentTypes(drivers.types, chosen)
    mechanisms = Mechanisms(drivers.mechanisms)
    backbone.starting.append(lambda: database.transaction(types.define))
    backbone.watchers.append(mechanisms.check)
    backbone.segments_wanted = bool(mechanisms.drivers)
    binder = Binder(mechanisms, types)
    attendance = attend(backbone, binder)
    return Core(
        backbone=backbone,
        types=types,
        mechanisms=mechanisms,
        extensions=Extensions(drivers.extensions),
        binder=binder,
        attendance=attendance,
        delivery=_delivering(backbone, drivers, attendance.statuses),
    )


def _delivering(backbone: Backbone, drivers: Drivers, statuses: PortStatuses) -> Delivery:
    """Have drivers and notifiers be told after commits, and ports wait for their drivers."""
    targets: list[Target] = [DriverTarget(each) for each in drivers.mechanisms if each.delivers]
    targets += [NotifierTarget(each) for each in drivers.notifiers]
    pace = Pace(
        workers=backbone.settings.outbox_workers,
        poll=backbone.settings.outbox_poll,
        lease=backbone.settings.outbox_lease,
        longest_pause=backbone.settings.outbox_longest_pause,
    )
    delivery = Delivery(backbone, targets, statuses.reconsider, pace)
    outbox = OutboxWatch(drivers.mechanisms, drivers.notifiers, delivery.wake)
    if outbox.needed:
        backbone.watchers.append(outbox.watch)
        statuses.gates.append(outbox.gate)
        statuses.listeners.append(outbox.status_changed)
    return delivery


def offer(core: Core, host: Host) -> None:
    """Have the plugins of *host* find the core, and its backbone."""
    host.share(Core, lambda: core)
    host.share(Backbone, lambda: core.backbone)


def core_of(host: Host) -> Core:
    """The core that the server of *host* has.

    :raises ConfigError: this is no server.
    """

    def missing() -> Core:
        raise ConfigError("this plugin works within a netfw server only")

    return host.share(Core, missing)
