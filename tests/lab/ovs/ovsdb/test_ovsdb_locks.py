"""Locks of a real switch's database."""

import os
import queue
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.errors import BackendLocked
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import AddPort, RemovePort
from netfw.ovs.ovsdb.values import Connected, Disconnected, LockChanged, SwitchEvent
from netfw.testing.lab.openvswitch import PrivateOvs

TAP = AddPort(bridge="br-int", name="tap1", type="internal")


@pytest.fixture
def connect(ovs: PrivateOvs) -> Iterator[Callable[[], Ovsdb]]:
    """Yield a function that makes connections, each equivalent to one of another process."""
    ovs.add_bridge("br-int")
    made: list[Ovsdb] = []

    def make() -> Ovsdb:
        made.append(Ovsdb(ovs.remote, timeout=5))
        return made[-1]

    yield make
    for ovsdb in made:
        ovsdb.close()


class SwitchEventRecorder:
    """Recorder of the events of a connection, without those of rows."""

    def __init__(self, ovsdb: Ovsdb) -> None:
        self._events: queue.Queue[SwitchEvent] = queue.Queue()
        ovsdb.watch(self._events.put)

    def until(self, wanted: SwitchEvent) -> None:
        while self._events.get(timeout=60) != wanted:
            pass


def test_one_has_a_lock_and_the_next_gets_it_when_the_first_is_gone(connect):
    first, second = connect(), connect()
    assert first.hold("netfw_a", first)
    assert first.hold("netfw_a", first)
    assert not second.hold("netfw_a", second)
    assert second.hold("netfw_b", second)
    recorder = SwitchEventRecorder(second)
    first.close()
    recorder.until(LockChanged("netfw_a"))
    assert second.hold("netfw_a", second)


def test_released_lock_can_be_held_again_after_the_other_client(connect):
    first, second = connect(), connect()
    assert first.hold("netfw_a", first)
    assert not second.hold("netfw_a", second)
    recorder = SwitchEventRecorder(second)
    first.release("netfw_a", first)
    recorder.until(LockChanged("netfw_a"))
    assert second.hold("netfw_a", second)
    assert not first.hold("netfw_a", first)
    recorder = SwitchEventRecorder(first)
    second.release("netfw_a", second)
    recorder.until(LockChanged("netfw_a"))
    assert first.hold("netfw_a", first)


def test_a_lock_that_was_given_back_is_free_at_once(connect):
    # The next client can take it before the notification of its release arrives.
    holder, waiter = connect(), connect()
    assert holder.hold("netfw_a", holder)
    for _ in range(50):
        assert not waiter.hold("netfw_a", waiter)
        holder.release("netfw_a", holder)
        assert waiter.hold("netfw_a", waiter)
        holder, waiter = waiter, holder


def test_two_on_one_connection_do_not_have_the_same_lock(connect):
    ovsdb, one, two = connect(), object(), object()
    assert ovsdb.hold("netfw_a", one)
    assert not ovsdb.hold("netfw_a", two)
    ovsdb.release("netfw_a", two)
    assert not ovsdb.hold("netfw_a", two)
    recorder = SwitchEventRecorder(ovsdb)
    ovsdb.release("netfw_a", one)
    recorder.until(LockChanged("netfw_a"))
    assert ovsdb.hold("netfw_a", two)


def test_the_database_itself_refuses_what_is_written_without_the_lock(connect):
    first, second = connect(), connect()
    assert first.hold("netfw_a", first)
    assert first.hold("netfw_b", first)
    assert not second.hold("netfw_b", second)
    with pytest.raises(BackendLocked, match="netfw_b"):
        second.run([TAP], locks=["netfw_b"])
    assert second.port("tap1") is None
    first.run([TAP], locks=["netfw_a", "netfw_b"])
    assert first.port("tap1") is not None


