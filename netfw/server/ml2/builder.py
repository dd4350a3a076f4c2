"""Assembly of the core of a server from its database and its drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from netfw.drivers.base import Driver, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.ipam import IpamCapability, IpamDriver
from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.notifier import Notifier
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.server.type_driver import TypeDriver
from netfw.errors import ConfigError
from netfw.server.binding.binder import Mechanisms, PortBinder
from netfw.server.binding.port_bindings import PortBindingHandler
from netfw.server.core.driver_exits import exits_as_errors
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.qos_support import QosSupport
from netfw.server.core.resource_handler import ResourceHandler
from netfw.server.core.server_context import PrecommitHook, ServerContext
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
from netfw.server.outbox.targets import DeliveryTarget, DriverTarget, NotifierTarget
from netfw.server.outbox.worker import DeliveryConfig, OutboxWorkerPool
from netfw.server.qos.references import resolve_policies


@frozen(kw_only=True)
class Drivers:
    """The drivers of one server, each type in the order of the configuration.

    :raises ConfigError: two drivers of one contract describe themselves by the same name.
    """

    ipam: IpamDriver
    types: Sequence[TypeDriver] = ()
    mechanisms: Sequence[MechanismDriver] = ()
    extensions: Sequence[ExtensionDriver] = ()
    notifiers: Sequence[Notifier] = ()

    def __attrs_post_init__(self) -> None:
        _refuse_equal_names("mechanism_drivers", self.mechanisms)
        _refuse_equal_names("extension_drivers", self.extensions)
        _refuse_equal_names("notifiers", self.notifiers)


def _refuse_equal_names(option: str, drivers: Iterable[Driver]) -> None:
    """Refuse drivers of one contract with the same name.

    Bindings, queued changes and stored attributes belong to a driver by its name: one of the two
    would get those of the other, or none.

    :raises ConfigError: names both, and what to do.
    """
    found: dict[str, Driver] = {}
    for driver in drivers:
        name = driver.describe().name
        other = found.setdefault(name, driver)
        if other is not driver:
            raise ConfigError(
                f"{option}: {_class_name(other)} and {_class_name(driver)} both describe "
                f"themselves as {name!r}: remove one of them from {option}"
            )


def _class_name(driver: Driver) -> str:
    kind = type(driver)
    return f"{kind.__module__}.{kind.__qualname__}"


@frozen(kw_only=True)
class Core:
    """Components of the core plugin."""

    context: ServerContext
    types: TypeDrivers
    mechanisms: Mechanisms
    extensions: ExtensionDrivers
    binder: PortBinder
    agent_services: AgentServices
    outbox: OutboxWorkerPool
    """Outbox workers; the server process starts and closes them."""

    def handlers(self) -> tuple[ResourceHandler, ...]:
        """Return the handlers of all resources of the core plugin."""
        ports = PortHandler(self.binder, self.extensions)
        return (
            NetworkHandler(self.types, self.extensions),
            SegmentHandler(),
            SubnetHandler(self.extensions),
            ports,
            PortBindingHandler(ports, self.binder),
            *self.agent_services.handlers,
        )

    def add_service_plugins(self, services: Sequence[ServicePlugin]) -> None:
        """Add the pre-commit validation of service plugins, after all other hooks."""
        self.agent_services.services.extend(each.describe().name for each in services)
        self.context.precommit_hooks += [
            _validation_hook(each)
            for each in services
            if type(each).validate is not ServicePlugin.validate
        ]


def _validation_hook(plugin: ServicePlugin) -> PrecommitHook:
    def validate(_: UnitOfWork, change: Change) -> None:
        with exits_as_errors(plugin):
            plugin.validate(change)

    return validate


def build_core(
    database: Database,
    drivers: Drivers,
    settings: Settings | None = None,
    quotas: Mapping[str, int] | None = None,
) -> Core:
    """Assemble the core; nothing is read or written before its context is started.

    :raises ConfigError: drivers contradict each other, or the settings.
    """
    _refuse_external_ipam(drivers)
    chosen = Settings() if settings is None else settings
    context = ServerContext(
        database=database,
        settings=chosen,
        ipam=drivers.ipam,
        quotas=dict(quotas or {}),
        qos_support=QosSupport(drivers.mechanisms),
        prestore_hooks=[resolve_policies],
    )
    types = TypeDrivers(drivers.types, chosen)
    mechanisms = Mechanisms(drivers.mechanisms)
    context.startup_steps.append(lambda: database.transaction(types.define))
    context.precommit_hooks.append(mechanisms.check)
    context.hooks_need_segments = bool(mechanisms.drivers)
    binder = PortBinder(mechanisms, types)
    agent_services = build_agent_services(context, binder)
    return Core(
        context=context,
        types=types,
        mechanisms=mechanisms,
        extensions=ExtensionDrivers(drivers.extensions),
        binder=binder,
        agent_services=agent_services,
        outbox=_build_outbox(context, drivers, agent_services.statuses),
    )


def _refuse_external_ipam(drivers: Drivers) -> None:
    info = drivers.ipam.describe()
    if IpamCapability.EXTERNAL in info.capabilities:
        raise ConfigError(
            f"ipam_driver: {info.name} keeps its state outside the database, and this server calls "
            "it within transactions only"
        )


def _build_outbox(
    context: ServerContext, drivers: Drivers, statuses: PortStatuses
) -> OutboxWorkerPool:
    """Assemble the outbox: deliveries after commits, and a gate for ports that wait for drivers."""
    targets: list[DeliveryTarget] = [
        DriverTarget(each) for each in drivers.mechanisms if delivers(each)
    ]
    targets += [NotifierTarget(each) for each in drivers.notifiers]
    pace = DeliveryConfig(
        workers=context.settings.outbox_delivery_threads,
        poll=context.settings.outbox_poll_interval,
        lease=context.settings.outbox_lease_time,
        longest_pause=context.settings.outbox_retry_interval_max,
    )
    workers = OutboxWorkerPool(context, targets, statuses.reconsider, pace)
    recorder = OutboxRecorder(drivers.mechanisms, drivers.notifiers, workers.wake)
    if recorder.needed:
        context.precommit_hooks.append(recorder.watch)
        statuses.gates.append(recorder.gate)
        statuses.listeners.append(recorder.status_changed)
        statuses.ready_listeners.append(recorder.host_ready)
    context.precommit_hooks.append(statuses.watch)  # after the recorder, whose gate it passes
    return workers


def publish(core: Core, host: HostResources) -> None:
    """Share the core and its context with the plugins of *host*."""
    host.share(Core, lambda: core)
    host.share(ServerContext, lambda: core.context)
    host.share(TypeDrivers, lambda: core.types)


def core_of(host: HostResources) -> Core:
    """Return the core of the server of *host*.

    :raises ConfigError: *host* is no server.
    """

    def missing() -> Core:
        raise ConfigError("this plugin works within a netfw server only")

    return host.share(Core, missing)
