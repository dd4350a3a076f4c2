"""Mirror: the database as values, and what changed since the last step.

It is updated with rows of the replica by the one thread that runs the replica, under the lock of
`netfw.ovs.ovsdb.client.Ovsdb`.  A step costs what changed, not what there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from attrs import define, field, fields_dict

from netfw.ovs.ovsdb.values import Bridge, DatabaseChanged, Interface, OvsdbPort, Snapshot, Switch
from netfw.plan.versioned_map import VersionedMap

Rows = Mapping[UUID, Any]
Tables = Mapping[str, Rows]

_BRIDGE = frozenset(fields_dict(Bridge)) - {"uuid"}
_PORT = frozenset(fields_dict(OvsdbPort)) - {"uuid", "bridge", "interfaces"}
_INTERFACE = frozenset(fields_dict(Interface)) - {"uuid"}
_SWITCH = frozenset(fields_dict(Switch)) - {"uuid"}

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "Open_vSwitch": (*sorted(_SWITCH), "bridges"),
    "Bridge": (*sorted(_BRIDGE), "ports"),
    "Port": (*sorted(_PORT), "interfaces"),
    "Interface": tuple(sorted(_INTERFACE)),
}
"""Monitored columns: no counters, which would update every interface every few seconds."""


@define
class Dirty:
    """Rows that were updated since the last step, by table; or everything."""

    everything: bool = True
    rows: dict[str, set[UUID]] = field(factory=lambda: defaultdict(set))


class DatabaseMirror:
    """The database as values, by name."""

    def __init__(self) -> None:
        self.switch: Switch | None = None
        self.bridges: dict[str, Bridge] = {}
        self.ports: VersionedMap[str, OvsdbPort] = VersionedMap()
        self._claims: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._bridge_names: dict[UUID, str] = {}
        self._bridge_ports: dict[UUID, frozenset[Any]] = {}
        self._port_bridge: dict[UUID, UUID] = {}
        self._port_names: dict[UUID, str] = {}
        self._interface_port: dict[UUID, UUID] = {}

    def snapshot(self) -> Snapshot:
        """Return the present state; its mappings are the mirror's own, to read under the lock."""
        assert self.switch is not None
        return Snapshot(switch=self.switch, bridges=self.bridges, ports=self.ports)

    def claiming(self, key: str, value: str) -> tuple[OvsdbPort, ...]:
        """Return the ports that have this value of an indexed key, on either of their rows."""
        return tuple(self.ports[name] for name in sorted(self._claims.get((key, value), ())))

    def step(self, tables: Tables, dirty: Dirty) -> DatabaseChanged:
        """Update the mirror with *dirty* rows and return what changed."""
        if dirty.everything:
            self._mark_all(tables, dirty)
        switches = tables["Open_vSwitch"].values()
        found = [Switch(uuid=row.uuid, **_columns(row, _SWITCH)) for row in switches]
        self.switch = found[0] if found else None
        ports = dirty.rows["Port"] | self._ports_of_interfaces(dirty.rows["Interface"])
        bridges, bridges_gone, moved = self._step_bridges(tables["Bridge"], dirty.rows["Bridge"])
        put, gone = self._step_ports(tables, ports | moved)
        return DatabaseChanged(
            bridges=bridges, bridges_gone=bridges_gone, ports=put, ports_gone=gone
        )

    def _mark_all(self, tables: Tables, dirty: Dirty) -> None:
        dirty.rows["Bridge"] = {*tables["Bridge"], *self._bridge_names}
        dirty.rows["Port"] = {*tables["Port"], *self._port_names}

    def _ports_of_interfaces(self, interfaces: Iterable[UUID]) -> set[UUID]:
        owners = self._interface_port
        return {owners[interface] for interface in interfaces if interface in owners}

    def _step_bridges(
        self, rows: Rows, dirty: Iterable[UUID]
    ) -> tuple[dict[str, Bridge], frozenset[str], set[UUID]]:
        """Return changed bridges, removed ones, and ports that were added, removed or moved."""
        put: dict[str, Bridge] = {}
        gone: set[str] = set()
        moved: set[UUID] = set()
        for uuid in sorted(dirty, key=rows.__contains__):  # removed before added
            row = rows.get(uuid)
            before = self._bridge_ports.get(uuid, frozenset())
            after = _atoms(row, "ports") if row else frozenset()
            came = [atom.value for atom in after - before]
            went = [atom.value for atom in before - after]
            moved.update(came, went)
            for port in went:
                if self._port_bridge.get(port) == uuid:
                    del self._port_bridge[port]
            if row is None:
                gone |= self._forget_bridge(uuid)
                continue
            self._bridge_ports[uuid] = after
            self._port_bridge.update(dict.fromkeys(came, uuid))
            put |= self._put_bridge(uuid, row)
        return put, frozenset(gone - put.keys() - self.bridges.keys()), moved

    def _forget_bridge(self, uuid: UUID) -> set[str]:
        name = self._bridge_names.pop(uuid, None)
        self._bridge_ports.pop(uuid, None)
        if name is None:
            return set()
        del self.bridges[name]
        return {name}

    def _put_bridge(self, uuid: UUID, row: Any) -> dict[str, Bridge]:
        bridge = Bridge(uuid=uuid, **_columns(row, _BRIDGE))
        self._bridge_names[uuid] = bridge.name
        if self.bridges.get(bridge.name) == bridge:
            return {}
        self.bridges[bridge.name] = bridge
        return {bridge.name: bridge}

    def _step_ports(
        self, tables: Tables, dirty: Iterable[UUID]
    ) -> tuple[dict[str, OvsdbPort], frozenset[str]]:
        rows, interfaces = tables["Port"], tables["Interface"]
        before: dict[str, OvsdbPort] = {}
        for uuid in dirty:
            if uuid in self._port_names:
                port = self._forget_port(uuid)
                before[port.name] = port
        put: dict[str, OvsdbPort] = {}
        for uuid in dirty:
            row, bridge = rows.get(uuid), self._port_bridge.get(uuid)
            if row is None or bridge not in self._bridge_names:
                continue
            members = [interfaces[u] for u in _members(row, "interfaces") if u in interfaces]
            if members:
                port = self._put_port(row, members, self._bridge_names[bridge])
                put[port.name] = port
        different = {name: port for name, port in put.items() if before.get(name) != port}
        return different, frozenset(before.keys() - put.keys())

    def _forget_port(self, uuid: UUID) -> OvsdbPort:
        port = self.ports.pop(self._port_names.pop(uuid))
        for interface in port.interfaces:
            self._interface_port.pop(interface.uuid, None)
        for claim in port.claims:
            self._claims[claim].discard(port.name)
            if not self._claims[claim]:
                del self._claims[claim]
        return port

    def _put_port(self, row: Any, members: list[Any], bridge: str) -> OvsdbPort:
        uuid = row.uuid
        found = [Interface(uuid=member.uuid, **_columns(member, _INTERFACE)) for member in members]
        interfaces = tuple(sorted(found, key=lambda interface: interface.name))
        port = OvsdbPort(uuid=uuid, bridge=bridge, interfaces=interfaces, **_columns(row, _PORT))
        self.ports[port.name] = port
        self._port_names[uuid] = port.name
        for interface in interfaces:
            self._interface_port[interface.uuid] = uuid
        for claim in port.claims:
            self._claims[claim].add(port.name)
        return port


def _columns(row: Any, names: Iterable[str]) -> dict[str, Any]:
    data = row._data
    return {name: _value(data[name]) for name in names}


def _value(datum: Any) -> Any:
    """Return a column's content; reading the row's attribute would convert it twice."""
    values, kind = datum.values, datum.type
    if kind.is_map():
        return {key.value: value.value for key, value in values.items()}
    if kind.n_max > 1:
        return tuple(sorted(atom.value for atom in values))
    for atom in values:
        return atom.value
    return None


def _atoms(row: Any, name: str) -> frozenset[Any]:
    """Return the atoms as the replica stores them, with cached hashes: a UUID computes its own."""
    return frozenset(row._data[name].values)


def _members(row: Any, name: str) -> list[UUID]:
    """Return the rows that a column refers to."""
    return [atom.value for atom in row._data[name].values]
