"""Serving: carries out the orders of one network at a time, with the host's drivers.

A network is served before its metadata proxy runs in its place, and its proxy is gone before it
is.  What becomes of the proxy is the network's own trouble, never that of its ports.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from netfw.agents.common.dry_run import DriverUpdate
from netfw.agents.common.refresh import refresh
from netfw.agents.dhcp.jobs import Job, NetworkSpec, RemoveNetwork
from netfw.agents.dhcp.metadata_proxy import ProxySpec
from netfw.drivers.agent_requests import ReleaseDhcpPort
from netfw.drivers.dhcp import (
    DhcpDriver,
    DhcpEntry,
    DhcpKey,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.events import Sink
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.keys import NetworkKey, PortKey, RouterKey
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.state_source import StateSource
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import Conflict, DriverCrashed, NetfwError, NotFound, NotSupported
from netfw.model.ids import NetworkId, PortId
from netfw.plan import Outcome, Update


class JobExecutor:
    """Does what orders say.  Called by several threads, never by two for one network."""

    def __init__(
        self,
        host: str,
        source: StateSource,
        driver: DhcpDriver,
        metadata: MetadataDriver | None = None,
    ) -> None:
        self._host, self._source = host, source
        self._driver, self._metadata = driver, metadata
        self._lock = threading.Lock()
        self._proxies: dict[MetadataKey, NetworkId] = {}
        """For which network the proxy of a key runs, or is about to."""
        self.answers: dict[NetworkId, ServerPort] = {}
        """The ports that were asked for, by the network that is served from each."""

    def carry_out(self, order: Job) -> Outcome[DhcpKey]:
        """Do *order*; what became of each of its keys.  Never raises."""
        try:
            return self._carry_out(order)
        except NetfwError as exc:
            error = exc
        except Exception as exc:  # noqa: BLE001 - a defect degrades its network, not the agent
            error = DriverCrashed(f"a defect of the agent itself: {type(exc).__name__}: {exc}")
            error.__cause__ = exc
        return Outcome(failed=dict.fromkeys(order, error))

    def network_of(self, key: RouterKey) -> NetworkId | None:
        """The network for which the proxy of a router runs."""
        return self._proxies.get(key)

    def reread(self) -> None:
        """Have the drivers read the machine instead of trusting what they were told of it.

        :raises BackendUnavailable: the machine does not answer.
        """
        for driver in self._drivers():
            refresh(driver)

    def sweep(
        self, wishes: Mapping[NetworkId, NetworkSpec], ports: Iterable[PortId]
    ) -> set[NetworkKey]:
        """Remove all that the drivers hold but these; the networks that went.  Called alone.

        :raises NetfwError: something cannot be removed.
        """
        keep: frozenset[DhcpKey] = frozenset([*map(NetworkKey, wishes), *map(PortKey, ports)])
        gone = {k for k in self._driver.present() if isinstance(k, NetworkKey) and k not in keep}
        if self._metadata is not None:
            wanted = (wish.proxying for wish in wishes.values())
            keys = {each.key for each in wanted if each is not None and each.key is not None}
            proxies: Update[MetadataKey, MetadataProxy] = Update(
                complete=True, keep=frozenset(keys)
            )
            converge_isolated(self._metadata, proxies).raise_failed()
        networks: Update[DhcpKey, DhcpValue] = Update(complete=True, keep=keep)
        converge_isolated(self._driver, networks).raise_failed()
        return gone

    def watch(self, sink: Sink) -> None:
        """Have the drivers tell *sink* what happens."""
        for driver in self._drivers():
            driver.watch(sink)

    def faults(self, *, with_metadata: bool) -> dict[str, str]:
        """What this host lacks for each driver that is used."""
        used = self._drivers() if with_metadata else (self._driver,)
        found = {f"driver {each.describe().name}": each.problems() for each in used}
        return {name: "; ".join(faults) for name, faults in found.items() if faults}

    def everything(
        self, wishes: Mapping[NetworkId, NetworkSpec], ports: Mapping[PortId, DhcpPort]
    ) -> Iterator[DriverUpdate]:
        """All that is wanted of each driver, as far as it can be said without asking."""
        entries: list[DhcpEntry] = []
        proxies: dict[MetadataKey, MetadataProxy] = {}
        homes: dict[MetadataKey, NetworkKey] = {}
        refused: dict[DhcpKey, NetfwError] = {}
        for id, wish in wishes.items():
            if wish.own is None:
                refused[NetworkKey(id)] = NotFound("the agent asks for a port to serve it from")
                continue
            entries.append((NetworkKey(id), wish.value(wish.own)))
            place = self._driver.location(id, wish.own)
            if wish.proxying is not None and wish.proxying.key is not None and place is not None:
                proxies[wish.proxying.key] = wish.proxying.proxy(place)
                homes[wish.proxying.key] = NetworkKey(id)
        entries += [(PortKey(id), port) for id, port in ports.items()]
        put: dict[DhcpKey, DhcpValue] = dict(entries)
        update = Update(put=put, complete=True, keep=frozenset(refused))
        yield DriverUpdate("dhcp", self._driver, update, refused)
        if self._metadata is not None:
            led = Update(put=proxies, complete=True)
            yield DriverUpdate("metadata", self._metadata, led, follows=homes)

    def _drivers(self) -> tuple[HostDriver[Any, Any], ...]:
        return (self._driver,) if self._metadata is None else (self._driver, self._metadata)

    def _carry_out(self, order: Job) -> Outcome[DhcpKey]:
        match order.wish:
            case RemoveNetwork():
                return self._remove(order)
            case NetworkSpec() as wish:
                return self._serve(order, wish)
            case None:
                return self._converge(order)

    def _remove(self, order: Job) -> Outcome[DhcpKey]:
        """Serve the network no longer."""
        key = NetworkKey(order.network)
        self.answers.pop(order.network, None)
        self._drop_proxies(order.network, but=None)
        outcome = self._converge(order, {key})
        if key in outcome.done:
            try:
                self._source.request(ReleaseDhcpPort(network=order.network, host=self._host))
            except NetfwError as exc:
                return _with_failed(outcome, key, exc)
        return outcome

    def _serve(self, order: Job, wish: NetworkSpec) -> Outcome[DhcpKey]:
        key = NetworkKey(order.network)
        try:
            server = wish.own or self._answer(wish)
        except NetfwError as exc:
            outcome = self._converge(order)  # it may be served as before
            return _with_failed(outcome, key, exc)
        outcome = self._converge(order, network=wish.value(server))
        if key not in outcome.done:
            return outcome
        try:
            self._converge_proxy(order.network, server, wish.proxying)
        except NetfwError as exc:
            return _with_failed(outcome, key, exc)
        return outcome

    def _answer(self, wish: NetworkSpec) -> ServerPort:
        port = self._source.request(wish.request)
        missing = wish.request.subnets - {fixed.subnet_id for fixed in port.fixed_ips}
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise Conflict(f"port {port.id}, which DHCP is served from, has no address on {names}")
        server = self.answers[wish.request.network] = wish.server(port)
        return server

    def _converge_proxy(
        self, network: NetworkId, server: ServerPort, wanted: ProxySpec | None
    ) -> None:
        """Have metadata requests of the network led to the metadata agent, or not."""
        key = None if wanted is None else wanted.key
        self._drop_proxies(network, but=key)
        if wanted is None or self._metadata is None:
            return
        if key is None:
            raise Conflict(wanted.fault)
        place = self._driver.location(network, server)
        if place is None:
            name = self._driver.describe().name
            raise NotSupported(f"the DHCP driver {name!r} has no place for a metadata proxy")
        self._claim(key, network)
        converge_isolated(self._metadata, Update(put={key: wanted.proxy(place)})).raise_failed()

    def _claim(self, key: MetadataKey, network: NetworkId) -> None:
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

    def _converge(
        self,
        order: Job,
        drop: Set[NetworkKey] = frozenset(),
        network: DhcpNetwork | None = None,
    ) -> Outcome[DhcpKey]:
        entries: list[DhcpEntry] = []
        if network is not None:
            entries.append((NetworkKey(order.network), network))
        entries += order.put.items()
        put: dict[DhcpKey, DhcpValue] = dict(entries)
        return converge_isolated(self._driver, Update(put=put, drop=order.drop | drop))


def _with_failed(outcome: Outcome[DhcpKey], key: DhcpKey, error: NetfwError) -> Outcome[DhcpKey]:
    return Outcome(
        done=outcome.done - {key},
        failed={**outcome.failed, key: error},
        waiting={other: why for other, why in outcome.waiting.items() if other != key},
    )
