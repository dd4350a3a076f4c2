"""Observation of networks: files, namespace, process and leases of each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from netfw.drivers.dhcp import DhcpKey, DhcpPort, DhcpValue
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.fs.atomic_files import size_of
from netfw.linux.process import RunningProcess, Supervisor
from netfw.linux.service_netns import ObservedNetns, ServiceNetnsExecutor
from netfw.model.values.device_names import DHCP_NAMESPACE, dhcp_namespace
from netfw.model.values.ids import NetworkId
from netfw.plan import Update
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Observed
from netfw_drivers.dnsmasq.plan.reload import LEASE_BYTES
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import SERVICE, process_key
from netfw_drivers.dnsmasq.runtime.device_monitor import is_device_of
from netfw_drivers.dnsmasq.runtime.directories import directory_identities
from netfw_drivers.dnsmasq.runtime.lease_file import read_consistent
from netfw_drivers.dnsmasq.runtime.state_cache import StateCache, parse_id


class NetworkObserver:
    """Reads the state of networks on this host, as far as the cache does not hold it."""

    def __init__(
        self,
        context: DriverContext,
        cache: StateCache,
        netns_executor: ServiceNetnsExecutor,
        processes: Callable[[], Supervisor],
    ) -> None:
        self._context, self._cache = context, cache
        self._netns_executor, self._processes = netns_executor, processes
        self._adopted: set[NetworkId] = set()
        """Networks of whose namespaces the devices were read alone."""

    def present_networks(self) -> frozenset[NetworkId]:
        """Return the networks that have files, a namespace or a process."""
        spaces = self._netns_executor.namespaces(DHCP_NAMESPACE)
        known = self._cache.on_disk() | _networks(
            name.removeprefix(DHCP_NAMESPACE) for name in spaces
        )
        others = self._processes().present(but=set(map(process_key, known)))
        return known | _networks(key.id for key in others if key.service == SERVICE)

    def concerned_networks(self, scope: Update[DhcpKey, DhcpValue]) -> dict[NetworkId, bool]:
        """Return the networks of *scope*, each with whether its namespace is concerned."""
        port_networks = self._cache.port_networks()
        ports = (key.port for key in scope if isinstance(key, PortKey))
        concerned = {port_networks[port]: False for port in ports if port in port_networks}
        for value in scope.put.values():
            if isinstance(value, DhcpPort):
                concerned[value.network] = False
        if scope.complete:
            concerned |= {
                network: NetworkKey(network) not in scope.keep
                for network in self.present_networks()
            }
        return concerned | {key.network: True for key in scope if isinstance(key, NetworkKey)}

    def take_adopted(self, network: NetworkId) -> bool:
        """Return, once, whether the devices of its namespace were read alone."""
        adopted = network in self._adopted
        self._adopted.discard(network)
        return adopted

    def observe(
        self,
        networks: Mapping[NetworkId, bool],
        *,
        leases: bool,
        adopted: Container[NetworkId] = (),
    ) -> Observed:
        """Observe *networks*, each with its namespace or without.

        :param leases: read lease files, too.
        :param adopted: networks that a former agent may have served.  It started their processes
            when their namespaces were ready: of one with a process, the devices are read alone.
        """
        observed = {
            id: self._observe_network(id, with_netns, leases=leases, adopted=id in adopted)
            for id, with_netns in sorted(networks.items(), key=str)
        }
        return Observed(networks=observed, port_networks=self._cache.port_networks())

    def _observe_network(
        self, id: NetworkId, with_netns: bool, *, leases: bool, adopted: bool
    ) -> FoundNetwork:
        namespace = dhcp_namespace(id)
        running = self._processes().running(process_key(id))
        digest = running.digest if running is not None and _is_in(namespace, running) else None
        files = self._context.files(id)
        watched = self._cache.files_of(id).watched
        stale_watches = digest is not None and watched != directory_identities(files)
        if stale_watches:
            self._cache.invalidate(id)
        cached, lease_file = self._cache.files_of(id), files.leases
        pid = running.pid if running is not None else None
        device_gone = digest is not None and not is_device_of(cached.interface, pid)
        return FoundNetwork(
            files=cached,
            desired=self._cache.desired_network(id),
            desired_ports=self._cache.desired_ports(id),
            netns=self._observe_netns(id, adopted=adopted and digest is not None)
            if with_netns or stale_watches or device_gone
            else None,
            process=digest,
            stale_watches=stale_watches,
            device_gone=device_gone,
            orphaned=digest is None and self._processes().pid_path(process_key(id)).exists(),
            lease_count=size_of(lease_file) // LEASE_BYTES if cached.exists else 0,
            leases=read_consistent(lease_file, pid) if leases and cached.exists else "",
        )

    def _observe_netns(self, network: NetworkId, *, adopted: bool) -> ObservedNetns:
        if adopted:
            self._adopted.add(network)
        else:
            self._adopted.discard(network)
        return self._netns_executor.observe(dhcp_namespace(network), devices_only=adopted)


def _networks(names: Iterable[str]) -> frozenset[NetworkId]:
    ids = map(parse_id, names)
    return frozenset(NetworkId(id) for id in ids if id is not None)


def _is_in(namespace: str, running: RunningProcess) -> bool:
    """Return whether it runs in the namespace that has the name now."""
    try:
        return running.namespace == netns.identity(namespace)
    except NotFound:
        return False
