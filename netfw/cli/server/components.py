"""The components of the server, built from its configuration.

Its two listeners, the API for clients and RPC for agents, are in
:mod:`netfw.cli.server.listeners`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Self, TypeVar

from attrs import fields_dict

from netfw.cli.runtime.driver_options import Kinds, driver_options, groups_of, make, names
from netfw.conf import api, core, database, identity, outbox, plugin, quota, scheduling, server
from netfw.conf.loader import Groups
from netfw.drivers.base import Contract, Driver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.api_extension import ApiExtension
from netfw.drivers.server.core_plugin import CorePlugin
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.ipam import IpamDriver
from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.notifier import Notifier
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.server.type_driver import TypeDriver
from netfw.drivers.transport import Transport
from netfw.drivers.values.agent_requests import Request
from netfw.drivers.values.reports import Heartbeat, Report, ReportResult
from netfw.errors import BackendError, ConfigError, NotSupported
from netfw.model.router import HA_MARKERS
from netfw.model.segment import NetworkType
from netfw.server.core.document_handler import DocumentsPlugin
from netfw.server.core.settings import Settings
from netfw.server.db import migration
from netfw.server.db.database import ReadSnapshot
from netfw.server.db.factory import journal_retention, make_database
from netfw.server.db.outbox import Backlog, OutboxRows
from netfw.server.l3.conntrack_helpers import parse_allowed
from netfw.server.ml2.builder import Core, Drivers, build_core, publish
from netfw.server.state_source.commit_watcher import CommitWatcher
from netfw.server.state_source.database_source import DatabaseSource

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts, Opt

LOG = logging.getLogger(__name__)
D = TypeVar("D", bound=Driver)

PROGRAM = "netfw-server"
ML2_GROUP = plugin.GROUP
KINDS: Kinds = {
    (None, "core_plugin"): CorePlugin,
    (None, "service_plugins"): ServicePlugin,
    (None, "ipam_driver"): IpamDriver,
    (None, "notifiers"): Notifier,
    (None, "api_extensions"): ApiExtension,
    (ML2_GROUP, "type_drivers"): TypeDriver,
    (ML2_GROUP, "mechanism_drivers"): MechanismDriver,
    (ML2_GROUP, "extension_drivers"): ExtensionDriver,
    (server.GROUP, "transport"): Transport,
}
LONGEST_HA_PREFIX = 28
"""Of a prefix for HA networks: shorter ones have addresses for several routers."""
OWN = (server, api, database, identity, plugin, scheduling, outbox, quota)
"""Modules with the server's own options."""


def own_groups() -> Groups:
    """Return the server's own options, by group."""
    found: dict[str | None, list[Opt]] = {}
    for module in OWN:
        for group, options in module.list_opts():
            found.setdefault(group, []).extend(options)
    return found


def server_groups(argv: Sequence[str]) -> Groups:
    """Return the options of the server and of the drivers that the files in *argv* choose.

    :raises ConfigError: a file cannot be read, or a driver does not exist or cannot be used.
    """
    return groups_of(PROGRAM, argv, own_groups(), KINDS)


def settings_of(conf: ConfigOpts) -> Settings:
    """Return the plugins' settings: the options of the same names, in whichever group.

    The settings of the outbox have its name before those of its options.
    """
    values: dict[str, Any] = {}
    for name, options in own_groups().items():
        group = conf if name is None else conf[name]
        prefix = f"{name}_" if name == outbox.GROUP else ""
        values |= {f"{prefix}{option.dest}": group[option.dest] for option in options}
    known = fields_dict(Settings)
    types = tuple(
        _network_type("tenant_network_types", each) for each in values.pop("tenant_network_types")
    )
    external = values.pop("external_network_type") or None
    ha_type = values.pop("l3_ha_network_type") or None
    _check_ha_network(values["l3_ha_net_cidr"], ha_type, values["l3_ha_network_physical_name"])
    _check_base_macs(values["base_mac"], values["dvr_base_mac"])
    _check_conntrack_helpers(values["allowed_conntrack_helpers"])
    plain = {name: _plain(value) for name, value in values.items() if name in known}
    return Settings(
        tenant_network_types=types,
        external_network_type=external and _network_type("external_network_type", external),
        l3_ha_network_type=ha_type and _network_type("l3_ha_network_type", ha_type),
        **plain,
    )


