"""What the driver was told, and what it knows to be on disk."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Mapping
from uuid import UUID

from attrs import define, field

from netfw.drivers.dhcp import DhcpKey, DhcpNetwork, DhcpPort
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.linux.fs.atomic_files import list_directory, read_file
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.host_lease_files import read_host
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import PortText
from netfw_drivers.dnsmasq.plan.observed import NetworkFiles, Reload
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import TOMB, reload_of, server_of, tomb_of
from netfw_drivers.dnsmasq.runtime.directories import watched_record


@define
class _Told:
    network: DhcpNetwork | None = None
    ports: dict[PortId, DhcpPort] = field(factory=dict)


class StateCache:
    """Shelves by network, read when they are first asked for, and what was told of each network.

    Different networks may be asked for by several threads at once.
    """

    def __init__(self, terms: DriverContext) -> None:
        self._terms = terms
        self._lock = threading.Lock()
        self._shelves: dict[NetworkId, NetworkFiles] = {}
        self._homes: dict[PortId, NetworkId] | None = None
        self._told: dict[NetworkId, _Told] = {}
        self._servers: dict[PortId, NetworkId] = {}
        self._told_home: dict[PortId, NetworkId] = {}
        self._waiting: dict[NetworkId, set[PortId]] = {}

    def on_disk(self) -> frozenset[NetworkId]:
        """The networks that have a directory now."""
        names = list_directory(self._terms.settings.confs)
        return frozenset(NetworkId(id) for name in names if (id := id_of(name)) is not None)

    def ports_on_disk(self, network: NetworkId) -> frozenset[PortId]:
        """The ports that have files now."""
        return frozenset(_listed(self._terms.files(network)))

    def homes(self) -> Mapping[PortId, NetworkId]:
        """Where the files of each port are, its tombstone included."""
        with self._lock:
            if self._homes is None:
                self._homes = {}
                for network in self.on_disk():
                    files = self._terms.files(network)
                    self._homes |= dict.fromkeys(_tombs(files), network)
                    self._homes |= dict.fromkeys(_listed(files), network)
            return self._homes

    def files_of(self, network: NetworkId) -> NetworkFiles:
        """The files of *network*; a network's is asked for by one thread at a time."""
        if network not in self._shelves:
            self._shelves[network] = read_shelf(self._terms.files(network))
        return self._shelves[network]

    def forget(self, network: NetworkId) -> None:
        """What is on disk of *network* is to be read anew."""
        self._shelves.pop(network, None)

    def forget_all(self) -> None:
        with self._lock:
            self._shelves, self._homes = {}, None

    def has_files(self, port: PortId, network: NetworkId) -> None:
        self.homes()
        if self._homes is not None:
            self._homes[port] = network

    def has_no_files(self, port: PortId) -> None:
        if self._homes is not None:
            self._homes.pop(port, None)

    def desired_network(self, network: NetworkId) -> DhcpNetwork | None:
        told = self._told.get(network)
        return told.network if told else None

    def desired_ports(self, network: NetworkId) -> Mapping[PortId, DhcpPort]:
        told = self._told.get(network)
        return told.ports if told else {}

    def desired_networks(self) -> frozenset[NetworkId]:
        return frozenset(self._told)

    def served_from(self, port: PortId) -> NetworkId | None:
        """The network that was told to be served from *port*."""
        return self._servers.get(port)

    def set_desired_network(self, network: NetworkId, value: DhcpNetwork | None) -> None:
        former = self.desired_network(network)
        if former is not None:
            self._servers.pop(former.server.id, None)
        if value is not None:
            self._servers[value.server.id] = network
        self._told.setdefault(network, _Told()).network = value
        self._tidy(network)

    def set_desired_port(self, port: PortId, value: DhcpPort | None) -> None:
        home = self._told_home.pop(port, None)
        if home is not None and (value is None or value.network != home):
            self._told[home].ports.pop(port, None)
            self._waiting.get(home, set()).discard(port)
            self._tidy(home)
        if value is not None:
            self._told.setdefault(value.network, _Told()).ports[port] = value
            self._told_home[port] = value.network

    def forget_port(self, port: PortId, network: NetworkId) -> None:
        """*port* is not wanted on *network* any more as it was told."""
        if self._told_home.get(port) == network:
            self.set_desired_port(port, None)

    def _tidy(self, network: NetworkId) -> None:
        """Keep nothing of a network of which nothing is wanted."""
        if self._told[network] == _Told():
            del self._told[network]

    def forget_desired(self, keep: Container[DhcpKey]) -> None:
        """Nothing else is wanted than what *keep* has."""
        for network in [id for id in self._told if NetworkKey(id) not in keep]:
            self.set_desired_network(network, None)
        for port in [id for id in self._told_home if PortKey(id) not in keep]:
            self.set_desired_port(port, None)

    def wait(self, ports: Iterable[PortId]) -> None:
        """These ports, of which was told, wait for their network or for others on it."""
        with self._lock:
            for port in ports:
                self._waiting.setdefault(self._told_home[port], set()).add(port)

    def waiting_no_more(self, network: NetworkId) -> frozenset[DhcpKey]:
        """Those that waited on *network*, which is served and may have changed."""
        with self._lock:
            mine = self._waiting.pop(network, set())
        return frozenset(PortKey(port) for port in mine if self._told_home.get(port) == network)


def read_shelf(files: NetworkPaths) -> NetworkFiles:
    """What is on disk of a network."""
    if not files.directory.is_dir():
        return NetworkFiles()
    opts, names = set(list_directory(files.opts)), set(list_directory(files.addn_hosts))
    server = id_of((read_file(server_of(files)) or "").strip())
    shelf = NetworkFiles(
        there=True,
        opts=read_file(files.network_opts),
        interface=read_file(files.interface),
        server=PortId(server) if server else None,
        leases=files.leases.exists(),
        reload=_due(read_file(reload_of(files))),
        watched=read_file(watched_record(files)) or "",
    )
    for port in _listed(files):
        text = PortText(
            host=read_file(files.host_of(port)) or "",
            opts=(read_file(files.opts_of(port)) or "") if str(port) in opts else "",
            names=(read_file(files.names_of(port)) or "") if str(port) in names else "",
        )
        shelf.put(port, text)
    for port in _tombs(files):
        shelf.add_tombstone(port, read_host(read_file(tomb_of(files, port)) or ""))
    return shelf


def _due(text: str | None) -> Reload | None:
    """What the file says that is there until dnsmasq was told."""
    if text is None:
        return None
    return Reload.SIGNAL if text.strip() == Reload.SIGNAL.value else Reload.RESTART


def _listed(files: NetworkPaths) -> list[PortId]:
    names = {
        name
        for directory in (files.host, files.addn_hosts, files.opts)
        for name in list_directory(directory)
    }
    return [PortId(id) for name in sorted(names) if (id := id_of(name)) is not None]


def _tombs(files: NetworkPaths) -> list[PortId]:
    named = (name.removesuffix(TOMB) for name in list_directory(files.host) if name.endswith(TOMB))
    return [PortId(id) for name in named if (id := id_of(name)) is not None]


def id_of(name: str) -> UUID | None:
    """The id that a name is, exactly as we write it; whatever else is there is somebody else's."""
    try:
        id = UUID(name)
    except ValueError:
        return None
    return id if str(id) == name else None
