"""What this host has of the networks it serves.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.dhcp_hosts import is_tagged
from netfw_drivers.dnsmasq.config.host_lease_files import NOBODY, HostEntry, addresses_in, read_host
from netfw_drivers.dnsmasq.config.render import PortText


class Reload(enum.Enum):
    """How dnsmasq has to be told that files say something else than it read."""

    SIGNAL = "signal"
    RESTART = "restart"


@define
class NetworkFiles:
    """The files of one network, as they are; kept current with what is done to them."""

    there: bool = False
    opts: str | None = None
    """Of the network."""
    interface: str | None = None
    server: PortId | None = None
    """The port whose device it was plugged with."""
    leases: bool = False
    """Whether there is a lease file."""
    reload: Reload | None = None
    """dnsmasq was not told yet that it knows more than the files say."""
    watched: str = ""
    """Which directories dnsmasq found when it was started."""
    ports: dict[PortId, PortText] = field(factory=dict)
    tagged: set[PortId] = field(factory=set)
    """Those after whose answer dnsmasq would die of being told."""
    tombs: dict[PortId, HostEntry] = field(factory=dict)
    """Ports that are gone, and that dnsmasq still remembers."""
    _owners: dict[str, PortId] = field(factory=dict)
    """Of MAC and IP addresses in files of ports."""
    _buried: dict[str, PortId] = field(factory=dict)
    """The same of tombstones."""

    def put(self, port: PortId, text: PortText) -> None:
        former = self.ports.get(port)
        self.ports[port] = text
        if former is not None and former.host == text.host:
            return
        self._disown(port, former)
        for word in addresses_in(text.host):
            self._owners[word] = port
        if is_tagged(text.host):
            self.tagged.add(port)

    def drop(self, port: PortId) -> None:
        self._disown(port, self.ports.pop(port))

    def _disown(self, port: PortId, former: PortText | None) -> None:
        self.tagged.discard(port)
        for word in addresses_in(former.host) if former is not None else ():
            if self._owners.get(word) == port:
                del self._owners[word]

    def add_tombstone(self, port: PortId, entry: HostEntry) -> None:
        self.tombs[port] = entry
        self._buried |= dict.fromkeys(entry.words, port)

    def remove_tombstone(self, port: PortId) -> None:
        entry = self.tombs.pop(port, NOBODY)
        for word in entry.words:
            if self._buried.get(word) == port:
                del self._buried[word]

    def owner_of(self, word: str) -> PortId | None:
        """The port whose file has this MAC or IP address."""
        return self._owners.get(word)

    def is_buried(self, words: Iterable[str]) -> bool:
        """Whether a port that is gone had one of these MAC and IP addresses."""
        return any(word in self._buried for word in words)

    def entry(self, port: PortId) -> HostEntry:
        """Whom the file of *port* is about."""
        text = self.ports.get(port)
        return read_host(text.host) if text is not None else NOBODY


@frozen(kw_only=True)
class FoundNetwork:
    """What there is of one network, and what the driver was told of it before."""

    shelf: NetworkFiles = field(factory=NetworkFiles)
    told: DhcpNetwork | None = None
    ports: Mapping[PortId, DhcpPort] = field(factory=dict)
    """Those that the driver was told, waiting ones included."""
    station: ObservedNetns | None = None
    """``None``: there is none, or nothing is asked of the network itself."""
    process: str | None = None
    """The digest of the program that runs, in the namespace that has the name; ``None``: none."""
    stray: bool = False
    """Something runs for the network elsewhere: in a namespace that lost its name."""
    blind: bool = False
    """It runs, and looks into directories that are not those which are there now."""
    adrift: bool = False
    """It runs, and the device that it serves the network from is gone."""
    lease_count: int = 0
    """Roughly."""
    leases: str = ""
    """The lease file, where ports are changed or dropped."""


@frozen(kw_only=True)
class Observed:
    """The networks that an update concerns; all, when it is complete."""

    networks: Mapping[NetworkId, FoundNetwork] = field(factory=dict)
    homes: Mapping[PortId, NetworkId] = field(factory=dict)
    """Where the files of ports are."""
