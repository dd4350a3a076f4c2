"""Ports of this host: what the database says of them, and what they wait for.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from netfw.drivers.keys import PortKey
from netfw.drivers.switch_values import Admission, LocalNetwork, Wiring
from netfw.errors import InvalidInput
from netfw.model.segment import Segment
from netfw.ovs.ovsdb.operations import SetColumns, Table, Value
from netfw.ovs.ovsdb.values import IFACE_ID, Port
from netfw.plan import Operation
from netfw_drivers.ovs.common.local_vlans import (
    DEAD_VLAN,
    Domain,
    dead_record,
    no_record,
    port_record,
)
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.switch.plan.observed import (
    PARKED,
    Observed,
    by_rank,
    has_tag,
    is_recorded,
    port_id_of,
)
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, differing, row
from netfw_drivers.ovs.switch.plan.state import SwitchStateOverlay

Row = tuple[Mapping[str, str | None], int]
"""What the database says of a port: its record, and its VLAN."""
_DEAD: Row = (no_record(), DEAD_VLAN)


class Ports:
    """Plans ports one by one; ``wired`` are those that get flows."""

    def __init__(
        self,
        draft: OvsdbChanges,
        observed: Observed,
        wanted: SwitchStateOverlay,
        numbers: Mapping[Domain, int],
    ) -> None:
        self._draft, self._observed, self._wanted = draft, observed, wanted
        self._numbers = numbers
        self.wired: dict[PortKey, PlannedPort] = {}

    def plan(self, keys: Iterable[PortKey]) -> None:
        for key in keys:
            wiring = self._wanted.get(key, Wiring)
            if wiring is None:
                self._drop(key)
            else:
                self._put(key, wiring)

    def _put(self, key: PortKey, wiring: Wiring) -> None:
        ports = by_rank(self._observed.plugged.get(key.port, ()))
        for surplus in ports[1:]:
            self._prepare(key, surplus, no_record(), DEAD_VLAN)
        if not ports:
            self._draft.waiting[key] = "no device was plugged for it yet"
            return
        port = ports[0]
        if wiring.admission is Admission.DEAD:
            self._prepare(key, port, dead_record(wiring.network), DEAD_VLAN)
            return
        network = self._wanted.network(wiring.network)
        if network is None:
            self._wait(key, port, f"network {wiring.network} is not on this host yet")
            return
        segment = _segment(wiring, network)
        if isinstance(segment, InvalidInput):
            self._draft.refused[key] = segment
            return
        domain = Domain(wiring.network, segment.id)
        vlan = self._numbers.get(domain)
        number = ofport_of(port)
        if vlan is None:
            self._wait(key, port, "its network has no local VLAN")
            return
        if number is None:
            self._wait_for_number(key, port, wiring, (port_record(segment, vlan), vlan))
            return
        live = wiring.admission is Admission.LIVE or self._is_live(port, segment, vlan, number)
        wiring = self._as_it_is(wiring, number) if live else wiring
        self.wired[key] = PlannedPort(
            domain=domain,
            number=number,
            vlan=vlan,
            mac=wiring.mac,
            guard=wiring.guard,
            filtered=wiring.filtered,
            open=_is_open(wiring),
            live=live,
        )
        self._prepare(key, port, port_record(segment, vlan), vlan)

    def _is_live(self, port: Port, segment: Segment, vlan: int, number: int) -> bool:
        """Whether it takes part in this very network now."""
        same = not differing(port.other_config, port_record(segment, vlan))
        return same and self._observed.admitted(number)

    def _as_it_is(self, wiring: Wiring, number: int) -> Wiring:
        """On hold it is neither cut off nor let off by filters or guards: others come first."""
        if wiring.admission is Admission.LIVE:
            return wiring
        guard = wiring.guard if self._observed.guarded(number) else None
        return evolve(wiring, filtered=self._observed.filtered(number), guard=guard)

    def _drop(self, key: PortKey) -> None:
        for port in self._observed.plugged.get(key.port, ()):
            self._prepare(key, port, no_record(), DEAD_VLAN)

    def _wait(self, key: PortKey, port: Port, why: str, row: Row = _DEAD) -> None:
        """It stays dead as long as it waits."""
        self._draft.waiting[key] = why
        self._prepare(key, port, *row)

    def _wait_for_number(self, key: PortKey, port: Port, wiring: Wiring, row: Row) -> None:
        """Without a number it has no flows, and nothing passes; its row can be written already.

        Not that of one that is held back: by its record, and the flows of whoever had the number
        that it gets, it would seem to be live.
        """
        why = port.interface.error or "the switch has not numbered its device yet"
        self._wait(key, port, why, row if wiring.admission is Admission.LIVE else _DEAD)

    def _prepare(
        self, key: PortKey, port: Port, record: Mapping[str, str | None], vlan: int
    ) -> None:
        values = {} if has_tag(port, vlan) else {**PARKED, "tag": vlan}
        keys = differing(port.other_config, record)
        if values or keys:
            self._draft.prepare.append(_change(key, port, values, keys))


def leftovers(observed: Observed) -> set[PortKey]:
    """The ports that have a record of being wired, or of being dead."""
    return {
        PortKey(port_id)
        for port_id, ports in observed.plugged.items()
        if any(map(is_recorded, ports))
    }


def _is_open(wiring: Wiring) -> bool:
    """Whether other MAC addresses than its own are behind it."""
    return wiring.open or any(source.mac != wiring.mac for source in wiring.guard or ())


def _segment(wiring: Wiring, network: LocalNetwork) -> Segment | InvalidInput:
    """The segment that a port is on."""
    if wiring.segment is None and len(network.segments) == 1:
        return network.segments[0]
    for segment in network.segments:
        if segment.id == wiring.segment:
            return segment
    known = ", ".join(str(segment.id) for segment in network.segments)
    return InvalidInput({"segment": f"{wiring.segment} is not one of {known}"})


def _change(
    key: PortKey, port: Port, values: Mapping[str, Value], record: Mapping[str, str | None]
) -> Operation:
    change = SetColumns(
        table=Table.PORT,
        record=port.name,
        values=values,
        keys={"other_config": record} if record else {},
        expect={IFACE_ID: str(port_id_of(port) or "")},
    )
    return row(change, [key])
