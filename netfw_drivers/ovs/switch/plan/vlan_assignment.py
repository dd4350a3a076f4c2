"""Assignment of local VLANs to networks.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from netfw.drivers.values.keys import NetworkKey
from netfw.model.segment import Segment
from netfw.model.values.ids import NetworkId
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns
from netfw.plan import Operation
from netfw_drivers.ovs.common.local_vlans import (
    NET_UUID,
    BroadcastDomain,
    VlansExhausted,
    free_vlan,
    record_of,
)
from netfw_drivers.ovs.switch.plan.observed import Observed
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, row
from netfw_drivers.ovs.switch.plan.state import SwitchStateOverlay


class VlanAssignment:
    """Local VLANs as they will be; a number is used again only after its release."""

    def __init__(self, observed: Observed, wanted: SwitchStateOverlay, bridge: str) -> None:
        self.numbers: dict[BroadcastDomain, int] = dict(observed.vlans.numbers)
        self.records: dict[str, str] = {}
        self._observed, self._wanted, self._bridge = observed, wanted, bridge
        self._taken = observed.vlans.taken

    def assign(self, draft: OvsdbChanges, keys: Iterable[NetworkKey]) -> None:
        """Assign numbers to the segments of *keys*, and release those of their former segments."""
        for key in sorted(keys, key=self._is_blank):
            network = self._wanted.network(key.network)
            if network is None:
                continue
            try:
                for segment in network.segments:
                    self._record(draft, key, segment)
            except VlansExhausted as error:
                draft.refused[key] = error
                continue
            domains = {BroadcastDomain(key.network, segment.id) for segment in network.segments}
            self._release(draft, key, self._observed.vlans.of(key.network).keys() - domains)

    def release(self, draft: OvsdbChanges, keys: Iterable[NetworkKey]) -> None:
        """Release every number of *keys*."""
        for key in keys:
            self._release(draft, key, self._observed.vlans.of(key.network).keys())

    def tidy(self, draft: OvsdbChanges) -> None:
        """Remove values that have the name of a record and are none."""
        for name, value in self._observed.vlans.garbage.items():
            draft.release.append(self._change((), name, value, None))

    def _record(self, draft: OvsdbChanges, key: NetworkKey, segment: Segment) -> None:
        domain = BroadcastDomain(key.network, segment.id)
        known = self._observed.vlans.segments.get(domain)
        if known is None:
            self.numbers[domain] = free_vlan(self._taken, self._hints(key.network))
            self._taken.add(self.numbers[domain])
        name, value = record_of(self.numbers[domain], segment)
        before = None if known is None else record_of(self.numbers[domain], known)[1]
        self.records[name] = value
        if before != value and self._bridge in draft.snapshot.bridges:
            draft.prepare.append(self._change([key], name, before, value))

    def _release(self, draft: OvsdbChanges, key: NetworkKey, domains: Set[BroadcastDomain]) -> None:
        for domain in sorted(domains, key=str):
            segment = self._observed.vlans.segments[domain]
            name, value = record_of(self.numbers.pop(domain), segment)
            draft.release.append(self._change([key], name, value, None))

    def _change(
        self, owners: Iterable[NetworkKey], name: str, before: str | None, after: str | None
    ) -> Operation:
        change = SetColumns(
            table=OvsdbTable.BRIDGE,
            record=self._bridge,
            keys={"external_ids": {name: after}},
            expect={name: before},
        )
        return row(change, owners)

    def _is_blank(self, key: NetworkKey) -> bool:
        """Return whether any number will do: no record and no port has one."""
        network = self._wanted.network(key.network)
        segments = () if network is None else network.segments
        recorded = all(
            BroadcastDomain(key.network, segment.id) in self.numbers for segment in segments
        )
        return not recorded and next(self._hints(key.network), None) is None

    def _hints(self, network: NetworkId) -> Iterator[int]:
        """Yield the VLANs that ports of this network have already."""
        for key in sorted(self._wanted.ports(network), key=str):
            for port in self._observed.plugged.get(key.port, ()):
                tag = port.other_config.get("tag", "")
                if port.other_config.get(NET_UUID) == str(network) and tag.isdecimal():
                    yield int(tag)
