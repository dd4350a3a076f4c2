"""Index of the installed rules, parsed from the text of the chains.

The chains themselves are the only record: a driver that starts reads what its predecessor
installed, and what was changed by hand since.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from attrs import define, field

from netfw.drivers.values.keys import GroupKey
from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.bridge_firewall.values import IndexedPort, Zone
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.address import Mac, parse_mac
from netfw.model.values.ids import PortId, SecurityGroupId
from netfw_drivers.iptables.plan.dispatch import ZONES_ROOT, read_zone
from netfw_drivers.iptables.plan.group_chains import TABLE
from netfw_drivers.iptables.plan.names import (
    ANSWERS_IN,
    ANSWERS_OUT,
    EGRESS,
    INGRESS,
    RECEIVED,
    SENDING_MACS,
    SOURCES,
    bucket_of,
    id_in,
    read_set_name,
)
from netfw_drivers.iptables.plan.port_chains import IptablesChainComment, read_note, read_source

_SET = re.compile(r"--match-set [a-z]+-(\S+) ")
_JUMP = re.compile(r"-j [a-z]+-(\S+)$")
_MAC = re.compile(r"-m mac --mac-source (\S+) -j ACCEPT")


@define(kw_only=True)
class IptablesRulesetIndex(PolicyIndex[ChainKey]):
    """Indexes over the chains; only the driver updates them."""

    buckets: dict[str, dict[str, PortId]] = field(factory=dict)
    """Ports by bucket and device."""
    macs: dict[Remote, frozenset[Mac]] = field(factory=dict)
    zones6: dict[ChainKey, frozenset[Zone]] = field(factory=dict)
    """Zones that rules of IPv6 assign, by chain: in force also where those of IPv4 were lost."""

    @property
    def further_zones(self) -> Collection[Zone]:
        return frozenset[Zone]().union(*self.zones6.values())

    def update_all(self, chains: Mapping[ChainKey, tuple[str, ...]]) -> None:
        """Index all *chains*."""
        for key, lines in chains.items():
            self.update(key, lines)

    def update(self, key: ChainKey, lines: tuple[str, ...] | None) -> None:
        """Index a chain; ``None``: the chain was removed."""
        kind = key.name[:1]
        if key.table != TABLE:
            if key.name.startswith(f"{ZONES_ROOT}"):
                self._update_zones(key, lines or ())
        elif (id := id_in(kind, key.name)) is None:
            return
        elif kind == RECEIVED and key.family is Family.IPV4:
            self._update_port(PortId(id), lines)
        elif kind == SOURCES:
            self._update_sources(PortId(id), key.family, lines)
        elif kind in (EGRESS, INGRESS, ANSWERS_IN, ANSWERS_OUT):
            self._update_group(SecurityGroupId(id), key, lines)
        elif kind == SENDING_MACS:
            self._update_macs((GroupKey(SecurityGroupId(id)), int(key.family)), lines)

    def set_port(self, id: PortId, port: IndexedPort | None) -> None:
        former = self.ports.get(id)
        if former is not None:
            device = former.location.device
            bucket = self.buckets.get(bucket_of(device), {})
            if bucket.get(device) == id:
                del bucket[device]
                if not bucket:
                    del self.buckets[bucket_of(device)]
        super().set_port(id, port)
        if port is not None:
            device = port.location.device
            self.buckets.setdefault(bucket_of(device), {})[device] = id

    def _update_port(self, id: PortId, lines: tuple[str, ...] | None) -> None:
        note = read_note(lines[-1]) if lines else None
        port = None
        if lines and note is not None and note.port == id:
            port = _make_indexed_port(note, lines)
        self.set_port(id, port)

    def _update_sources(self, id: PortId, family: int, lines: tuple[str, ...] | None) -> None:
        found = (read_source(line, family) for line in lines or ())
        prefixes = frozenset(prefix for prefix in found if prefix is not None)
        if lines is None:
            self.sources.pop((id, family), None)
        else:
            self.sources[id, family] = prefixes

    def _update_group(
        self, id: SecurityGroupId, key: ChainKey, lines: tuple[str, ...] | None
    ) -> None:
        if lines is None:
            self.set_references(id, key, None)
            return
        names = {found[1] for line in lines if (found := _SET.search(line))}
        remotes = frozenset(r for r in map(read_set_name, names) if r is not None)
        self.set_references(id, key, remotes)
        if key.name[:1] in (EGRESS, INGRESS):
            self.groups[id] = bool(lines)

    def _update_macs(self, remote: Remote, lines: Iterable[str] | None) -> None:
        if lines is None:
            self.macs.pop(remote, None)
            return
        found = (_MAC.fullmatch(line) for line in lines)
        macs = (parse_mac(each[1]) for each in found if each is not None)
        self.macs[remote] = frozenset(mac for mac in macs if mac is not None)

    def _update_zones(self, key: ChainKey, lines: tuple[str, ...]) -> None:
        bucket = key.name.removeprefix(f"{ZONES_ROOT}.").removeprefix(f"{ZONES_ROOT}-rest")
        if key.name == ZONES_ROOT:
            return
        found = dict(filter(None, map(read_zone, lines)))
        if key.family is Family.IPV6:
            self.zones6[key] = frozenset(found.values())
            return
        for bridge in [name for name in self.zones if bucket_of(name) == bucket]:
            del self.zones[bridge]
        self.zones |= found


def _make_indexed_port(note: IptablesChainComment, lines: tuple[str, ...]) -> IndexedPort:
    jumps = (found[1] for line in lines if (found := _JUMP.search(line)))
    ids = (id_in(INGRESS, name) for name in jumps)
    groups = frozenset(SecurityGroupId(id) for id in ids if id is not None)
    return IndexedPort(
        location=note.location, network=note.network, trusted=note.trusted, groups=groups
    )
