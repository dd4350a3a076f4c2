"""The outbox: in order, the newest, once and again, and nothing lost."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from attrs import evolve
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.errors import BackendUnavailable, Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.common_fields import Status
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.outbox.worker import DeliveryConfig
from netfw.testing.lab.wait import wait_until
from netfw_drivers.mechanism_drivers.l2population import L2PopulationMechanismDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.outbox.samples import QUICK, OutboxEnvironment, Recorder, RecordingNotifier, line


class Trouble:
    """Raises what it has, as long as it has some."""

    def __init__(self, *errors: BaseException, kind: Kind | None = None) -> None:
        self.errors, self.kind = list(errors), kind

    def __call__(self, change: Any) -> None:
        concerned = self.kind is None or change.ref.kind is self.kind
        if self.errors and concerned:
            raise self.errors.pop(0)


def join_lanes() -> None:
    """Wait for threads that outlive their delivery: they write to the database of the test."""
    for thread in threading.enumerate():
        if thread.name == "outbox":
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.spec("ML2-03")
def test_a_driver_receives_only_the_newest_state_in_order(context: ServerContext) -> None:
    driver = Recorder()
    env = OutboxEnvironment(context, driver)
    network = env.network()
    port = env.port(network)
    env.touch(Kind.NETWORK, network)
    env.touch(Kind.PORT, port)
    env.touch(Kind.PORT, port)
    env.delivery.drain()
    assert driver.lines() == ["network None>2", "port None>3"]
    assert driver.changes[1].network is not None
    assert driver.changes[1].network.id == network
    env.touch(Kind.NETWORK, network)
    env.touch(Kind.PORT, port)
    env.delete(Kind.PORT, port)
    env.delete(Kind.NETWORK, network)
    env.delivery.drain()
    assert driver.lines()[2:] == ["port 3>None", "network 2>None"]
    assert env.waiting() == 0
    short = env.network()
    env.delete(Kind.NETWORK, short)
    env.delivery.drain()
    assert len(driver.changes) == 4, "what came and went unnoticed is not told"


@pytest.mark.spec("ML2-03")
def test_drivers_that_deliver_nothing_cost_nothing(context: ServerContext) -> None:
    env = OutboxEnvironment(context, OvsMechanismDriver(), L2PopulationMechanismDriver())
    assert not env.outbox.needed
    statements: list[str] = []
    event.listen(
        context.database.writing,
        "before_cursor_execute",
        lambda conn, cursor, statement, *rest: statements.append(statement),
    )
    env.network()
    assert not [each for each in statements if "outbox" in each]
    env.delivery.start()
    assert not [each for each in threading.enumerate() if each.name == "outbox"]
    env.delivery.close()


@pytest.mark.spec("ML2-03")
def test_a_rolled_back_change_is_not_delivered(context: ServerContext) -> None:
    driver = Recorder()
    env = OutboxEnvironment(context, driver)

    def refuse(unit: Any, change: Any) -> None:
        raise Conflict("no")

    context.precommit_hooks.append(refuse)
    with pytest.raises(Conflict):
        env.network()
    env.delivery.drain()
    assert driver.changes == []


@pytest.mark.spec("ML2-03")
def test_a_failed_delivery_is_retried_with_its_lane(context: ServerContext) -> None:
    driver = Recorder(does=Trouble(BackendUnavailable("the switch is off")))
    calm = Recorder("calm")
    pace = DeliveryConfig(first_pause=1000.0, longest_pause=1500.0)
    env = OutboxEnvironment(context, driver, calm, pace=pace)
    first = env.network()
    env.port(first)
    env.delivery.drain()
    assert driver.changes == []
    assert len(calm.changes) == 2, "others are not held up"
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert (fault.error, fault.attempts, fault.lane.name) == ("the switch is off", 1, str(first))
    other = env.network()
    driver.does = Trouble(BackendUnavailable("still"), BackendUnavailable("still"))
    (left,) = env.end_pauses()
    assert 600 < left <= 1000
    env.delivery.drain()
    assert driver.changes == [], "each lane has failed once more"
    shorter, longer = env.end_pauses()
    assert 600 < shorter <= 1000 < longer <= 1500
    env.delivery.drain()
    by_network = [
        line(each) for each in driver.changes if each.network and each.network.id == first
    ]
    assert by_network == ["network None>1", "port None>1"], "in order, however often it failed"
    assert other in {each.network.id for each in driver.changes if each.network}
    assert env.waiting() == 0
    assert context.database.transaction(lambda tx: tx.outbox.failures()) == ()


@pytest.mark.spec("ML2-03")
@pytest.mark.parametrize(
    "error", [Conflict("no such VLAN"), ZeroDivisionError("oops"), SystemExit("bye")]
)
def test_a_refused_change_is_kept_and_shown_and_delays_no_other(
    context: ServerContext, error: BaseException
) -> None:
    driver = Recorder(does=Trouble(error, error, kind=Kind.PORT))
    env = OutboxEnvironment(context, driver)
    network = env.network()
    bad = env.port(network)
    env.delivery.drain()
    good = env.port(network)
    env.delivery.drain()
    assert [each.ref.id for each in driver.changes] == [network, good]
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert fault.ref is not None
    assert (fault.ref.id, fault.revision) == (bad, 1)
    assert str(error) in fault.error
    assert env.outbox.needed
    env.touch(Kind.PORT, bad)
    env.delivery.drain()
    assert driver.lines()[2:] == ["port None>2"], "its next change brings all of it"
    assert env.waiting() == 0


@pytest.mark.spec("ML2-03")
def test_a_person_has_it_tried_again_or_forgotten(context: ServerContext) -> None:
    driver = Recorder(does=Trouble(Conflict("no"), Conflict("no"), kind=Kind.NETWORK))
    env = OutboxEnvironment(context, driver)
    env.network()
    env.delivery.drain()
    assert driver.changes == []
    assert context.database.transaction(lambda tx: tx.outbox.retry("mechanism/recorder")) == 1
    env.delivery.drain()
    assert driver.lines() == ["network None>1"]
    env.network()
    assert (
        context.database.transaction(lambda tx: tx.outbox.delete_driver("mechanism/recorder")) == 1
    )
    env.delivery.drain()
    assert len(driver.changes) == 1


@pytest.mark.spec("ML2-03")
def test_what_needs_what_came_later_is_delivered_after_it(context: ServerContext) -> None:
    known: set[Any] = set()

    def needs_the_other(change: Change) -> None:
        if change.ref.kind is Kind.PORT and change.revision == 2 and second not in known:
            raise Conflict("it needs the second port")
        known.add(change.ref.id)

    driver = Recorder(does=needs_the_other)
    env = OutboxEnvironment(context, driver)
    network = env.network()
    first = env.port(network)
    second = env.port(network)
    env.touch(Kind.PORT, first)
    env.delivery.drain()
    assert [each.ref.id for each in driver.changes] == [network, second, first]
    assert env.waiting() == 0


@pytest.mark.spec("ML2-03")
def test_what_was_perhaps_delivered_is_taken_back_though_it_came_and_went(
    context: ServerContext,
) -> None:
    # A process dies after it delivered a change and before it recorded that.
    driver = Recorder()
    env = OutboxEnvironment(context, driver)
    network = env.network()
    dead = env.delivery

    class Killed(BaseException):
        pass

    def die(change: Change) -> None:
        raise Killed

    driver.does = die
    with pytest.raises(Killed):
        dead.drain()
    env.delete(Kind.NETWORK, network)
    other = OutboxEnvironment(ServerContext(database=context.database, ipam=context.ipam), driver)
    driver.does = None
    other.delivery.drain()
    assert driver.changes == [], "the lane is the dead one's until its lease is over"
    with context.database.writing.begin() as connection:
        connection.exec_driver_sql("UPDATE outbox_lanes SET until = 1")
    other.delivery.drain()
    assert driver.lines() == ["network 1>None"]


@pytest.mark.spec("ML2-03")
def test_threads_deliver_lanes_at_once_and_one_lane_by_one_thread(context: ServerContext) -> None:
    guard, running, most = threading.Lock(), dict[Any, int](), [0]

    def slow(change: Change) -> None:
        lane = change.network.id if change.network else None
        with guard:
            running[lane] = running.get(lane, 0) + 1
            assert running[lane] == 1
            most[0] = max(most[0], sum(running.values()))
        time.sleep(0.01)
        with guard:
            running[lane] -= 1

    driver = Recorder(does=slow)
    env = OutboxEnvironment(context, driver)
    others = ServerContext(database=context.database, ipam=context.ipam)
    second = OutboxEnvironment(others, driver)
    env.delivery.start()
    second.delivery.start()
    try:
        networks = [env.network() for _ in range(4)]
        for _ in range(5):
            for network in networks:
                env.port(network)
        deadline = time.monotonic() + 60
        while env.waiting() and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        env.delivery.close()
        second.delivery.close()
    assert env.waiting() == 0
    assert most[0] > 1
    for network in networks:
        mine = [each for each in driver.changes if each.network and each.network.id == network]
        assert mine[0].ref.kind is Kind.NETWORK
        assert len(mine) == 6


@pytest.mark.spec("ML2-03")
def test_a_driver_that_hangs_holds_up_no_other_and_not_the_end(context: ServerContext) -> None:
    released, notifier = threading.Event(), RecordingNotifier()
    driver = Recorder(does=lambda change: released.wait(300))
    env = OutboxEnvironment(context, driver, notifiers=[notifier])
    env.delivery.start()
    try:
        for _ in range(6):
            env.port(env.network())
        deadline = time.monotonic() + 60
        while sum(map(len, notifier.batches)) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert sum(map(len, notifier.batches)) == 6
        wait_until(lambda: env.waiting() == 12, "that what was told is recorded")
        began = time.monotonic()
        env.delivery.close(within=0.2)
        assert time.monotonic() - began < 30
        assert env.waiting() == 12, "what was not told is still there"
    finally:
        released.set()
        join_lanes()


@pytest.mark.spec("ML2-03")
def test_a_driver_that_hangs_delays_neither_others_nor_the_end_of_the_server(
    context: ServerContext, caplog: pytest.LogCaptureFixture
) -> None:
    waiting, notifier = threading.Event(), RecordingNotifier()
    hanging, working = Recorder("hanging", lambda change: waiting.wait(300)), Recorder("working")
    pace = evolve(QUICK, workers=2)
    env = OutboxEnvironment(context, hanging, working, notifiers=[notifier], pace=pace)
    env.delivery.start()
    try:
        networks = [env.network() for _ in range(4)]
        ports = [env.port(network) for network in networks]
        deadline = time.monotonic() + 60
        while len(working.changes) < 8 or sum(map(len, notifier.batches)) < len(ports):
            assert time.monotonic() < deadline, (working.lines(), notifier.batches)
            time.sleep(0.01)
        began = time.monotonic()
        env.delivery.close(0.2)
        assert time.monotonic() - began < 30
        assert "delivery to mechanism/hanging does not end" in caplog.text
        assert not hanging.changes
    finally:
        waiting.set()
        join_lanes()


@pytest.mark.spec("ML2-03")
@pytest.mark.spec("ML2-07")
def test_a_port_waits_for_its_drivers(context: ServerContext) -> None:
    driver = Recorder(does=Trouble(BackendUnavailable("off"), kind=Kind.PORT))
    delivered: list[Any] = []
    env = OutboxEnvironment(context, driver, delivered=lambda unit, ports: delivered.extend(ports))
    port = env.port(env.network())

    def gated() -> list[Any]:
        return list(context.run(SERVER, lambda unit: env.outbox.gate(unit, [port])))

    assert gated() == [port]
    env.delivery.drain()
    env.delivery.drain()
    assert gated() == []
    assert delivered == [port]


@pytest.mark.spec("API-14")
def test_a_notifier_receives_every_change_in_order_in_batches(context: ServerContext) -> None:
    notifier = RecordingNotifier()
    env = OutboxEnvironment(context, notifiers=[notifier])
    network = env.network()
    port = env.port(network)
    env.touch(Kind.PORT, port)
    env.touch(Kind.NETWORK, network)
    env.delete(Kind.PORT, port)
    env.delivery.drain()
    assert notifier.batches == [["port None>1", "port 1>2", "port 2>None"]]
    assert env.waiting() == 0


@pytest.mark.spec("API-14")
def test_a_batch_is_kept_until_the_other_side_takes_it(context: ServerContext) -> None:
    def fail(changes: Any) -> None:
        if troubles:
            raise troubles.pop(0)

    troubles: list[Exception] = [BackendUnavailable("gone"), Conflict("will not")]
    notifier = RecordingNotifier(fail)
    env = OutboxEnvironment(context, notifiers=[notifier])
    network = env.network()
    port = env.port(network)
    env.delivery.drain()
    assert notifier.batches == []
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert fault.error == "will not", "it was tried again, and then refused for good"
    env.touch(Kind.PORT, port)
    env.delivery.drain()
    assert notifier.batches == [["port 1>2"]]


@pytest.mark.spec("API-14")
def test_a_notifier_receives_statuses_and_one_that_crashes_receives_all(
    context: ServerContext, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = RecordingNotifier()
    env = OutboxEnvironment(context, notifiers=[notifier])
    port = env.port(env.network())
    value = cast(Port, context.read(lambda view: view.resources.get(Kind.PORT, port)).resource())
    after = evolve(value, status=Status.ACTIVE)
    context.run(SERVER, lambda unit: env.outbox.status_changed(unit, value, after))
    env.delivery.drain()
    assert notifier.batches == [["port None>1", "port 1>1"]]

    def crash(change: Change) -> bool:
        raise RuntimeError("oops")

    notifier.concerns = crash  # type: ignore[method-assign]
    env.network()
    env.delivery.drain()
    assert notifier.batches[1:] == [["network None>1"]]
    assert "selecting its changes failed" in caplog.text