def test_the_lock_is_checked_for_operations_that_change_nothing(connect):
    first, second = connect(), connect()
    assert first.hold("netfw_a", first)
    with pytest.raises(BackendLocked, match="netfw_a"):
        second.run([RemovePort(name="absent")], locks=["netfw_a"])


def test_an_operation_that_changes_nothing_is_done_by_the_holder_of_the_lock(connect):
    ovsdb = connect()
    assert ovsdb.hold("netfw_a", ovsdb)
    ovsdb.run([RemovePort(name="absent")], locks=["netfw_a"])


def test_a_lock_that_arrives_after_its_release_is_not_held(connect, ovs):
    """The database grants the lock to the next client before it reads that this one released it."""
    first, second, third = connect(), connect(), connect()
    assert first.hold("netfw_a", first)
    assert not second.hold("netfw_a", second)
    third.sync()
    server = int((ovs.directory / "ovsdb-server.pid").read_text())
    os.kill(server, signal.SIGSTOP)
    try:
        first.release("netfw_a", first)
        second.release("netfw_a", second)
    finally:
        os.kill(server, signal.SIGCONT)
    second.sync()
    assert third.hold("netfw_a", third)
    assert not second.hold("netfw_a", second)


def test_requests_for_locks_are_not_counted_over_lost_connections(connect, ovs):
    ovsdb = connect()
    assert ovsdb.hold("netfw_a", ovsdb)
    ovs.stop_switch()  # it would look for the database as well
    ovs.stop_database()
    path = Path(ovs.remote.removeprefix("unix:"))
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as stand_in:
        stand_in.bind(str(path))
        stand_in.listen()
        stand_in.settimeout(60)
        for _ in range(5):
            connection, _ = stand_in.accept()
            connection.recv(1)
            connection.close()
    assert len(ovsdb._api.idl.session._lock_requests) <= 1


def test_a_lock_is_had_again_after_the_database_was_restarted(connect, ovs):
    ovsdb = connect()
    assert ovsdb.hold("netfw_a", ovsdb)
    recorder = SwitchEventRecorder(ovsdb)
    ovs.kill_database()
    recorder.until(Disconnected(ovs.remote))
    ovs.start_database()
    recorder.until(Connected(ovs.remote))
    assert ovsdb.hold("netfw_a", ovsdb)
    other = connect()
    assert not other.hold("netfw_a", other)


def test_a_lock_is_held_over_a_conversion_of_the_schema(connect, ovs, tmp_path):
    """Clients stay connected, and the database cancels what they monitor."""
    ovsdb, other = connect(), connect()
    assert ovsdb.hold("netfw_a", ovsdb)
    assert not other.hold("netfw_a", other)
    recorder = SwitchEventRecorder(ovsdb)
    schema = tmp_path / "schema"
    client = ["ovsdb-client", "--timeout=10"]
    request = [*client, "get-schema", ovs.remote, "Open_vSwitch"]
    schema.write_bytes(subprocess.run(request, check=True, capture_output=True).stdout)
    subprocess.run([*client, "convert", ovs.remote, str(schema)], check=True)
    recorder.until(Disconnected(ovs.remote))
    recorder.until(Connected(ovs.remote))
    assert ovsdb.hold("netfw_a", ovsdb)
    ovsdb.run([TAP], wait=False, locks=["netfw_a"])
    assert not other.hold("netfw_a", other)


def test_a_lock_that_was_stolen_is_had_again_when_the_thief_has_ended(connect, ovs):
    ovsdb = connect()
    assert ovsdb.hold("netfw_a", ovsdb)
    recorder = SwitchEventRecorder(ovsdb)
    thief = subprocess.Popen(["ovsdb-client", "steal", ovs.remote, "netfw_a"])
    recorder.until(LockChanged("netfw_a"))
    assert not ovsdb.hold("netfw_a", ovsdb)
    thief.kill()
    thief.wait(60)
    recorder.until(LockChanged("netfw_a"))
    assert ovsdb.hold("netfw_a", ovsdb)
