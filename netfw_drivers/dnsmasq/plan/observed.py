"""Observed state of the networks on this host.  Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.dhcp_hosts import is_tagged
from netfw_drivers.dnsmasq.config.file_parsers import (
    EMPTY_ENTRY,
    HostEntry,
    addresses_in,
    read_host,
)
from netfw_drivers.dnsmasq.config.render import PortText


class Reload(enum.Enum):
    """How dnsmasq is notified of files that contradict what it has read."""

    SIGNAL = "signal"
    RESTART = "restart"


@define
class NetworkFiles:
    """Files of one network on disk; updated with each change."""

    exists: bool = False
    opts: str | None = None
    """Text of the network's option file."""
    interface: str | None = None
    server: PortId | None = None
    """DHCP port whose device is plugged."""
    has_lease_file: bool = False
    """Whether there is a lease file."""
    reload: Reload | None = None
    """Notification of dnsmasq that is still pending."""
    watched: str = ""
    """Identities of the directories that existed when dnsmasq started."""
    ports: dict[PortId, PortText] = field(factory=dict)
    tagged: set[PortId] = field(factory=set)
    """Ports whose host line has a tag: once it has answered one, dnsmasq dies of SIGHUP."""
    tombstones: dict[PortId, HostEntry] = field(factory=dict)
    """Ports that are gone, and that dnsmasq still caches."""
    _owners: dict[str, PortId] = field(factory=dict)
    """Ports by the MAC and IP addresses in their files."""
    _tombstone_owners: dict[str, PortId] = field(factory=dict)
    """Ports by the MAC and IP addresses in their tombstones."""

    def put(self, port: PortId, text: PortText) -> None:
        former = self.ports.get(port)
        self.ports[port] = text
        if former is not None and former.host == text.host:
            return
        self._remove_owner(port, former)
        for word in addresses_in(text.host):
            self._owners[word] = port
        if is_tagged(text.host):
            self.tagged.add(port)

    def drop(self, port: PortId) -> None:
        self._remove_owner(port, self.ports.pop(port))

    def _remove_owner(self, port: PortId, former: PortText | None) -> None:
        self.tagged.discard(port)
        for word in addresses_in(former.host) if former is not None else ():
            if self._owners.get(word) == port:
                del self._owners[word]

    def add_tombstone(self, port: PortId, entry: HostEntry) -> None:
        self.tombstones[port] = entry
        self._tombstone_owners |= dict.fromkeys(entry.words, port)

    def remove_tombstone(self, port: PortId) -> None:
        entry = self.tombstones.pop(port, EMPTY_ENTRY)
        for word in entry.words:
            if self._tombstone_owners.get(word) == port:
                del self._tombstone_owners[word]

    def owner_of(self, word: str) -> PortId | None:
        """Return the port whose file has this MAC or IP address."""
        return self._owners.get(word)

    def has_tombstone(self, words: Iterable[str]) -> bool:
        """Return whether a tombstone has one of these MAC and IP addresses."""
        return any(word in self._tombstone_owners for word in words)

    def entry(self, port: PortId) -> HostEntry:
        """Return the host entry in the file of *port*."""
        text = self.ports.get(port)
        return read_host(text.host) if text is not None else EMPTY_ENTRY


@frozen(kw_only=True)
class FoundNetwork:
    """Observed and desired state of one network."""

    files: NetworkFiles = field(factory=NetworkFiles)
    desired: DhcpNetwork | None = None
    desired_ports: Mapping[PortId, DhcpPort] = field(factory=dict)
    """Desired ports of earlier updates, waiting ones included."""
    netns: ObservedNetns | None = None
    """``None``: there is none, or the update does not concern the network itself."""
    process: str | None = None
    """Digest of the program that runs in the namespace of that name; ``None``: none runs."""
    orphaned: bool = False
    """A process of the network runs elsewhere: in a namespace that lost its name."""
    stale_watches: bool = False
    """dnsmasq runs, and watches directories that were replaced meanwhile."""
    device_gone: bool = False
    """dnsmasq runs, and its device is gone."""
    lease_count: int = 0
    """Estimate from the size of the lease file."""
    leases: str = ""
    """Text of the lease file, if the update changes or drops ports."""


@frozen(kw_only=True)
class Observed:
    """Networks that an update concerns; all, if it is complete."""

    networks: Mapping[NetworkId, FoundNetwork] = field(factory=dict)
    port_networks: Mapping[PortId, NetworkId] = field(factory=dict)
    """Network under which each port has files."""
