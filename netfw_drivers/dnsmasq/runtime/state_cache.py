"""Cache of the desired state, and of the files on disk."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Mapping
from uuid import UUID

from attrs import define, field

from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.linux.fs.atomic_files import list_directory, read_file
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.file_parsers import read_host
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import PortText
from netfw_drivers.dnsmasq.plan.observed import NetworkFiles, Reload
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import (
    TOMBSTONE_SUFFIX,
    reload_marker_path,
    server_port_path,
    tombstone_path,
)
from netfw_drivers.dnsmasq.runtime.directories import watched_record


@define
class _Desired:
    network: DhcpNetwork | None = None
    ports: dict[PortId, DhcpPort] = field(factory=dict)


class StateCache:
    """Files by network, read on first use, and the desired state of each network.

    Threads may use different networks at the same time.
    """

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._files: dict[NetworkId, NetworkFiles] = {}
        self._port_networks: dict[PortId, NetworkId] | None = None
        self._desired: dict[NetworkId, _Desired] = {}
        self._servers: dict[PortId, NetworkId] = {}
        self._desired_network: dict[PortId, NetworkId] = {}
        self._waiting: dict[NetworkId, set[PortId]] = {}

    def on_disk(self) -> frozenset[NetworkId]:
        """Return the networks that have a directory, from disk."""
        names = list_directory(self._context.settings.confs)
        return frozenset(NetworkId(id) for name in names if (id := parse_id(name)) is not None)

    def ports_on_disk(self, network: NetworkId) -> frozenset[PortId]:
        """Return the ports that have files, from disk."""
        return frozenset(_ports_with_files(self._context.files(network)))

    def port_networks(self) -> Mapping[PortId, NetworkId]:
        """Return the network under which each port has files or a tombstone."""
        with self._lock:
            if self._port_networks is None:
                self._port_networks = {}
                for network in self.on_disk():
                    files = self._context.files(network)
                    self._port_networks |= dict.fromkeys(_ports_with_tombstones(files), network)
                    self._port_networks |= dict.fromkeys(_ports_with_files(files), network)
            return self._port_networks

    def files_of(self, network: NetworkId) -> NetworkFiles:
        """Return the files of *network*; one thread at a time may use a network."""
        if network not in self._files:
            self._files[network] = read_network_files(self._context.files(network))
        return self._files[network]

    def invalidate(self, network: NetworkId) -> None:
        """Have the files of *network* read again on next use."""
        self._files.pop(network, None)

    def invalidate_all(self) -> None:
        with self._lock:
            self._files, self._port_networks = {}, None

    def add_port_files(self, port: PortId, network: NetworkId) -> None:
        self.port_networks()
        if self._port_networks is not None:
            self._port_networks[port] = network

    def remove_port_files(self, port: PortId) -> None:
        if self._port_networks is not None:
            self._port_networks.pop(port, None)

    def desired_network(self, network: NetworkId) -> DhcpNetwork | None:
        desired = self._desired.get(network)
        return desired.network if desired else None

    def desired_ports(self, network: NetworkId) -> Mapping[PortId, DhcpPort]:
        desired = self._desired.get(network)
        return desired.ports if desired else {}

    def desired_networks(self) -> frozenset[NetworkId]:
        return frozenset(self._desired)

    def served_from(self, port: PortId) -> NetworkId | None:
        """Return the network whose DHCP port is *port*."""
        return self._servers.get(port)

    def set_desired_network(self, network: NetworkId, value: DhcpNetwork | None) -> None:
        former = self.desired_network(network)
        if former is not None:
            self._servers.pop(former.server.id, None)
        if value is not None:
            self._servers[value.server.id] = network
        self._desired.setdefault(network, _Desired()).network = value
        self._tidy(network)

    def set_desired_port(self, port: PortId, value: DhcpPort | None) -> None:
        network = self._desired_network.pop(port, None)
        if network is not None and (value is None or value.network != network):
            self._desired[network].ports.pop(port, None)
            self._waiting.get(network, set()).discard(port)
            self._tidy(network)
        if value is not None:
            self._desired.setdefault(value.network, _Desired()).ports[port] = value
            self._desired_network[port] = value.network

    def forget_desired_port(self, port: PortId, network: NetworkId) -> None:
        """Drop the desired state of *port* if it is on *network*."""
        if self._desired_network.get(port) == network:
            self.set_desired_port(port, None)

    def _tidy(self, network: NetworkId) -> None:
        """Delete the entry of a network without desired state."""
        if self._desired[network] == _Desired():
            del self._desired[network]

    def forget_desired(self, keep: Container[DhcpKey]) -> None:
        """Drop the desired state of all keys that are not in *keep*."""
        for network in [id for id in self._desired if NetworkKey(id) not in keep]:
            self.set_desired_network(network, None)
        for port in [id for id in self._desired_network if PortKey(id) not in keep]:
            self.set_desired_port(port, None)

    def add_waiting(self, ports: Iterable[PortId]) -> None:
        """Record ports that wait for their network, or for addresses of other ports on it."""
        with self._lock:
            for port in ports:
                self._waiting.setdefault(self._desired_network[port], set()).add(port)

    def pop_waiting(self, network: NetworkId) -> frozenset[DhcpKey]:
        """Return and forget the ports that waited on *network*."""
        with self._lock:
            mine = self._waiting.pop(network, set())
        return frozenset(
            PortKey(port) for port in mine if self._desired_network.get(port) == network
        )


def read_network_files(files: NetworkPaths) -> NetworkFiles:
    """Read the files of a network from disk."""
    if not files.directory.is_dir():
        return NetworkFiles()
    opts, names = set(list_directory(files.opts)), set(list_directory(files.addn_hosts))
    server = parse_id((read_file(server_port_path(files)) or "").strip())
    files_on_disk = NetworkFiles(
        exists=True,
        opts=read_file(files.network_opts),
        interface=read_file(files.interface),
        server=PortId(server) if server else None,
        has_lease_file=files.leases.exists(),
        reload=_parse_reload(read_file(reload_marker_path(files))),
        watched=read_file(watched_record(files)) or "",
    )
    for port in _ports_with_files(files):
        text = PortText(
            host=read_file(files.host_of(port)) or "",
            opts=(read_file(files.opts_of(port)) or "") if str(port) in opts else "",
            names=(read_file(files.names_of(port)) or "") if str(port) in names else "",
        )
        files_on_disk.put(port, text)
    for port in _ports_with_tombstones(files):
        files_on_disk.add_tombstone(port, read_host(read_file(tombstone_path(files, port)) or ""))
    return files_on_disk


def _parse_reload(text: str | None) -> Reload | None:
    """Parse the reload marker; ``None``: there is none."""
    if text is None:
        return None
    return Reload.SIGNAL if text.strip() == Reload.SIGNAL.value else Reload.RESTART


def _ports_with_files(files: NetworkPaths) -> list[PortId]:
    names = {
        name
        for directory in (files.host, files.addn_hosts, files.opts)
        for name in list_directory(directory)
    }
    return [PortId(id) for name in sorted(names) if (id := parse_id(name)) is not None]


def _ports_with_tombstones(files: NetworkPaths) -> list[PortId]:
    named = (
        name.removesuffix(TOMBSTONE_SUFFIX)
        for name in list_directory(files.host)
        if name.endswith(TOMBSTONE_SUFFIX)
    )
    return [PortId(id) for name in named if (id := parse_id(name)) is not None]


def parse_id(name: str) -> UUID | None:
    """Parse a canonical UUID; ``None``: the name is not one, so this driver did not write it."""
    try:
        id = UUID(name)
    except ValueError:
        return None
    return id if str(id) == name else None
