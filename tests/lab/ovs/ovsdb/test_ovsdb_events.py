"""What a real switch's database announces, also over its own restart."""

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from netfw.errors import BackendBroken
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import AddBridge, AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import Connected, DatabaseChanged, Disconnected, OvsdbPort, SwitchEvent
from netfw.testing.lab.openvswitch import PrivateOvs


class Events:
    """A sink that keeps what it is told, and waits for what it was not told yet."""

    def __init__(self) -> None:
        self._queue: queue.Queue[SwitchEvent] = queue.Queue()
        self.seen: list[SwitchEvent] = []

    def __call__(self, event: SwitchEvent) -> None:
        self._queue.put(event)

    def until(self, wanted: Callable[[SwitchEvent], bool]) -> SwitchEvent:
        while True:
            event = self._queue.get(timeout=60)
            self.seen.append(event)
            if wanted(event):
                return event

    def pending(self) -> list[SwitchEvent]:
        """Return the events that no call of `until` has taken."""
        return [self._queue.get() for _ in range(self._queue.qsize())]


def changed_port(name: str, test=lambda port: True) -> Callable[[SwitchEvent], bool]:
    return lambda e: isinstance(e, DatabaseChanged) and name in e.ports and test(e.ports[name])


@pytest.fixture
def ovsdb(ovs: PrivateOvs) -> Iterator[Ovsdb]:
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote) as ovsdb:
        yield ovsdb


def internal(name: str, **more) -> AddPort:
    return AddPort(bridge="br-int", name=name, type="internal", **more)


def test_watcher_receives_the_current_state_and_foreign_changes(ovsdb, ovs):
    ovsdb.snapshot()
    events = Events()
    ovsdb.watch(events)
    first = events.until(lambda e: isinstance(e, DatabaseChanged))
    assert set(first.bridges) == {"br-int"}
    ovs.vsctl("add-port", "br-int", "tap1", "--", "set", "Interface", "tap1", "type=internal",
              "external_ids:iface-id=a", "external_ids:attached-mac=fa:16:3e:00:00:01")  # fmt: skip
    events.until(changed_port("tap1", lambda port: (port.interface.ofport or 0) > 0))
    ovs.vsctl("set", "Port", "tap1", "tag=7")
    events.until(changed_port("tap1", lambda port: port.tag == 7))
    ovs.vsctl("set", "Interface", "tap1", "external_ids:iface-status=active")
    wanted = {"iface-id": "a", "iface-status": "active", "attached-mac": "fa:16:3e:00:00:01"}
    events.until(changed_port("tap1", lambda port: port.interface.external_ids == wanted))
    ovs.vsctl("del-port", "tap1")
    events.until(lambda e: isinstance(e, DatabaseChanged) and "tap1" in e.ports_gone)


def change_while_away(ovs: PrivateOvs, goes: UUID) -> None:
    """Remove, change and add ports in the file of a database that nobody serves."""
    bridge = {"table": "Bridge", "where": [["name", "==", "br-int"]]}
    transaction = [
        "Open_vSwitch",
        {"op": "mutate", **bridge, "mutations": [["ports", "delete", ["uuid", str(goes)]]]},
        {"op": "update", "table": "Port", "where": [["name", "==", "changes"]], "row": {"tag": 4}},
        {"op": "insert", "table": "Interface", "uuid-name": "i", "row": {"name": "comes"}},
        {
            "op": "insert",
            "table": "Port",
            "uuid-name": "p",
            "row": {"name": "comes", "interfaces": ["named-uuid", "i"]},
        },
        {"op": "mutate", **bridge, "mutations": [["ports", "insert", ["named-uuid", "p"]]]},
    ]
    ovs.run("ovsdb-tool", "transact", f"{ovs.directory}/conf.db", json.dumps(transaction))