def _network_type(option: str, name: str) -> NetworkType:
    try:
        return NetworkType(name)
    except ValueError as exc:
        raise ConfigError(f"{option}: {exc}") from None


def _check_conntrack_helpers(words: Sequence[str]) -> None:
    try:
        parse_allowed(words)
    except ValueError as exc:
        raise ConfigError(f"allowed_conntrack_helpers: {exc}") from None


def _check_base_macs(ports: str, hosts: str) -> None:
    """Refuse one prefix of the MAC addresses of ports and of hosts.

    :raises ConfigError: they have the same first three octets.
    """
    if ports.lower().replace("-", ":").split(":")[:3] == hosts.split(":")[:3]:
        raise ConfigError(
            f"dvr_base_mac: {hosts} begins as base_mac, {ports}: a host would get the MAC address "
            "of a port; set another dvr_base_mac"
        )


def _check_ha_network(cidr: str, network_type: str | None, physical_network: str) -> None:
    """Validate the options of HA networks.

    :raises ConfigError: no network can be like that.
    """
    try:
        prefix = ip_network(cidr)
    except ValueError as exc:
        raise ConfigError(f"l3_ha_net_cidr: {exc}") from None
    if prefix.version != 4 or prefix.prefixlen > LONGEST_HA_PREFIX:
        raise ConfigError(
            f"l3_ha_net_cidr: {cidr} is not an IPv4 prefix of at most {LONGEST_HA_PREFIX} bits, "
            "which has an address for each host of each router"
        )
    if prefix.overlaps(HA_MARKERS):
        raise ConfigError(
            f"l3_ha_net_cidr: {cidr} overlaps {HA_MARKERS}, by which hosts mark the routers that "
            "are active there"
        )
    if physical_network and network_type is None:
        raise ConfigError("l3_ha_network_physical_name needs l3_ha_network_type: flat or vlan")


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def own_options() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the server's own options, without those of drivers."""
    return list(own_groups().items())


def list_opts() -> list[tuple[str | None, Sequence[Opt]]]:
    """List the options of the server and of every driver that it can use, for the sample file."""
    return [*core.list_opts(), *own_options(), *driver_options(KINDS)]


