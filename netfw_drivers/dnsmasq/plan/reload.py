"""How a running dnsmasq is notified of changes: by files alone, by SIGHUP or by a restart.  Pure.

A change that contradicts what dnsmasq caches needs a full read; the reasons are in decision 19
(``docs/decisions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from netfw.drivers.dhcp import DhcpKey, DhcpPort
from netfw.model.values.ids import PortId
from netfw_drivers.dnsmasq.config.file_parsers import HostEntry, read_host
from netfw_drivers.dnsmasq.config.render import PortText, needs_reload
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Reload

LEASE_BYTES: Final = 60
"""Approximate length of a line of the lease file."""
_TOLERATED: Final = 0.5
"""Seconds of reading that do not justify a restart."""
_START: Final = 0.15
_FILE_WRITTEN: Final = 0.0004


def restart_is_faster(changed: int, ports: int, leases: int) -> bool:
    """Return whether a restart takes less time than reading the files of *changed* ports.

    :param ports: number of ports that dnsmasq knows, the changed ones included.
    :param leases: number of leases that dnsmasq knows.
    """
    reading = changed * ports * (1.1e-9 * ports + 15e-9 * leases)
    start = _START + ports * (28e-9 * ports + 36e-9 * leases) + changed * _FILE_WRITTEN
    return reading > max(start, _TOLERATED)


BULK = 1000
"""Ports beyond which dnsmasq restarts: its inotify queue is bounded."""


@frozen(kw_only=True)
class ChangedPort:
    """Port whose files have to be written."""

    text: PortText
    value: DhcpPort
    owner: DhcpKey
    words: frozenset[str]
    """MAC and IP addresses in its host file."""

    @property
    def entry(self) -> HostEntry:
        """Host entry in the new text; parsed on use."""
        return read_host(self.text.host)


@frozen(kw_only=True)
class PendingChanges:
    """Changes of a network whose command line stays the same."""

    found: FoundNetwork
    changed: Mapping[PortId, ChangedPort]
    gone: frozenset[PortId]
    opts: str | None
    """New option file of the network, if it is written."""

    def reload_method(self) -> Reload | None:
        """Return how to notify dnsmasq; ``None``: it reads the files by inotify, or does not run.

        With very many ports a restart takes less time than SIGHUP; dnsmasq answers no client
        during either.
        """
        files = self.found.files
        if self.found.process is None:  # a stopped one may have to start
            return Reload.RESTART if files.reload is Reload.RESTART else None
        if self.is_bulk or self.found.stale_watches:
            return Reload.RESTART
        if not self._contradicts():
            return None
        former = (files.tagged, *(tomb.tagged for tomb in files.tombstones.values()))
        now = (changed.entry.tagged for changed in self.changed.values())
        tagged = files.reload is Reload.RESTART or any(former) or any(now)
        return Reload.RESTART if tagged or len(files.ports) > BULK else Reload.SIGNAL

    @property
    def is_bulk(self) -> bool:
        """Whether the number of changes makes a restart faster."""
        changed = len(self.changed) + len(self.gone)
        ports = len(self.found.files.ports) + len(self.changed)
        return changed > BULK or restart_is_faster(changed, ports, self.found.lease_count)

    def _contradicts(self) -> bool:
        """Return whether dnsmasq caches something that the new files contradict."""
        files = self.found.files
        if files.reload or len(files.tombstones) > BULK:
            return True
        if self.opts is not None and self.opts != files.opts:
            return True
        if any(needs_reload(files.ports.get(p), new.text) for p, new in self.changed.items()):
            return True
        freed = {word for port in self.gone for word in files.entry(port).words}
        return any(
            port in files.tombstones or files.has_tombstone(new.words) or new.words & freed
            for port, new in self.changed.items()
        )
