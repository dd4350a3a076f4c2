"""How a dnsmasq that runs is told what is new: by files alone, by a signal or by a start.  Pure.

Whatever contradicts what it remembers, it has to be told to read everything anew; the reasons are
in decision 19 (``docs/decisions``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from netfw.drivers.dhcp import DhcpKey, DhcpPort
from netfw.model.ids import PortId
from netfw_drivers.dnsmasq.config.host_lease_files import HostEntry, read_host
from netfw_drivers.dnsmasq.config.render import PortText, needs_reload
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Reload

LEASE_BYTES: Final = 60
"""Of a line of the lease file, more or less."""
_NOTICED: Final = 0.5
"""What takes no longer than this is no reason to start anything."""
_A_START: Final = 0.15
_A_FILE_WRITTEN: Final = 0.0004


def restart_is_faster(changed: int, ports: int, leases: int) -> bool:
    """Whether dnsmasq is back sooner by a start than by reading the files of *changed* ports.

    :param ports: that it knows, those included.
    :param leases: that it knows.
    """
    reading = changed * ports * (1.1e-9 * ports + 15e-9 * leases)
    start = _A_START + ports * (28e-9 * ports + 36e-9 * leases) + changed * _A_FILE_WRITTEN
    return reading > max(start, _NOTICED)


MANY = 1000
"""From how many ports on they are told in one go: dnsmasq's queue of single files is bounded."""


@frozen(kw_only=True)
class ChangedPort:
    """A port whose files are to be written."""

    text: PortText
    value: DhcpPort
    owner: DhcpKey
    words: frozenset[str]
    """The MAC and IP addresses that it is about."""

    @property
    def entry(self) -> HostEntry:
        """Whom the new text is about; found out only where that matters."""
        return read_host(self.text.host)


@frozen(kw_only=True)
class PendingChanges:
    """What is new for a network whose command line is not."""

    found: FoundNetwork
    changed: Mapping[PortId, ChangedPort]
    gone: frozenset[PortId]
    opts: str | None
    """Of the network, where they are written."""

    def reload_method(self) -> Reload | None:
        """How dnsmasq is told; ``None``: it reads the files by itself, or does not run.

        With very many ports a start takes less time than a signal, within which nobody is answered.
        """
        shelf = self.found.shelf
        if self.found.process is None:  # unless it was ended in order to be started
            return Reload.RESTART if shelf.reload is Reload.RESTART else None
        if self.is_much or self.found.blind:
            return Reload.RESTART
        if not self._contradicts():
            return None
        former = (shelf.tagged, *(tomb.tagged for tomb in shelf.tombs.values()))
        now = (changed.entry.tagged for changed in self.changed.values())
        tagged = shelf.reload is Reload.RESTART or any(former) or any(now)
        return Reload.RESTART if tagged or len(shelf.ports) > MANY else Reload.SIGNAL

    @property
    def is_much(self) -> bool:
        """Whether so much is new that dnsmasq is better started with it."""
        changed = len(self.changed) + len(self.gone)
        ports = len(self.found.shelf.ports) + len(self.changed)
        return changed > MANY or restart_is_faster(changed, ports, self.found.lease_count)

    def _contradicts(self) -> bool:
        """Whether dnsmasq remembers something else than the files are going to say."""
        shelf = self.found.shelf
        if shelf.reload or len(shelf.tombs) > MANY:
            return True
        if self.opts is not None and self.opts != shelf.opts:
            return True
        if any(needs_reload(shelf.ports.get(p), new.text) for p, new in self.changed.items()):
            return True
        freed = {word for port in self.gone for word in shelf.entry(port).words}
        return any(
            port in shelf.tombs or shelf.is_buried(new.words) or new.words & freed
            for port, new in self.changed.items()
        )
