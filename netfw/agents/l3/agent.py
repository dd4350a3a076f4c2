"""L3Agent: runs the routers that are assigned to this host, by a router driver.

It joins the modules that decide (`desired`, `router_state`, `distributed_router_state`) with the
ones that act (`executor`, `agent_gateway_executor`); a job is about one router and its floating
IPs, or about the agent gateway to one external network.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from attrs import evolve, frozen

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult
from netfw.agents.common.clock import Clock, SystemClock
from netfw.agents.common.driver_update import DriverUpdate
from netfw.agents.common.extension_calls import ExtensionCallKey, ExtensionChanged
from netfw.agents.common.jobs.job_agent import JobAgent, JobFinished
from netfw.agents.common.jobs.job_executor import SweepResult
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.status_reporter import KeyResult, StatusReporter
from netfw.agents.l3.agent_gateway_executor import AgentGatewayExecutor
from netfw.agents.l3.desired import DesiredL3, L3Group, L3Key, L3Value
from netfw.agents.l3.executor import L3JobExecutor, read_role
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.operator_warnings import extension_warnings
from netfw.agents.l3.prefix_reporter import PrefixReporter, has_delegated
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.role_reporter import RoleReporter
from netfw.agents.l3.router_parts import L3HostContext, NotOnHost
from netfw.agents.l3.router_state import ha_of
from netfw.agents.l3.state_report import L3AgentConfig, make_state_report, validate_config
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.l3_extension import L3Extension
from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.state_source import StateSource
from netfw.drivers.support.router_directory import RouterDirectory
from netfw.drivers.values.agent_requests import EnabledServices
from netfw.drivers.values.events import Event, KeysChanged, Sink
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.reports import Heartbeat, Report
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import (
    PrefixDelegated,
    RoleChanged,
    RouterDriverValue,
    RouterState,
)
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import (
    BackendUnavailable,
    ConfigError,
    NetfwError,
    NotSupported,
    PartlyInvalid,
)
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import RouterId
from netfw.plan import Outcome

ROUTER_SERVICE = "router"
"""The service plugin of a server that has routers."""
NOT_HERE = "the router is distributed, and this host has no part of it"


@frozen
class InitializedMark:
    """The key of the mark that the first full sync is done; retried like any key."""

    def __str__(self) -> str:
        return "mark of the first full sync"


MARK = InitializedMark()


class L3Agent(JobAgent[L3Group, L3Key, L3Value]):
    """The work of an L3 agent, for :class:`~netfw.agents.common.loop.Loop`.

    :raises ConfigError: the settings contradict each other.
    """

    KEY_TYPES: ClassVar[tuple[type[Any], ...]] = (RouterKey, FloatingIpKey, AgentGatewayKey)
    _settings: L3AgentConfig
    _executor: L3JobExecutor
    _desired: DesiredL3

    def __init__(
        self,
        settings: L3AgentConfig,
        source: StateSource,
        driver: RouterDriver,
        *,
        interface: InterfaceDriver | None = None,
        metadata: MetadataDriver | None = None,
        extensions: Sequence[L3Extension] = (),
        directory: RouterDirectory | None = None,
        clock: Clock | None = None,
    ) -> None:
        validate_config(settings, driver.describe(), has_metadata=metadata is not None)
        self.binary = settings.binary
        self._source, self._driver, self._interface = source, driver, interface
        self._context = _make_context(settings, driver)
        routers = RouterDirectory() if directory is None else directory
        routers.attach(driver)
        self._extensions = RouterExtensions(extensions, routers)
        self._base: Mapping[str, RouterContribution] = {}
        self.resources: L3ResourceIndex = L3ResourceIndex()
        self._is_marked, self._has_swept = interface is None, False
        self._services: frozenset[str] | None = None
        self._activated: set[L3Key] = set()
        """Keys that were ACTIVE since the agent started."""
        statuses: StatusReporter[L3Key] = StatusReporter(settings.host, Service.L3, self._status_of)
        self._clock = clock or SystemClock()
        self._roles = RoleReporter(settings.host, settings.ha_role_report_interval, settings.boot)
        self._prefixes = PrefixReporter(
            source,
            lambda router, subnet: has_delegated(self._desired.value(RouterKey(router)), subnet),
            lambda: self._sink(JobFinished("a prefix was reported")),
            settings.wait_timeout,
        )
        executor = self._make_executor(settings, metadata, routers)
        super().__init__(settings, executor, self.make_desired(), statuses)

    def _make_executor(
        self, settings: L3AgentConfig, metadata: MetadataDriver | None, routers: RouterDirectory
    ) -> L3JobExecutor:
        return L3JobExecutor(
            self._driver,
            AgentGatewayExecutor(settings.host, self._source, self._driver),
            metadata,
            publish=routers.publish,
            record_role=self._record_role,
            left_out=self._left_out,
        )

    @property
    def subscription(self) -> Subscription:
        return Subscription(self._settings.host, {Service.L3})

    def make_desired(self) -> DesiredL3:
        return DesiredL3(self._context, self.resources, self._extensions, self._base)

    def watch(self, sink: Sink) -> None:
        def handle(event: Event) -> None:
            if isinstance(event, PrefixDelegated):
                self._prefixes.record(event)
            if not isinstance(event, RoleChanged):
                sink(event)
                return
            if event.role is not HaRole.ACTIVE:
                self._prefixes.forget(event.router)
            # The role is recorded before the loop wakes, which else finds no report to wait for.
            former = self._roles.record_event(
                event.router, event.role, self._clock.now(), event.reason
            )
            sink(event)
            if former is HaRole.ACTIVE and event.role is not HaRole.ACTIVE:
                # A process that was killed may have left a part of the active router behind.
                sink(KeysChanged("no longer active", {RouterKey(event.router)}))

        super().watch(handle)
        self._extensions.watch(sink)

    def start(self) -> None:
        try:
            self._services = self._source.request(EnabledServices())
        except NotSupported:
            self._services = None
        try:
            self._base = self._extensions.start(self._driver.grant)
        except NotSupported as exc:
            raise ConfigError(f"an extension cannot work on this router driver: {exc}") from exc
        super().start()

    def keys_of(self, key: Hashable) -> Iterator[L3Key]:
        """Return *key*; with a router, the floating IPs whose rules are part of it."""
        yield from self.job_keys((key,))
        if isinstance(key, RouterKey):
            yield from self._desired.contributed(key.router)

    def apply_delta(self, delta: ReplicaDelta) -> frozenset[Hashable]:
        former = self._desired
        keys = super().apply_delta(delta)
        if delta.complete:
            for key in former.all_keys() - self._desired.all_keys():
                if isinstance(key, RouterKey):
                    self._extensions.update(key.router, None)
        for changed in keys:
            if isinstance(changed, RouterKey):
                self._prefixes.compare(changed.router, self._desired.value(changed))
        mark = frozenset[Hashable]() if self._is_marked else frozenset({MARK})
        return keys | self._desired.take_calls() | mark | self._prefixes.keys

    def handle_events(self, events: Sequence[Event]) -> frozenset[Hashable]:
        calls = frozenset[Hashable]()
        for event in events:
            if isinstance(event, ExtensionChanged):
                calls |= self._extensions.keys(event.owner, event.ids)
        mark = frozenset[Hashable]() if self._is_marked else frozenset({MARK})
        return super().handle_events(events) | calls | mark | self._prefixes.keys

    def converge(self, task: ConvergeRequest[Hashable]) -> ConvergeResult[Hashable]:
        self._desired.recontribute(k for k in task.keys if isinstance(k, ExtensionCallKey))
        self._jobs.request(self._desired.take_changed())
        result = super().converge(task)
        more = self._extensions.outcome(task.keys) | self._mark_initialized(task)
        more |= self._prefixes.converge(task.keys)
        return evolve(result, outcome=result.outcome | more)

    def close(self) -> None:
        self._prefixes.close()
        super().close()

    def reports(self) -> Sequence[Report]:
        roles = self._roles.take(self._desired.ha_router, self._clock.now())
        return (*super().reports(), *roles)

    def report_delay(self) -> float | None:
        return self._roles.delay(self._clock.now())

    def resend_reports(self) -> None:
        super().resend_reports()
        self._roles.resend()

    def touch_reports(self, keys: Iterable[L3Key]) -> None:
        touched = tuple(keys)
        super().touch_reports(touched)
        self._roles.touch(key.router for key in touched if isinstance(key, RouterKey))

    def sweep(self) -> SweepResult[L3Key]:
        result = self._executor.sweep(self._desired.values, first=not self._has_swept)
        self._has_swept = True
        self._activated &= self._desired.all_keys()
        return result

    def everything(self) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, for a dry run."""
        self._desired.contribute_all()
        routers, *others = self._executor.everything(self._desired.values)
        yield evolve(routers, refused={**routers.refused, **self._extensions.failed})
        yield from others

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings,
            self._driver.describe(),
            self._extensions.names,
            self.counts(),
            start=start,
        )

    def counts(self) -> Mapping[str, int]:
        return {
            "routers": self._count_served(RouterKey),
            "interfaces": self._desired.interfaces,
            "ex_gw_ports": self._desired.gateways,
            "floating_ips": self._count_served(FloatingIpKey),
            "agent_gateways": self._count_served(AgentGatewayKey),
            "ha_routers": self._desired.ha_routers,
            "active_ha_routers": self._roles.count(HaRole.ACTIVE),
        }

    def _count_served(self, key_type: type[RouterKey | FloatingIpKey | AgentGatewayKey]) -> int:
        served = self._jobs.served(key_type)
        others = (*self._desired.absent, *self._desired.prepared)
        return len(served) - sum(key in served for key in others)

    def warnings(self) -> Mapping[str, str]:
        lacking = extension_warnings(self.resources, self._extensions.names)
        warnings = {**super().warnings(), **self._roles.warnings(), **lacking}
        if self._services is not None and ROUTER_SERVICE not in self._services:
            warnings["server"] = (
                f"it runs no service plugin {ROUTER_SERVICE!r}, so that this agent has no routers: "
                "add it to service_plugins of the server"
            )
        return warnings

    def _record_role(self, router: RouterId, state: RouterDriverValue | None) -> None:
        """Record the role of a router after a job; called by the worker threads."""
        now = self._clock.now()
        if state is None:
            self._roles.record_absent(router, now)
        elif isinstance(state, RouterState) and ha_of(state) is not None:
            self._roles.record_status(router, partial(read_role, self._driver, router), now)
        else:
            self._roles.discard(router)

    def _left_out(self, router: RouterId) -> str:
        return self._desired.left_out(router)

    def _is_known(self, key: L3Key) -> bool:
        # The removal of an agent gateway goes on by an event, when it is served no longer.
        return isinstance(key, AgentGatewayKey) or super()._is_known(key)

    def _mark_initialized(self, task: ConvergeRequest[Hashable]) -> Outcome[Hashable]:
        """Mark on the dataplane that every router was converged once, or failed."""
        if self._interface is None or MARK not in task.keys:
            return Outcome()
        if not self._has_swept or self._jobs.is_busy:
            return Outcome(waiting={MARK: "the first full sync"})
        try:
            self._interface.mark_initialized(Service.L3)
        except NetfwError as exc:
            return Outcome(failed={MARK: exc})
        self._is_marked = True
        return Outcome(done=frozenset({MARK}))

    def _status_of(self, key: L3Key, result: KeyResult) -> tuple[Status, str]:
        """Return the status of a router or floating IP, and the reason if it does not work."""
        value = self._desired.value(key)
        if value is None:
            return Status.DOWN, NOT_HERE
        if isinstance(value, NotOnHost) and not (value.refused or value.waits):
            return Status.DOWN, value.reason
        if not result.reason:
            self._activated.add(key)
            return Status.ACTIVE, ""
        error = result.error
        if error is not None and not isinstance(error, BackendUnavailable | PartlyInvalid):
            return Status.ERROR, result.reason
        if isinstance(key, FloatingIpKey):
            return Status.DOWN, result.reason
        is_new = error is None and key not in self._activated
        return Status.BUILD if is_new else Status.DEGRADED, result.reason


def _make_context(settings: L3AgentConfig, driver: RouterDriver) -> L3HostContext:
    return L3HostContext(
        host=settings.host,
        metadata_port=settings.metadata_port if settings.enable_metadata_proxy else None,
        ipv6_gateway=settings.ipv6_gateway,
        handle_internal_only_routers=settings.handle_internal_only_routers,
        gateway_external_network_id=settings.gateway_external_network_id,
        supports_ha=RouterCapability.HA in driver.describe().capabilities,
        ha_priority=settings.ha_vrrp_priority,
        agent_mode=settings.agent_mode,
        enable_inat_enat=settings.enable_inat_enat,
    )


__all__ = ["L3Agent", "L3AgentConfig"]
