"""DhcpAgent: serves the networks that are assigned to this host, by a DHCP driver.

It joins the modules that decide (`desired`, `metadata_proxy`) with the one that acts (`executor`);
a job is about one network.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from netfw.agents.common.driver_update import DriverUpdate
from netfw.agents.common.jobs.job_agent import JobAgent
from netfw.agents.common.jobs.job_executor import SweepResult
from netfw.agents.common.status_reporter import KeyResult, StatusReporter
from netfw.agents.dhcp.desired import DesiredDhcp, DhcpHostContext
from netfw.agents.dhcp.executor import DhcpJobExecutor
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.agents.dhcp.network_spec import NetworkSpec
from netfw.agents.dhcp.resource_index import DhcpResourceIndex
from netfw.agents.dhcp.state_report import DhcpAgentConfig, make_state_report, validate_config
from netfw.drivers.dhcp import DhcpDriver, DhcpKey, DhcpPort
from netfw.drivers.metadata import MetadataDriver
from netfw.drivers.state_source import StateSource
from netfw.drivers.values.keys import NetworkKey, PortKey, RouterKey
from netfw.drivers.values.reports import Heartbeat
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import PartlyInvalid
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import NetworkId


class DhcpAgent(JobAgent[NetworkId, DhcpKey, NetworkSpec | DhcpPort]):
    """The work of a DHCP agent, for :class:`~netfw.agents.common.loop.Loop`.

    :raises ConfigError: the settings contradict each other.
    """

    KEY_TYPES: ClassVar[tuple[type[Any], ...]] = (NetworkKey, PortKey)
    _settings: DhcpAgentConfig
    _executor: DhcpJobExecutor
    _desired: DesiredDhcp

    def __init__(
        self,
        settings: DhcpAgentConfig,
        source: StateSource,
        driver: DhcpDriver,
        *,
        metadata: MetadataDriver | None = None,
    ) -> None:
        validate_config(settings, None if metadata is None else metadata.describe())
        self.binary = settings.binary
        self._settings, self._driver = settings, driver
        self._view = DhcpHostContext(
            host=settings.host, gateways=settings.gateways, metadata=settings.metadata
        )
        self._executor = DhcpJobExecutor(
            settings.host,
            source,
            driver,
            metadata,
            runs_proxies=settings.metadata != MetadataPolicy(),
        )
        self.resources: DhcpResourceIndex = DhcpResourceIndex()
        self._desired = self.make_desired()
        statuses: StatusReporter[DhcpKey] = StatusReporter(settings.host, Service.DHCP, _status_of)
        super().__init__(settings, self._executor, self._desired, statuses)

    @property
    def subscription(self) -> Subscription:
        return Subscription(self._settings.host, {Service.DHCP})

    def make_desired(self) -> DesiredDhcp:
        return DesiredDhcp(self._view, self.resources, self._executor.answers)

    def sweep(self) -> SweepResult[DhcpKey]:
        return self._executor.sweep(self._desired.networks, self._desired.ports)

    def keys_of(self, key: Hashable) -> Iterable[DhcpKey]:
        if isinstance(key, RouterKey):
            network = self._executor.network_of(key)
            return () if network is None else (NetworkKey(network),)
        return super().keys_of(key)

    def everything(self) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, for a dry run; sends no requests."""
        return self._executor.everything(self._desired.networks, self._desired.ports)

    def heartbeat(self, *, start: bool) -> Heartbeat:
        return make_state_report(
            self._settings, self._driver.describe(), self.counts(), start=start
        )

    def counts(self) -> Mapping[str, int]:
        specs = self._desired.networks
        networks = self._jobs.served(NetworkKey)
        served = [specs[key.network] for key in networks if key.network in specs]
        return {
            "networks": len(networks),
            "subnets": sum(len(spec.subnets) for spec in served),
            "ports": len(self._jobs.served(PortKey)),
        }


def _status_of(key: DhcpKey, result: KeyResult) -> tuple[Status, str]:
    """Return the status of a port; one that is served without an option is active all the same."""
    is_served = not result.reason or isinstance(result.error, PartlyInvalid)
    return (Status.ACTIVE if is_served else Status.DEGRADED), result.reason


__all__ = ["DhcpAgent", "DhcpAgentConfig"]
