"""The core of a server, put together of its database and its drivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from netfw.drivers.base import HostResources
from netfw.drivers.change import Change
from netfw.drivers.extension_driver import ExtensionDriver
from netfw.drivers.ipam import IpamCapability, IpamDriver
from netfw.drivers.mechanism import MechanismDriver
from netfw.drivers.notifier import Notifier
from netfw.drivers.service_plugin import ServicePlugin
from netfw.drivers.type_driver import TypeDriver
from netfw.errors import ConfigError
from netfw.server.binding.binder import Mechanisms, PortBinder
from netfw.server.binding.port_bindings import PortBindingHandler
from netfw.server.core.context import PrecommitHook, ServerContext
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.settings import Settings
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.database import Database
from netfw.server.l2.networks import NetworkHandler, SegmentHandler
from netfw.server.l2.port_status import PortStatuses
from netfw.server.l2.ports import PortHandler
from netfw.server.l2.subnets import SubnetHandler
from netfw.server.ml2.agent_services import AgentServices, build_agent_services
from netfw.server.outbox.recorder import OutboxRecorder, delivers
from netfw.server.outbox.targets import DriverTarget, NotifierTarget, Target
from netfw.server.outbox.worker import DeliveryConfig, OutboxWorkers


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

    backbone: ServerContext
    types: TypeDrivers
    mechanisms: Mechanisms
    extensions: ExtensionDrivers
    binder: PortBinder
    attendance: AgentServices
    delivery: OutboxWorkers
    """To be started by who runs a server, and closed at its end."""

    def keepers(self) -> tuple[ResourceHandler, ...]:
        """Of all resources that the core plugin keeps."""
        return (
            NetworkHandler(self.types, self.extensions),
            SegmentHandler(),
            SubnetHandler(self.extensions),
            PortHandler(self.binder, self.extensions),
            PortBindingHandler(),
            *self.attendance.keepers,
        )

    def add_service_plugins(self, services: Sequence[ServicePlugin]) -> None:
        """Give service plugins their say in changes of any resource, after all who have theirs."""
        self.attendance.services.extend(each.describe().name for each in services)
        for each in services:
            self.backbone.watchers.append(_asking(each))


def _asking(plugin: ServicePlugin) -> PrecommitHook:
    def ask(_: UnitOfWork, change: Change) -> None:
        plugin.check(change)

    return ask


def build_core(
    database: Database,
    drivers: Drivers,
    settings: Settings | None = None,
    quotas: Mapping[str, int] | None = None,
) -> Core:
    """Put the core together; nothing is read or written before its backbone is started.

    :raises ConfigError: drivers contradict each other, or the settings.
    """
    info = drivers.ipam.describe()
    if IpamCapability.EXTERNAL in info.capabilities:
        raise ConfigError(
            f"ipam_driver: {info.name} keeps its books outside the database, and this server calls "
            "it within transactions only"
        )
    chosen = Settings() if settings is None else settings
    backbone = ServerContext(
        database=database, settings=chosen, ipam=drivers.ipam, quotas=dict(quotas or {})
    )
    types = TypeDrivers(drivers.types, chosen)
    mechanisms = Mechanisms(drivers.mechanisms)
    backbone.starting.append(lambda: database.transaction(types.define))
    backbone.watchers.append(mechanisms.check)
    backbone.segments_wanted = bool(mechanisms.drivers)
    binder = PortBinder(mechanisms, types)
    attendance = build_agent_services(backbone, binder)
    return Core(
        backbone=backbone,
        types=types,
        mechanisms=mechanisms,
        extensions=ExtensionDrivers(drivers.extensions),
        binder=binder,
        attendance=attendance,
        delivery=_delivering(backbone, drivers, attendance.statuses),
    )


def _delivering(backbone: ServerContext, drivers: Drivers, statuses: PortStatuses) -> OutboxWorkers:
    """Have drivers and notifiers be told after commits, and ports wait for their drivers."""
    targets: list[Target] = [DriverTarget(each) for each in drivers.mechanisms if delivers(each)]
    targets += [NotifierTarget(each) for each in drivers.notifiers]
    pace = DeliveryConfig(
        workers=backbone.settings.outbox_workers,
        poll=backbone.settings.outbox_poll,
        lease=backbone.settings.outbox_lease,
        longest_pause=backbone.settings.outbox_longest_pause,
    )
    delivery = OutboxWorkers(backbone, targets, statuses.reconsider, pace)
    outbox = OutboxRecorder(drivers.mechanisms, drivers.notifiers, delivery.wake)
    if outbox.needed:
        backbone.watchers.append(outbox.watch)
        statuses.gates.append(outbox.gate)
        statuses.listeners.append(outbox.status_changed)
    return delivery


def publish(core: Core, host: HostResources) -> None:
    """Have the plugins of *host* find the core, and its backbone."""
    host.share(Core, lambda: core)
    host.share(ServerContext, lambda: core.backbone)


def core_of(host: HostResources) -> Core:
    """The core that the server of *host* has.

    :raises ConfigError: this is no server.
    """

    def missing() -> Core:
        raise ConfigError("this plugin works within a netfw server only")

    return host.share(Core, missing)
