"""The mirror, fed with stand-ins for the rows of a replica."""

import sys
from types import SimpleNamespace
from uuid import UUID

from netfw.ovs.ovsdb.mirror import COLUMNS, DatabaseMirror, Dirty

SCALARS = {"name": "", "type": "", "cur_cfg": 0, "next_cfg": 0, "datapath_type": ""}
MAPS = {"options", "other_config", "external_ids"}
SETS = {"trunks", "protocols", "iface_types", "datapath_types", "bridges", "ports", "interfaces"}


class Atom:
    """A value as the replica wraps it."""

    def __init__(self, value):
        self.value = value.uuid if isinstance(value, Row) else value


class Datum:
    """A column's content as the replica keeps it: atoms, with atoms in a map."""

    def __init__(self, name, content):
        self.type = SimpleNamespace(
            is_map=lambda: name in MAPS, n_max=sys.maxsize if name in SETS else 1
        )
        pairs = content.items() if name in MAPS else ((member, None) for member in content)
        self.values = {Atom(key): Atom(value) for key, value in pairs}


class Row:
    """A row of the replica, whose columns can be set like attributes."""

    def __init__(self, table, number, **columns):
        self.uuid = UUID(int=number)
        self._data = {}
        for name in COLUMNS[table]:
            usual = {} if name in MAPS else [SCALARS[name]] if name in SCALARS else []
            setattr(self, name, columns.get(name, usual))

    def __setattr__(self, name, content):
        super().__setattr__(name, content)
        if name not in ("uuid", "_data"):
            listed = content if isinstance(content, list | dict) else [content]
            self._data[name] = Datum(name, listed)


row = Row


class Switch:
    """A database of rows, and which of them changed since the last step."""

    def __init__(self):
        self.tables = {table: {} for table in COLUMNS}
        self.dirty = Dirty(everything=False)
        self.put("Open_vSwitch", row("Open_vSwitch", 1))

    def put(self, table, new):
        self.tables[table][new.uuid] = new
        self.dirty.rows[table].add(new.uuid)
        return new

    def drop(self, table, old):
        del self.tables[table][old.uuid]
        self.dirty.rows[table].add(old.uuid)

    def add_port(self, bridge, number, name, **interface):
        member = self.put("Interface", row("Interface", number + 1, name=name, **interface))
        port = self.put("Port", row("Port", number, name=name, interfaces=[member]))
        bridge.ports = [*bridge.ports, port]
        self.put("Bridge", bridge)
        return port

    def remove_port(self, bridge, port):
        bridge.ports = [other for other in bridge.ports if other is not port]
        self.put("Bridge", bridge)
        self.drop("Port", port)
        self.drop("Interface", port.interfaces[0])

    def step(self, mirror):
        dirty, self.dirty = self.dirty, Dirty(everything=False)
        return mirror.step(self.tables, dirty)

    def reconnect(self):
        self.dirty = Dirty(everything=True)


def switch_with_a_port():
    switch, mirror = Switch(), DatabaseMirror()
    bridge = switch.put("Bridge", row("Bridge", 10, name="br-int"))
    port = switch.add_port(bridge, 100, "tap1", external_ids={"iface-id": "a"}, ofport=[5])
    switch.step(mirror)
    return switch, mirror, bridge, port


def test_what_appears_is_announced_once():
    switch, mirror, bridge, _ = switch_with_a_port()
    assert mirror.ports["tap1"].interface.ofport == 5
    switch.put("Bridge", bridge)
    assert not switch.step(mirror)


def test_a_new_number_of_an_interface_is_a_change_of_its_port():
    switch, mirror, _, port = switch_with_a_port()
    port.interfaces[0].ofport = [6]
    switch.put("Interface", port.interfaces[0])
    changed = switch.step(mirror)
    assert changed.ports["tap1"].interface.ofport == 6
    assert not changed.bridges


def test_what_goes_is_announced_and_forgotten():
    switch, mirror, bridge, port = switch_with_a_port()
    switch.remove_port(bridge, port)
    assert switch.step(mirror).ports_gone == {"tap1"}
    assert mirror.ports == {}
    assert mirror.claiming("iface-id", "a") == ()


def test_a_port_that_is_replaced_is_a_change_and_not_gone():
    switch, mirror, bridge, port = switch_with_a_port()
    switch.remove_port(bridge, port)
    switch.add_port(bridge, 200, "tap1", external_ids={"iface-id": "b"})
    changed = switch.step(mirror)
    assert changed.ports_gone == frozenset()
    assert changed.ports["tap1"].uuid == UUID(int=200)
    assert [found.name for found in mirror.claiming("iface-id", "b")] == ["tap1"]


def test_a_reconnect_announces_what_went_meanwhile_and_nothing_that_stayed():
    switch, mirror, bridge, port = switch_with_a_port()
    switch.add_port(bridge, 300, "tap3")
    switch.step(mirror)
    switch.remove_port(bridge, port)
    switch.reconnect()
    changed = switch.step(mirror)
    assert (dict(changed.ports), changed.ports_gone) == ({}, {"tap1"})
    assert not changed.bridges


def test_a_reconnect_to_another_database_replaces_everything():
    _switch, mirror, _, _ = switch_with_a_port()
    other = Switch()
    bridge = other.put("Bridge", row("Bridge", 11, name="br-int"))
    other.add_port(bridge, 400, "tap4")
    other.reconnect()
    changed = other.step(mirror)
    assert changed.bridges["br-int"].uuid == UUID(int=11)
    assert changed.bridges_gone == frozenset()
    assert mirror.bridges == changed.bridges
    assert (set(changed.ports), changed.ports_gone) == ({"tap4"}, {"tap1"})


def test_a_bridge_that_goes_takes_its_ports_along():
    switch, mirror, bridge, port = switch_with_a_port()
    switch.drop("Bridge", bridge)
    switch.drop("Port", port)
    switch.drop("Interface", port.interfaces[0])
    changed = switch.step(mirror)
    assert (changed.bridges_gone, changed.ports_gone) == ({"br-int"}, {"tap1"})


def test_a_port_moves_from_bridge_to_bridge():
    switch, mirror, bridge, port = switch_with_a_port()
    other = switch.put("Bridge", row("Bridge", 12, name="br-ex"))
    bridge.ports, other.ports = [], [port]
    switch.put("Bridge", bridge)
    changed = switch.step(mirror)
    assert changed.ports["tap1"].bridge == "br-ex"


def test_two_ports_may_claim_to_be_the_same():
    switch, mirror, bridge, port = switch_with_a_port()
    switch.add_port(bridge, 200, "tap2", external_ids={"iface-id": "a"})
    switch.step(mirror)
    assert [found.name for found in mirror.claiming("iface-id", "a")] == ["tap1", "tap2"]
    switch.remove_port(bridge, port)
    switch.step(mirror)
    assert [found.name for found in mirror.claiming("iface-id", "a")] == ["tap2"]