def test_nothing_is_lost_over_a_restart_of_the_database(ovsdb, ovs):
    ovsdb.run([internal(name, tag=3) for name in ("stays", "goes", "changes")])
    goes = ovsdb.port("goes").uuid
    events = Events()
    ovsdb.watch(events)
    ovs.stop_database()
    events.until(lambda e: isinstance(e, Disconnected))
    change_while_away(ovs, goes)
    ovs.start_database()
    events.until(lambda e: isinstance(e, Connected))
    change = events.until(lambda e: isinstance(e, DatabaseChanged))
    assert change.ports_gone == {"goes"}
    assert change.ports["changes"].tag == 4
    assert "comes" in change.ports
    assert "goes" not in ovsdb.snapshot().ports


def test_a_bridge_that_went_meanwhile_is_announced_with_all_its_ports(ovsdb, ovs):
    ovs.vsctl("--no-wait", "add-br", "br-lost", "--", "add-port", "br-lost", "lost1")
    ovsdb.sync()
    lost = ovsdb.bridge("br-lost").uuid
    events = Events()
    ovsdb.watch(events)
    ovs.stop_database()
    events.until(lambda e: isinstance(e, Disconnected))
    remove = ["bridges", "delete", ["uuid", str(lost)]]
    mutate = {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [remove]}
    transaction = json.dumps(["Open_vSwitch", mutate])
    ovs.run("ovsdb-tool", "transact", f"{ovs.directory}/conf.db", transaction)
    ovs.start_database()
    events.until(lambda e: isinstance(e, Connected))
    change = events.until(lambda e: isinstance(e, DatabaseChanged))
    assert change.bridges_gone == {"br-lost"}
    assert change.ports_gone == {"br-lost", "lost1"}


def test_after_a_restart_of_the_database_reads_are_current_and_changes_work(ovsdb, ovs):
    ovsdb.run([internal("tap1", tag=3)])
    ovs.stop_database()
    ovs.start_database()
    ovsdb.run(
        [SetColumns(table=OvsdbTable.PORT, record="tap1", values={"tag": 9}), internal("tap2")]
    )
    assert ovsdb.port("tap1").tag == 9
    assert ovs.vsctl("get", "Port", "tap1", "tag") == "9\n"


def test_a_change_waits_for_a_database_that_is_away_for_a_moment(ovsdb, ovs):
    ovsdb.snapshot()
    ovs.stop_database()
    back = threading.Timer(0.3, ovs.start_database)
    back.start()
    ovsdb.run([internal("tap1")])
    back.join()
    assert ovsdb.port("tap1").interface.ofport > 0


def test_a_sink_may_read_and_may_not_write(ovsdb):
    answers: queue.Queue[object] = queue.Queue()

    def sink(event: SwitchEvent) -> None:
        if isinstance(event, DatabaseChanged) and "tap1" in event.ports:
            answers.put(ovsdb.port("tap1"))
            try:
                ovsdb.run([RemovePort(name="tap1")])
            except RuntimeError as error:
                answers.put(str(error))

    ovsdb.snapshot()
    ovsdb.watch(sink)
    ovsdb.run([internal("tap1")])
    port = answers.get(timeout=60)
    assert isinstance(port, OvsdbPort)
    assert port.name == "tap1"
    assert "a sink only enqueues" in answers.get(timeout=60)


@pytest.mark.spec("DRV-20")
def test_two_switches_in_one_process_do_not_mix(ovs, tmp_path):
    other = PrivateOvs(Path("/run/netfw-other") / tmp_path.name).start()
    try:
        ovs.add_bridge("br-one")
        other.add_bridge("br-two")
        with Ovsdb(ovs.remote) as one, Ovsdb(other.remote) as two:
            assert set(one.snapshot().bridges) == {"br-one"}
            assert set(two.snapshot().bridges) == {"br-two"}
            two.run([AddPort(bridge="br-two", name="tap2", type="internal")])
            assert one.port("tap2") is None
    finally:
        other.stop()


def test_using_the_database_loads_no_eventlet(ovsdb):
    before = "eventlet" in sys.modules
    ovsdb.snapshot()
    assert ("eventlet" in sys.modules) == before


