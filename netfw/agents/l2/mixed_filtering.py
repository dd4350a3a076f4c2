"""Networks on which ports of one project are filtered and ports of another are not.  Pure.

The ports of a network share a conntrack zone.  A port without port security can forge the opening
of a connection there, in the name of a filtered port; packets to that port then pass as replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from netfw.drivers.support.port_filtering import is_unfiltered
from netfw.model.port import Port
from netfw.model.values.device_owner import is_trusted
from netfw.model.values.ids import NetworkId, PortId

_Entry = tuple[NetworkId, bool, str]
"""The network of a port, whether it is filtered, and its project."""


class MixedNetworks:
    """The networks of this host's plugged ports; one more port costs the same for any number."""

    def __init__(self) -> None:
        self._entries: dict[PortId, _Entry] = {}
        self._projects: dict[tuple[NetworkId, bool], Counter[str]] = {}
        self._networks: set[NetworkId] = set()

    @property
    def networks(self) -> Set[NetworkId]:
        """The networks with filtered ports of one project and unfiltered ones of another."""
        return self._networks

    def update(self, id: PortId, port: Port | None) -> None:
        """Record a plugged port; ``None``: it is not plugged, or gone."""
        former, entry = self._entries.pop(id, None), _entry(port)
        if former is not None:
            self._count(former, -1)
        if entry is not None:
            self._entries[id] = entry
            self._count(entry, 1)
        for network in {each[0] for each in (former, entry) if each is not None}:
            mixed = self._is_mixed(network)
            (self._networks.add if mixed else self._networks.discard)(network)

    def _count(self, entry: _Entry, step: int) -> None:
        network, filtered, project = entry
        projects = self._projects.setdefault((network, filtered), Counter())
        projects[project] += step
        if not projects[project]:
            del projects[project]
        if not projects:
            del self._projects[network, filtered]

    def _is_mixed(self, network: NetworkId) -> bool:
        filtered = frozenset(self._projects.get((network, True), ()))
        unfiltered = frozenset(self._projects.get((network, False), ()))
        return bool(filtered and unfiltered) and len(filtered | unfiltered) > 1


def _entry(port: Port | None) -> _Entry | None:
    """Return the entry of an instance's port; routers and DHCP servers have none."""
    if port is None or is_trusted(port.device_owner):
        return None
    return port.network_id, not is_unfiltered(port), port.project_id
