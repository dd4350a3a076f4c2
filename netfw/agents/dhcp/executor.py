"""Executor of jobs: converges one network at a time with the drivers of the host.

A network is served before its metadata proxy starts in its namespace, and the proxy is removed
before the network.  An error of the proxy degrades the network, never its ports.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from netfw.agents.common.driver_update import DriverUpdate
from netfw.agents.common.jobs.job_executor import (
    JobExecutor,
    SweepResult,
    sweep_driver,
    with_failed,
)
from netfw.agents.dhcp.metadata_proxy import ProxySpec
from netfw.agents.dhcp.network_spec import DhcpJob, NetworkSpec
from netfw.drivers.dhcp import (
    DhcpDriver,
    DhcpEntry,
    DhcpKey,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.state_source import StateSource
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.drivers.values.agent_requests import ReleaseDhcpPort
from netfw.drivers.values.keys import NetworkKey, PortKey, RouterKey
from netfw.errors import Conflict, NetfwError, NotFound, NotSupported
from netfw.model.values.ids import NetworkId, PortId
from netfw.plan import Outcome, Update


class DhcpJobExecutor(JobExecutor[NetworkId, DhcpKey, NetworkSpec | DhcpPort]):
    """Executes jobs, each for one network."""

    def __init__(
        self,
        host: str,
        source: StateSource,
        driver: DhcpDriver,
        metadata: MetadataDriver | None = None,
        *,
        runs_proxies: bool = False,
    ) -> None:
        super().__init__(*((driver,) if metadata is None else (driver, metadata)))
        self._runs_proxies = runs_proxies
        self._host, self._source = host, source
        self._driver, self._metadata = driver, metadata
        self._lock = threading.Lock()
        self._proxies: dict[MetadataKey, NetworkId] = {}
        """The network that the proxy of a key runs for, or is about to."""
        self.answers: dict[NetworkId, ServerPort] = {}
        """The server ports that the source returned on request, by network."""

    def network_of(self, key: RouterKey) -> NetworkId | None:
        """Return the network that the proxy of a router runs for."""
        return self._proxies.get(key)

    def sweep(
        self, specs: Mapping[NetworkId, NetworkSpec], ports: Iterable[PortId]
    ) -> SweepResult[DhcpKey]:
        """Remove everything but these from the drivers; requeue the networks that were removed.

        Called while no job is running.

        :raises NetfwError: a driver does not know what is there.
        """
        failed: dict[Hashable, NetfwError] = {}
        keep: frozenset[DhcpKey] = frozenset([*map(NetworkKey, specs), *map(PortKey, ports)])
        gone = {k for k in self._driver.present() if isinstance(k, NetworkKey) and k not in keep}
        if self._metadata is not None:
            specified = (spec.proxy for spec in specs.values())
            keys = {proxy.key for proxy in specified if proxy is not None and proxy.key is not None}
            failed |= sweep_driver(self._metadata, frozenset(keys))
        keep |= {key for key in failed if isinstance(key, NetworkKey)}  # their proxies run
        failed |= sweep_driver(self._driver, keep)
        return SweepResult(requeued=frozenset(gone - failed.keys()), failed=failed)

    def in_use(self) -> tuple[HostDriver[Any, Any], ...]:
        return self._drivers if self._runs_proxies else (self._driver,)

    def everything(
        self, specs: Mapping[NetworkId, NetworkSpec], ports: Mapping[PortId, DhcpPort]
    ) -> Iterator[DriverUpdate]:
        """Yield the complete update of each driver, without requests to the source."""
        entries: list[DhcpEntry] = []
        proxies: dict[MetadataKey, MetadataProxy] = {}
        networks: dict[MetadataKey, NetworkKey] = {}
        refused: dict[DhcpKey, NetfwError] = {}
        for id, spec in specs.items():
            if spec.own is None:
                refused[NetworkKey(id)] = NotFound("the agent requests a port to serve it from")
                continue
            entries.append((NetworkKey(id), spec.value(spec.own)))
            location = self._driver.location(id, spec.own)
            if spec.proxy is not None and spec.proxy.key is not None and location is not None:
                proxies[spec.proxy.key] = spec.proxy.make_proxy(location)
                networks[spec.proxy.key] = NetworkKey(id)
        entries += [(PortKey(id), port) for id, port in ports.items()]
        put: dict[DhcpKey, DhcpValue] = dict(entries)
        update = Update(put=put, complete=True, keep=frozenset(refused))
        yield DriverUpdate("dhcp", self._driver, update, refused)
        if self._metadata is not None:
            proxying = Update(put=proxies, complete=True)
            yield DriverUpdate("metadata", self._metadata, proxying, follows=networks)

    def execute_job(self, job: DhcpJob) -> Outcome[DhcpKey]:
        key = NetworkKey(job.group)
        if key in job.drop:
            return self._remove(job)
        spec = job.put.get(key)
        return self._serve(job, spec) if isinstance(spec, NetworkSpec) else self._converge(job)

    def _remove(self, job: DhcpJob) -> Outcome[DhcpKey]:
        """Stop serving the network."""
        key = NetworkKey(job.group)
        self.answers.pop(job.group, None)
        self._drop_proxies(job.group, but=None)
        outcome = self._converge(job)
        if key in outcome.done:
            try:
                self._source.request(ReleaseDhcpPort(network=job.group, host=self._host))
            except NetfwError as exc:
                return with_failed(outcome, key, exc)
        return outcome

    def _serve(self, job: DhcpJob, spec: NetworkSpec) -> Outcome[DhcpKey]:
        key = NetworkKey(job.group)
        try:
            server = spec.own or self._request_port(spec)
        except NetfwError as exc:
            outcome = self._converge(job)  # the network stays as it is
            return with_failed(outcome, key, exc)
        outcome = self._converge(job, network=spec.value(server))
        if key not in outcome.in_force:
            return outcome
        try:
            self._converge_proxy(job.group, server, spec.proxy)
        except NetfwError as exc:
            return with_failed(outcome, key, exc)
        return outcome

    def _request_port(self, spec: NetworkSpec) -> ServerPort:
        port = self._source.request(spec.request)
        missing = spec.request.subnets - {fixed.subnet_id for fixed in port.fixed_ips}
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise Conflict(f"port {port.id}, which DHCP is served from, has no address on {names}")
        server = self.answers[spec.request.network] = spec.server(port)
        return server

    def _converge_proxy(
        self, network: NetworkId, server: ServerPort, spec: ProxySpec | None
    ) -> None:
        """Start, change or remove the metadata proxy of the network."""
        key = None if spec is None else spec.key
        self._drop_proxies(network, but=key)
        if spec is None or self._metadata is None:
            return
        if key is None:
            raise Conflict(spec.problem)
        location = self._driver.location(network, server)
        if location is None:
            name = self._driver.describe().name
            raise NotSupported(f"the DHCP driver {name!r} has no namespace for a metadata proxy")
        self._reserve(key, network)
        proxy = spec.make_proxy(location)
        converge_isolated(self._metadata, Update(put={key: proxy})).raise_failed()

    def _reserve(self, key: MetadataKey, network: NetworkId) -> None:
        with self._lock:
            holder = self._proxies.setdefault(key, network)
        if holder != network:
            raise Conflict(
                f"the metadata proxy of {key} runs for network {holder}: connect the router to one "
                "metadata network only"
            )

    def _drop_proxies(self, network: NetworkId, but: MetadataKey | None) -> None:
        if self._metadata is None:
            return
        with self._lock:
            keys = {key for key, of in self._proxies.items() if of == network}
        keys = (keys | {NetworkKey(network)}) - {but}
        dropped: Update[MetadataKey, MetadataProxy] = Update(drop=frozenset(keys))
        converge_isolated(self._metadata, dropped).raise_failed()
        with self._lock:
            for key in keys:
                self._proxies.pop(key, None)

    def _converge(self, job: DhcpJob, network: DhcpNetwork | None = None) -> Outcome[DhcpKey]:
        ports = [
            (key, value)
            for key, value in job.put.items()
            if isinstance(key, PortKey) and isinstance(value, DhcpPort)
        ]
        entries: list[DhcpEntry] = [*ports]
        if network is not None:
            entries.insert(0, (NetworkKey(job.group), network))
        put: dict[DhcpKey, DhcpValue] = dict(entries)
        return converge_isolated(self._driver, Update(put=put, drop=job.drop))