def test_a_mirror_of_text_in_every_script_is_right(ovsdb, ovs):
    # The multi-byte text is larger than one read, so that characters are cut in two.
    text = "€ü😀" * 2000
    ovsdb.run([internal(f"tap{n}", external_ids={"text": text}) for n in range(20)])
    with Ovsdb(ovs.remote) as fresh:
        ports = fresh.snapshot().ports
        assert {ports[f"tap{n}"].interface.external_ids["text"] for n in range(20)} == {text}


def test_after_a_sync_the_mirror_has_what_others_did_before(ovsdb, ovs):
    ovsdb.run([internal("tap1")])
    for number in range(1, 30):
        ovs.vsctl("--no-wait", "set", "Port", "tap1", f"tag={number}")
        ovsdb.sync()
        assert ovsdb.port("tap1").tag == number


def test_stopped_watcher_receives_no_more_events(ovsdb):
    ovsdb.snapshot()
    events = Events()
    stop = ovsdb.watch(events)
    events.until(lambda e: isinstance(e, DatabaseChanged))
    stop()
    stop()
    ovsdb.run([internal("tap1")])
    assert events._queue.empty()


def test_a_watch_that_ends_itself_costs_the_next_one_no_event(ovsdb, ovs):
    ovsdb.snapshot()
    ends = []
    ends.append(ovsdb.watch(lambda event: ends.pop()() if ends else None))
    events = Events()
    ovsdb.watch(events)
    events.until(lambda e: isinstance(e, DatabaseChanged))
    ovs.vsctl("--no-wait", "set", "Bridge", "br-int", "external_ids:x=y")
    ovsdb.sync()
    assert not ends, "the first sink has ended its watch"
    heard = [event for event in events.pending() if isinstance(event, DatabaseChanged)]
    assert [list(event.bridges) for event in heard] == [["br-int"]]


def test_a_watch_that_ends_another_one_silences_it_at_once(ovsdb, ovs):
    ovsdb.snapshot()
    ends = []
    ovsdb.watch(lambda event: [end() for end in ends])
    events = Events()
    ends.append(ovsdb.watch(events))
    events.pending()
    ovs.vsctl("--no-wait", "set", "Bridge", "br-int", "external_ids:x=y")
    ovsdb.sync()
    assert events.pending() == []


def test_raising_sink_is_logged_and_other_sinks_receive_events(ovsdb, caplog):
    ovsdb.snapshot()

    def faulty(event: SwitchEvent) -> None:
        raise KeyError("a bug of somebody's")

    ovsdb.watch(faulty)
    events = Events()
    ovsdb.watch(events)
    ovsdb.run([internal("tap1")])
    events.until(changed_port("tap1", lambda port: (port.interface.ofport or 0) > 0))
    assert any("a bug of somebody's" in str(record.exc_info) for record in caplog.records)


def test_what_was_read_once_does_not_change_under_the_reader(ovsdb):
    before = ovsdb.snapshot()
    ovsdb.run([internal("tap1"), AddBridge(name="br-more", datapath_type="netdev")])
    assert before.ports.keys() == before.bridges.keys() == {"br-int"}
    assert {"tap1", "br-more"} <= ovsdb.snapshot().ports.keys()


def test_uninitialised_database_is_reported_with_the_remedy(ovsdb, ovs):
    ovsdb.snapshot()
    ovs.stop_switch()
    everything = json.dumps(
        ["Open_vSwitch", {"op": "delete", "table": "Open_vSwitch", "where": []}]
    )
    ovs.run("ovsdb-client", "transact", ovs.remote, everything)
    with Ovsdb(ovs.remote, timeout=1) as fresh:
        for each in (fresh, ovsdb):
            with pytest.raises(BackendBroken, match="ovs-vsctl init"):
                each.run([internal("tap1")])
            with pytest.raises(BackendBroken, match="ovs-vsctl init"):
                each.snapshot()
