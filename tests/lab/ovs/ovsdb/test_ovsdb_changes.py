"""Changing the database of a real switch."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.encode import BARRIER, Rendered
from netfw.ovs.ovsdb.operations import (
    AddBridge,
    AddPort,
    OvsdbTable,
    RemoveBridge,
    RemovePort,
    SetColumns,
    tunnel_port,
)
from netfw.testing.lab.openvswitch import PrivateOvs


@pytest.fixture
def ovsdb(ovs: PrivateOvs) -> Iterator[Ovsdb]:
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=10) as ovsdb:
        yield ovsdb


def internal(name: str, **more) -> AddPort:
    return AddPort(bridge="br-int", name=name, type="internal", **more)


def test_a_bridge_is_made_changed_and_removed(ovsdb, ovs):
    ovsdb.run(
        [
            AddBridge(
                name="br-tun",
                datapath_type="netdev",
                fail_mode="secure",
                protocols=("OpenFlow13", "OpenFlow14"),
                other_config={"mac-table-size": "5000"},
                external_ids={"owner": "netfw"},
            )
        ]
    )
    bridge = ovsdb.bridge("br-tun")
    assert bridge.datapath_id is not None, "the switch has acted on it"
    assert bridge.protocols == ("OpenFlow13", "OpenFlow14")
    assert ovs.vsctl("get-fail-mode", "br-tun") == "secure\n"
    change = SetColumns(
        table=OvsdbTable.BRIDGE,
        record="br-tun",
        values={"fail_mode": None, "mcast_snooping_enable": True},
        keys={"external_ids": {"owner": None, "more": "text with ü"}},
    )
    ovsdb.run([change])
    bridge = ovsdb.bridge("br-tun")
    assert (bridge.fail_mode, bridge.mcast_snooping_enable) == (None, True)
    assert bridge.external_ids == {"more": "text with ü"}
    ovsdb.run([RemoveBridge("br-tun"), RemoveBridge("br-tun")])
    assert ovs.vsctl("list-br") == "br-int\n"


def test_ports_of_every_kind_are_on_the_switch_when_run_returns(ovsdb, ovs):
    ovsdb.run(
        [
            AddBridge(name="br-tun", datapath_type="netdev"),
            AddPort(bridge="br-int", name="patch-tun", type="patch", options={"peer": "patch-int"}),
            AddPort(bridge="br-tun", name="patch-int", type="patch", options={"peer": "patch-tun"}),
            tunnel_port("br-tun", "vxlan-1", "vxlan", "192.0.2.1"),
            internal("tap1", tag=4095, mtu_request=1400, other_config={"net_uuid": "n"}),
        ]
    )
    ports = ovsdb.snapshot().ports
    ofports = {name: port.interface.ofport for name, port in ports.items()}
    assert all(number is not None and number > 0 for number in ofports.values()), ofports
    assert ports["tap1"].tag == 4095
    assert ports["tap1"].interface.mtu == 1400
    assert ports["vxlan-1"].interface.options["remote_ip"] == "192.0.2.1"
    assert ovs.vsctl("port-to-br", "patch-int") == "br-tun\n"


def test_a_device_that_the_switch_cannot_open_says_why(ovsdb):
    ovsdb.run([AddPort(bridge="br-int", name="nosuchdevice")])
    interface = ovsdb.port("nosuchdevice").interface
    assert interface.ofport == -1
    assert "No such device" in interface.error


def test_columns_of_a_port_change_and_the_rest_stays(ovsdb):
    ovsdb.run([internal("tap1", tag=4095, external_ids={"iface-id": "a", "other": "b"})])
    ovsdb.run(
        [
            SetColumns(
                table=OvsdbTable.PORT, record="tap1",
                values={"tag": 5}, keys={"other_config": {"tag": "5"}},
                expect={"iface-id": "a"},
            ),
            SetColumns(
                table=OvsdbTable.INTERFACE, record="tap1",
                keys={"external_ids": {"iface-status": "active"}},
            ),
        ]
    )  # fmt: skip
    port = ovsdb.port("tap1")
    assert (port.tag, port.other_config) == (5, {"tag": "5"})
    assert port.interface.external_ids == {"iface-id": "a", "other": "b", "iface-status": "active"}


def test_a_refused_transaction_does_nothing_and_names_the_culprit(ovsdb, ovs):
    good, bad = internal("good"), internal("bad", tag=5000)
    with pytest.raises(OperationRefused, match="5000 is not in the valid range") as caught:
        ovsdb.run([good, bad])
    assert list(caught.value.reasons) == [bad]
    assert ovs.vsctl("list-ports", "br-int") == ""


def test_an_unknown_column_is_refused_and_never_ignored(ovsdb):
    ovsdb.run([internal("tap1")])
    with pytest.raises(OperationRefused, match="No column nonsense"):
        ovsdb.run([SetColumns(table=OvsdbTable.PORT, record="tap1", values={"nonsense": 1})])


class OvertakenOvsdb(Ovsdb):
    """Somebody else changes the database after a transaction was made and before it is sent."""

    overtake: Callable[[], object] | None = None

    def _render(self, operations):
        rendered = super()._render(operations)
        overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake()
        return rendered


@pytest.fixture
def overtaken(ovs: PrivateOvs, ovsdb: Ovsdb) -> Iterator[OvertakenOvsdb]:
    ovsdb.run([internal("tap1", tag=4095, external_ids={"owner": "netfw"})])
    with OvertakenOvsdb(ovs.remote) as overtaken:
        yield overtaken


def test_a_device_that_another_makes_at_that_moment_is_not_taken_over(overtaken, ovs):
    foreign, free = internal("tap2", external_ids={"owner": "netfw"}), internal("tap3")
    overtaken.overtake = lambda: ovs.vsctl("--no-wait", "add-port", "br-int", "tap2")
    with pytest.raises(OperationRefused) as refusal:
        overtaken.run([foreign, free])
    assert list(refusal.value.reasons) == [foreign]
    assert ovs.vsctl("get", "Interface", "tap2", "external_ids") == "{}\n"
    assert "tap3" not in ovs.vsctl("list-ports", "br-int").split()


@pytest.mark.parametrize(
    "operation",
    [
        RemovePort(name="tap1", expect={"owner": "netfw"}),
        SetColumns(
            table=OvsdbTable.PORT, record="tap1", values={"tag": 1}, expect={"owner": "netfw"}
        ),
    ],
)
def test_a_port_that_changes_hands_at_that_moment_is_left_alone(overtaken, ovs, operation):
    overtaken.overtake = lambda: ovs.vsctl(
        "--no-wait", "set", "Interface", "tap1", "external_ids:owner=somebody"
    )
    with pytest.raises(OperationRefused, match="changed hands"):
        overtaken.run([operation])
    assert ovs.vsctl("get", "Port", "tap1", "tag") == "4095\n"


def test_a_row_that_is_replaced_at_that_moment_is_not_missed(overtaken, ovs):
    # Either the new row of that name is changed, or the operation is refused.
    overtaken.overtake = lambda: ovs.vsctl(
        "--no-wait", "del-port", "tap1", "--", "add-port", "br-int", "tap1"
    )
    overtaken.run([SetColumns(table=OvsdbTable.PORT, record="tap1", values={"tag": 1})], wait=False)
    assert ovs.vsctl("get", "Port", "tap1", "tag") == "1\n"


def test_a_bridge_that_goes_at_that_moment_leaves_no_port_in_the_air(overtaken, ovs):
    overtaken.overtake = lambda: ovs.vsctl("--no-wait", "del-br", "br-int")
    with pytest.raises(OperationRefused, match="there is no bridge br-int"):
        overtaken.run([internal("tap2")])


def test_a_switch_that_does_not_act_is_unavailable_and_gets_it_later(ovs, ovsdb):
    impatient = Ovsdb(ovs.remote, timeout=1)
    ovs.stop_switch()
    with impatient, pytest.raises(BackendUnavailable, match="is ovs-vswitchd running"):
        impatient.run([internal("tap1")])
    ovs.start_switch()
    ovsdb.sync()
    assert ovsdb.port("tap1").interface.ofport > 0


def test_without_a_database_it_is_unavailable_and_says_what_to_look_at(tmp_path):
    with (
        Ovsdb(f"unix:{tmp_path}/nobody", timeout=1) as ovsdb,
        pytest.raises(BackendUnavailable, match="is ovsdb-server running"),
    ):
        ovsdb.snapshot()


def test_shorter_timeout_holds_for_calls_behind_those_that_were_given_up(ovs):
    ovs.add_bridge("br-int")
    server = int((ovs.directory / "ovsdb-server.pid").read_text())
    with Ovsdb(ovs.remote, timeout=60) as ovsdb:
        ovsdb.snapshot()
        os.kill(server, signal.SIGSTOP)
        try:
            ovsdb.timeout = 0.5
            began = time.monotonic()
            for number in range(4):
                with pytest.raises(BackendUnavailable):
                    ovsdb.run([internal(f"tap{number}")], wait=False)
            assert time.monotonic() - began < 30
        finally:
            os.kill(server, signal.SIGCONT)


def test_a_database_that_hangs_makes_calls_time_out_and_nothing_is_done_later(ovs):
    ovs.add_bridge("br-int")
    server = int((ovs.directory / "ovsdb-server.pid").read_text())
    threads = set(threading.enumerate())
    with Ovsdb(ovs.remote, timeout=1) as ovsdb:
        ovsdb.snapshot()
        os.kill(server, signal.SIGSTOP)
        try:
            for name in ("first", "second", "third"):
                with pytest.raises(BackendUnavailable):
                    ovsdb.run([internal(name)], wait=False)
        finally:
            os.kill(server, signal.SIGCONT)
        ovsdb.timeout = 60
        ovsdb.run([internal("last")])
        # The first was on its way already; of those that still waited here nothing is done.
        assert ovsdb.snapshot().ports.keys() <= {"br-int", "first", "last"}
    assert set(threading.enumerate()) == threads


def test_closing_ends_the_thread_even_while_a_database_hangs(ovs):
    server = int((ovs.directory / "ovsdb-server.pid").read_text())
    threads = set(threading.enumerate())
    ovsdb = Ovsdb(ovs.remote, timeout=1)
    ovsdb.snapshot()
    os.kill(server, signal.SIGSTOP)
    try:
        with pytest.raises(BackendUnavailable):
            ovsdb.run([AddBridge(name="br0")], wait=False)
        ovsdb.close()
        ovsdb.close()
        deadline = time.monotonic() + 60
        while set(threading.enumerate()) != threads and time.monotonic() < deadline:
            time.sleep(0.01)
        assert set(threading.enumerate()) == threads
    finally:
        os.kill(server, signal.SIGCONT)
    with pytest.raises(BackendUnavailable, match="closed"):
        ovsdb.snapshot()


def test_closing_leaves_no_descriptor_to_the_garbage_collector(ovs):
    with Ovsdb(ovs.remote, timeout=30) as ovsdb:
        ovsdb.snapshot()
        api = ovsdb._api
    queue = api.ovsdb_connection.txns._wait_queue
    assert queue.alertin.closed
    assert queue.alertout.closed
    with pytest.raises(BackendUnavailable, match="closed"):
        api.execute(list, count=False, timeout=1)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"], ids=["NUL", "lone surrogate"])
def test_text_that_no_database_can_hold_is_refused_at_once_by_name(ovs, text):
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=30) as ovsdb:
        ovsdb.snapshot()
        good = internal("good")
        bad = [
            internal("bad1", external_ids={"key": text}),
            internal("bad2", external_ids={text: "value"}),
            internal(f"bad3{text}"),
            SetColumns(table=OvsdbTable.BRIDGE, record="br-int", values={"fail_mode": text}),
            SetColumns(table=OvsdbTable.BRIDGE, record="br-int", values={"protocols": ("a", text)}),
            SetColumns(
                table=OvsdbTable.BRIDGE,
                record="br-int",
                keys={"external_ids": {"a": None, "b": text}},
            ),
        ]
        started = time.monotonic()
        with pytest.raises(OperationRefused, match="cannot hold") as caught:
            ovsdb.run([good, *bad])
        assert time.monotonic() - started < 25  # less than the time-out
        assert list(caught.value.reasons) == bad
        ovsdb.run([good])


def test_nothing_is_read_from_a_database_that_has_ended_before_the_replica_knows(ovsdb, ovs):
    entered, release = threading.Event(), threading.Event()

    def render() -> Rendered:
        entered.set()
        assert release.wait(60)
        return BARRIER

    ovsdb.sync()

    def write() -> None:
        with suppress(BackendUnavailable):
            ovsdb._transact(render, count=False)

    writer = threading.Thread(target=write)
    writer.start()  # the replica's thread renders, and reads nothing meanwhile
    try:
        assert entered.wait(60)
        ovs.stop_switch()
        ovs.stop_database()
        ovsdb.timeout = 0.1
        with pytest.raises(BackendUnavailable):
            ovsdb.port("tap1")
    finally:
        release.set()
        writer.join()