class ServerComponents:
    """Database, drivers, plugins and state source of one server.

    Nothing is connected before :meth:`start`. Closing it leaves the database as it is.

    :raises ConfigError: the configuration is not possible.
    """

    def __init__(self, conf: ConfigOpts) -> None:
        self.conf = conf
        self.status_listeners: list[Callable[[], None]] = []
        """Called after agents reported statuses; they neither block nor raise."""
        with ExitStack() as stack:
            self.database = make_database(conf)
            stack.callback(self.database.close)
            self.host = stack.enter_context(LocalHostResources())
            self.core = self._core(stack)
            publish(self.core, self.host)
            self.plugin = self._made(CorePlugin, None, "core_plugin", stack)[0]
            self.host.add(self.plugin)
            self.services = self._made(ServicePlugin, None, "service_plugins", stack)
            self.core.add_service_plugins(self.services)
            self.extensions = self._made(ApiExtension, None, "api_extensions", stack)
            self.plugins = _by_resource([self.plugin, *self.services])
            self.plugins |= self._documents()
            self.commits = CommitWatcher(self.database, journal_retention(conf))
            stack.callback(self.commits.close)
            self.source = DatabaseSource(
                self.database,
                self.commits,
                handle_reports=self.handle_reports,
                handle_request=self.handle_request,
            )
            stack.callback(self.source.close)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Prepare the database, and start the background tasks.

        :raises BackendError: the database does not answer, or its schema is wrong.
        """
        self.prepare()
        self.start_tasks()

    def prepare(self) -> None:
        """Migrate an SQLite file, check the schema, and prepare for the configuration.

        :raises BackendUnavailable: the database does not answer; retry.
        :raises BackendBroken: its schema is wrong.
        """
        if self.conf.server.upgrade_database and self.database.is_file:
            migration.upgrade(self.database)
        migration.require_newest(self.database)
        self.core.context.start()

    def start_tasks(self) -> None:
        """Start the background tasks; the database is prepared."""
        self.commits.start()
        self.core.agent_services.rescheduler.start()
        self._stack.callback(self.core.agent_services.rescheduler.close)
        self.core.outbox.start()
        self._stack.callback(self.core.outbox.close)

    def why_not_ready(self) -> str:
        """Return why the database does not answer or store; empty when it does."""

        def look(view: ReadSnapshot) -> None:
            self.database.check_epoch(view.connection, view.journal.cursor().epoch)

        try:
            self.database.read(look)
        except BackendError as exc:
            return str(exc)
        return "the disk of the database is full" if self.database.is_full else ""

    def state(self) -> Mapping[str, float]:
        """Return the gauges for metrics.

        :raises BackendError: the database does not answer.
        """

        def look(view: ReadSnapshot) -> tuple[list[float], int, list[Backlog]]:
            backlogs = list(OutboxRows(view.connection).backlogs().values())
            silences = list(view.heartbeats.silent_for().values())
            return silences, view.journal.cursor().seq, backlogs

        silences, seq, backlogs = self.database.read(look)
        dead = sum(silence > self.core.context.settings.agent_down_time for silence in silences)
        return {
            "netfw_agents_alive": len(silences) - dead,
            "netfw_agents_dead": dead,
            "netfw_journal_commits": seq,
            "netfw_outbox_waiting": sum(each.waiting for each in backlogs),
            "netfw_outbox_refused": sum(each.failed for each in backlogs),
            "netfw_outbox_oldest_seconds": max((each.oldest for each in backlogs), default=0.0),
        }

    def __str__(self) -> str:
        served = " and ".join(self.conf.server.serve)
        names = ", ".join(each.describe().name for each in (self.plugin, *self.services))
        return f"{served}; plugins {names}; database {self.database}"

    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        """Pass the reports of agents to the core plugin; then call the listeners for statuses."""
        result = self.plugin.handle_reports(reports)
        if self.status_listeners and not all(isinstance(each, Heartbeat) for each in reports):
            for listener in self.status_listeners:
                listener()
        return result

    def handle_request(self, request: Request[Any]) -> Any:
        """Pass a request of an agent to the first plugin that handles it.

        :raises NotSupported: no plugin does.
        """
        handlers = [self.plugin.handle_request, *(each.handle_request for each in self.services)]
        for handle in handlers:
            try:
                return handle(request)
            except NotSupported:
                continue
        raise NotSupported(f"no plugin of this server handles {type(request).__name__}")

    def _documents(self) -> dict[str, ResourcePlugin]:
        """Return the plugin for vendors' resources that no plugin stores."""
        declared = [each for extension in self.extensions for each in extension.resources()]
        self.core.context.add_default_quotas(declared)
        left = [each for each in declared if each.name not in self.plugins]
        stored = DocumentsPlugin(self.core.context, left)
        return dict.fromkeys(stored.resource_names, stored)

    def _core(self, stack: ExitStack) -> Core:
        drivers = Drivers(
            ipam=self._made(IpamDriver, None, "ipam_driver", stack)[0],
            types=self._made(TypeDriver, ML2_GROUP, "type_drivers", stack),
            mechanisms=self._made(MechanismDriver, ML2_GROUP, "mechanism_drivers", stack),
            extensions=self._made(ExtensionDriver, ML2_GROUP, "extension_drivers", stack),
            notifiers=self._made(Notifier, None, "notifiers", stack),
        )
        limits = quota.limits(self.conf[quota.GROUP])
        return build_core(self.database, drivers, settings_of(self.conf), limits)

    def _made(self, kind: Contract[D], group: str | None, option: str, stack: ExitStack) -> list[D]:
        made: list[D] = []
        for name in names(self.conf, group, option):
            fallback = plugin.shared_values(self.conf)
            made.append(make(self.conf, kind, name, self.host, fallback))
            stack.callback(made[-1].close)
        if not made and isinstance(_value(self.conf, group, option), str | None):
            raise ConfigError(f"[{group or 'DEFAULT'}] {option} names no driver, and one is needed")
        return made


def _value(conf: ConfigOpts, group: str | None, option: str) -> object:
    return conf[option] if group is None else conf[group][option]


def _by_resource(plugins: Iterable[ResourcePlugin]) -> dict[str, ResourcePlugin]:
    """Map each resource to its plugin.

    :raises ConfigError: two plugins store the same resource.
    """
    found: dict[str, ResourcePlugin] = {}
    for each in plugins:
        for name in sorted(each.resource_names):
            if name in found:
                first, second = (which.describe().name for which in (found[name], each))
                raise ConfigError(
                    f"plugins {first!r} and {second!r} both store {name}: take one out of "
                    "core_plugin or service_plugins"
                )
            found[name] = each
    return found
