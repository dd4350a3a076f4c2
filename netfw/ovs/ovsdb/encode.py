"""Encoding of operations in the database's protocol (RFC 7047), and of its errors.  Pure.

Each row that an operation relies on is guarded by a ``wait``: if the mirror was stale the database
refuses, and the transaction is rendered once more on the newer mirror.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never
from uuid import UUID

from attrs import define, field, fields, frozen

from netfw.errors import OperationRefused
from netfw.ovs.ovsdb.operations import (
    AddBridge,
    AddPort,
    OvsdbOperation,
    OvsdbTable,
    RemoveBridge,
    RemovePort,
    SetColumns,
    Value,
)
from netfw.ovs.ovsdb.values import Bridge, Interface, OvsdbPort, Snapshot

Json = dict[str, Any]

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_DUPLICATE = re.compile(r'identical values \((?P<value>".*"|[^"]*)\) for index on column "name"')


@frozen
class Rendered:
    """One transaction; ``sources[i]`` are the operations behind ``statements[i]``."""

    statements: tuple[Json, ...]
    sources: tuple[tuple[OvsdbOperation, ...], ...]


BARRIER = Rendered(
    ({"op": "select", "table": OvsdbTable.SWITCH, "where": [], "columns": ["next_cfg"]},), ((),)
)
"""A read-only transaction: changes before it are announced before its reply."""


def render(operations: Sequence[OvsdbOperation], snapshot: Snapshot) -> Rendered:
    """Render one transaction that executes all of *operations*.

    :raises OperationRefused: some cannot be executed on the mirror's state; each with its reason.
    """
    writer = _Writer(snapshot)
    refused: dict[object, str] = {}
    for operation in operations:
        try:
            writer.write(operation)
        except _Refused as refusal:
            refused[operation] = str(refusal)
    if refused:
        raise OperationRefused(refused)
    return writer.finish()


def explain(results: Sequence[Any], rendered: Rendered) -> dict[object, str]:
    """Return the operations that the reply blames, with its reason; all if it names none."""
    everything = [source for sources in rendered.sources for source in sources]
    for index, result in enumerate(results):
        if not isinstance(result, dict) or "error" not in result:
            continue
        reason = f"{result['error']}: {result.get('details', 'no details')}"
        if index < len(rendered.sources):
            return dict.fromkeys(rendered.sources[index], reason)
        blamed = [source for source in everything if _name_of(source) == _duplicate(reason)]
        return dict.fromkeys(blamed or everything, reason)
    return dict.fromkeys(everything, "the database refused the transaction and did not say why")


class _Refused(Exception):
    """An operation cannot be executed on this snapshot."""


@define
class _Change:
    """Changes to one set of references (a bridge's ports, the switch's bridges)."""

    insert: list[Any] = field(factory=list)
    delete: list[Any] = field(factory=list)
    sources: list[OvsdbOperation] = field(factory=list)


class _Writer:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._statements: list[Json] = []
        self._sources: list[tuple[OvsdbOperation, ...]] = []
        self._ports: dict[str, _Change] = {}
        self._bridges = _Change()
        self._new_bridges: dict[str, list[str]] = {}
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self._bridges_removed: set[str] = set()
        self._guarded: set[UUID] = set()
        self._expected: set[UUID] = set()

    def write(self, operation: OvsdbOperation) -> None:
        for attribute in fields(type(operation)):
            _check_text(getattr(operation, attribute.name))
        match operation:
            case AddBridge():
                self._add_bridge(operation)
            case RemoveBridge():
                self._remove_bridge(operation)
            case AddPort():
                self._add_port(operation)
            case RemovePort():
                self._remove_port(operation)
            case SetColumns():
                self._set_columns(operation)
            case _:
                assert_never(operation)

    def finish(self) -> Rendered:
        for bridge, change in self._ports.items():
            if bridge in self._new_bridges or bridge not in self._bridges_removed:
                self._mutate(OvsdbTable.BRIDGE, self._bridge_reference(bridge), "ports", change)
        switch = ["uuid", str(self._snapshot.switch.uuid)]
        self._mutate(OvsdbTable.SWITCH, switch, "bridges", self._bridges)
        return Rendered(tuple(self._statements), tuple(self._sources))

    def _add_bridge(self, wanted: AddBridge) -> None:
        self._claim(wanted.name)
        local = AddPort(bridge=wanted.name, name=wanted.name, type="internal")
        reference = ["named-uuid", f"bridge{len(self._new_bridges)}"]
        self._new_bridges[wanted.name] = reference
        row = _row(
            name=wanted.name,
            datapath_type=wanted.datapath_type or None,
            fail_mode=wanted.fail_mode,
            protocols=wanted.protocols or None,
            other_config=wanted.other_config or None,
            external_ids=wanted.external_ids or None,
            ports=["set", [self._insert_port(local, wanted)]],
        )
        self._insert(OvsdbTable.BRIDGE, reference[1], row, wanted)
        self._bridges.insert.append(reference)
        self._bridges.sources.append(wanted)

    def _remove_bridge(self, wanted: RemoveBridge) -> None:
        bridge = self._snapshot.bridges.get(wanted.name)
        if bridge is None or wanted.name in self._bridges_removed:
            return
        ports = [port.name for port in self._snapshot.ports.values() if port.bridge == bridge.name]
        self._removed.update(ports)
        self._bridges_removed.add(wanted.name)
        self._bridges.delete.append(["uuid", str(bridge.uuid)])
        self._bridges.sources.append(wanted)

    def _add_port(self, wanted: AddPort) -> None:
        self._bridge_reference(wanted.bridge)
        self._claim(wanted.name)
        if wanted.bridge not in self._new_bridges:
            self._guard_name(OvsdbTable.BRIDGE, self._snapshot.bridges[wanted.bridge], wanted)
        change = self._ports.setdefault(wanted.bridge, _Change())
        change.insert.append(self._insert_port(wanted, wanted))
        change.sources.append(wanted)

    def _insert_port(self, wanted: AddPort, source: OvsdbOperation) -> list[str]:
        number = len(self._statements)
        interface = _row(
            name=wanted.name,
            type=wanted.type or None,
            mac=wanted.mac and str(wanted.mac),
            mtu_request=wanted.mtu_request,
            ofport_request=wanted.ofport_request,
            options=wanted.options or None,
            external_ids=wanted.external_ids or None,
        )
        self._insert(OvsdbTable.INTERFACE, f"interface{number}", interface, source)
        port = _row(
            name=wanted.name,
            interfaces=["named-uuid", f"interface{number}"],
            tag=wanted.tag,
            other_config=wanted.other_config or None,
            external_ids=wanted.port_external_ids or None,
        )
        self._insert(OvsdbTable.PORT, f"port{number}", port, source)
        return ["named-uuid", f"port{number}"]

    def _remove_port(self, wanted: RemovePort) -> None:
        port = self._snapshot.ports.get(wanted.name)
        if port is None or wanted.name in self._removed:
            return
        if port.name == port.bridge:
            raise _Refused(f"{port.name} is the bridge's own port; it goes with the bridge")
        self._check_expected(port, wanted.expect, wanted)
        self._removed.update([port.name], (interface.name for interface in port.interfaces))
        change = self._ports.setdefault(port.bridge, _Change())
        change.delete.append(["uuid", str(port.uuid)])
        change.sources.append(wanted)

    def _set_columns(self, wanted: SetColumns) -> None:
        where = [["_uuid", "==", ["uuid", str(self._find(wanted))]]]
        if wanted.values:
            row = {column: _encode(value) for column, value in wanted.values.items()}
            self._say({"op": "update", "table": wanted.table, "where": where, "row": row}, wanted)
        mutations: list[Any] = []
        for column, keys in wanted.keys.items():
            mutations.append([column, "delete", ["set", list(keys)]])
            kept = {key: value for key, value in keys.items() if value is not None}
            if kept:
                mutations.append([column, "insert", _encode(kept)])
        if mutations:
            statement = {"op": "mutate", "table": wanted.table, "where": where}
            self._say({**statement, "mutations": mutations}, wanted)

    def _find(self, wanted: SetColumns) -> UUID:
        """Find the row to change, guarded against its removal or another owner."""
        if wanted.table is OvsdbTable.SWITCH:
            return self._snapshot.switch.uuid
        if wanted.table is OvsdbTable.BRIDGE:
            bridge = self._snapshot.bridges.get(wanted.record)
            if bridge is None or wanted.record in self._bridges_removed:
                raise _Refused(f"there is no bridge {wanted.record}")
            self._guard_name(OvsdbTable.BRIDGE, bridge, wanted)
            for key, value in wanted.expect.items():
                self._check_id(OvsdbTable.BRIDGE, bridge, key, value, wanted)
            return bridge.uuid
        port = self._snapshot.ports.get(wanted.record)
        if port is None or wanted.record in self._removed:
            raise _Refused(f"there is no port {wanted.record}")
        self._check_expected(port, wanted.expect, wanted)
        if wanted.table is OvsdbTable.PORT:
            self._guard_name(OvsdbTable.PORT, port, wanted)
            return port.uuid
        self._guard_name(OvsdbTable.INTERFACE, port.interface, wanted)
        return port.interface.uuid

    def _claim(self, name: str) -> None:
        ports = self._snapshot.ports
        if name in self._added:
            raise _Refused(f"{name} is to be added twice")
        taken = name in ports or any(
            name == interface.name
            for port in ports.values()
            if len(port.interfaces) > 1
            for interface in port.interfaces
        )
        if taken and name not in self._removed:
            where = ports[name].bridge if name in ports else "a bond"
            raise _Refused(f"{name} exists already, on {where}")
        self._added.add(name)

    def _check_expected(
        self, port: OvsdbPort, expect: Mapping[str, str | None], source: OvsdbOperation
    ) -> None:
        for key, value in expect.items():
            if key in port.external_ids:
                self._check_id(OvsdbTable.PORT, port, key, value, source)
            else:
                self._check_id(OvsdbTable.INTERFACE, port.interface, key, value, source)

    def _check_id(
        self,
        table: OvsdbTable,
        row: Bridge | OvsdbPort | Interface,
        key: str,
        value: str | None,
        source: OvsdbOperation,
    ) -> None:
        """Check that the row has this value, or no such key, and let the database check it too."""
        found = row.external_ids.get(key)
        if found != value:
            raise _Refused(f"{row.name} changed hands: its {key} is {found}, not {value}")
        if row.uuid not in self._expected:
            self._expected.add(row.uuid)
            ids = {"external_ids": _encode(row.external_ids)}
            self._wait(table, row.uuid, ids, source)

    def _guard_name(
        self, table: OvsdbTable, row: Bridge | OvsdbPort | Interface, source: OvsdbOperation
    ) -> None:
        if row.uuid not in self._guarded:
            self._guarded.add(row.uuid)
            self._wait(table, row.uuid, {"name": row.name}, source)

    def _wait(self, table: OvsdbTable, uuid: UUID, row: Json, source: OvsdbOperation) -> None:
        where = [["_uuid", "==", ["uuid", str(uuid)]]]
        statement: Json = {"op": "wait", "timeout": 0, "table": table, "where": where}
        self._say({**statement, "columns": list(row), "until": "==", "rows": [row]}, source)

    def _bridge_reference(self, name: str) -> list[str]:
        if name in self._new_bridges:
            return self._new_bridges[name]
        bridge = self._snapshot.bridges.get(name)
        if bridge is None or name in self._bridges_removed:
            raise _Refused(f"there is no bridge {name}; make it, or configure the one you have")
        return ["uuid", str(bridge.uuid)]

    def _insert(self, table: OvsdbTable, name: str, row: Json, source: OvsdbOperation) -> None:
        self._say({"op": "insert", "table": table, "uuid-name": name, "row": row}, source)

    def _mutate(
        self, table: OvsdbTable, reference: list[str], column: str, change: _Change
    ) -> None:
        mutations = [
            [column, verb, ["set", members]]
            for verb, members in (("delete", change.delete), ("insert", change.insert))
            if members
        ]
        if mutations:
            where = [["_uuid", "==", reference]]
            statement = {"op": "mutate", "table": table, "where": where, "mutations": mutations}
            self._say(statement, *change.sources)

    def _say(self, statement: Json, *sources: OvsdbOperation) -> None:
        self._statements.append(statement)
        self._sources.append(sources)


def _check_text(value: object) -> None:
    """Refuse text that is not UTF-8: the server closes the connection, or the sender fails."""
    if isinstance(value, str):
        if _NO_TEXT.search(value):
            raise _Refused(f"a database cannot hold NUL or half a character: {value!r}")
    elif isinstance(value, Mapping):
        for pair in value.items():
            _check_text(pair)
    elif isinstance(value, tuple):
        for member in value:
            _check_text(member)


def _row(**columns: Any) -> Json:
    return {name: _encode(value) for name, value in columns.items() if value is not None}


def _encode(value: Value | Mapping[str, str] | list[Any]) -> Any:
    if value is None:
        return ["set", []]
    if isinstance(value, tuple):
        return ["set", list(value)]
    if isinstance(value, Mapping):
        return ["map", [[key, value[key]] for key in value]]
    return value


def _duplicate(reason: str) -> str | None:
    """Parse the name that two rows would share from the database's error."""
    found = _DUPLICATE.search(reason)
    if found is None:
        return None
    value = found["value"]
    return str(json.loads(value)) if value.startswith('"') else value


def _name_of(operation: OvsdbOperation) -> str:
    return operation.record if isinstance(operation, SetColumns) else operation.name
