"""The outbox: in order, the newest, once and again, and nothing lost."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from attrs import evolve
from sqlalchemy import event

from netfw.drivers.change import Change
from netfw.errors import BackendUnavailable, Conflict
from netfw.model.common_fields import Status
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.outbox.worker import DeliveryConfig
from netfw_drivers.mechanism_drivers.l2population import L2PopulationMechanismDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.server.outbox.samples import QUICK, Recorder, RecordingNotifier, Scene, line


class Trouble:
    """Raises what it has, as long as it has some."""

    def __init__(self, *errors: BaseException, kind: Kind | None = None) -> None:
        self.errors, self.kind = list(errors), kind

    def __call__(self, change: Any) -> None:
        concerned = self.kind is None or change.ref.kind is self.kind
        if self.errors and concerned:
            raise self.errors.pop(0)


@pytest.mark.spec("ML2-03")
def test_a_driver_receives_only_the_newest_state_in_order(context: ServerContext) -> None:
    driver = Recorder()
    scene = Scene(context, driver)
    network = scene.network()
    port = scene.port(network)
    scene.touch(Kind.NETWORK, network)
    scene.touch(Kind.PORT, port)
    scene.touch(Kind.PORT, port)
    scene.delivery.drain()
    assert driver.lines() == ["network None>2", "port None>3"]
    assert driver.told[1].network is not None
    assert driver.told[1].network.id == network
    scene.touch(Kind.NETWORK, network)
    scene.touch(Kind.PORT, port)
    scene.delete(Kind.PORT, port)
    scene.delete(Kind.NETWORK, network)
    scene.delivery.drain()
    assert driver.lines()[2:] == ["port 3>None", "network 2>None"]
    assert scene.waiting() == 0
    short = scene.network()
    scene.delete(Kind.NETWORK, short)
    scene.delivery.drain()
    assert len(driver.told) == 4, "what came and went unnoticed is not told"


@pytest.mark.spec("ML2-03")
def test_drivers_that_deliver_nothing_cost_nothing(context: ServerContext) -> None:
    scene = Scene(context, OvsMechanismDriver(), L2PopulationMechanismDriver())
    assert not scene.outbox.needed
    statements: list[str] = []
    event.listen(
        context.database.writing,
        "before_cursor_execute",
        lambda conn, cursor, statement, *rest: statements.append(statement),
    )
    scene.network()
    assert not [each for each in statements if "outbox" in each]
    scene.delivery.start()
    assert not [each for each in threading.enumerate() if each.name == "outbox"]
    scene.delivery.close()


@pytest.mark.spec("ML2-03")
def test_a_rolled_back_change_is_not_delivered(context: ServerContext) -> None:
    driver = Recorder()
    scene = Scene(context, driver)

    def refuse(unit: Any, change: Any) -> None:
        raise Conflict("no")

    context.precommit_hooks.append(refuse)
    with pytest.raises(Conflict):
        scene.network()
    scene.delivery.drain()
    assert driver.told == []


@pytest.mark.spec("ML2-03")
def test_a_failed_delivery_is_retried_with_its_lane(
    context: ServerContext,
) -> None:
    driver = Recorder(does=Trouble(*[BackendUnavailable("the switch is off")] * 3))
    calm = Recorder("calm")
    scene = Scene(context, driver, calm, pace=DeliveryConfig(first_pause=0.4, longest_pause=0.5))
    first = scene.network()
    scene.port(first)
    scene.delivery.drain()
    assert driver.told == []
    assert len(calm.told) == 2, "others are not held up"
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert (fault.error, fault.attempts, fault.lane.name) == ("the switch is off", 1, str(first))
    other = scene.network()
    driver.does = Trouble(BackendUnavailable("still"), BackendUnavailable("still"))
    deadline = time.monotonic() + 10
    while scene.waiting() and time.monotonic() < deadline:
        scene.delivery.drain()
        time.sleep(0.01)
    by_network = [line(each) for each in driver.told if each.network and each.network.id == first]
    assert by_network == ["network None>1", "port None>1"], "in order, however often it failed"
    assert other in {each.network.id for each in driver.told if each.network}
    assert context.database.transaction(lambda tx: tx.outbox.failures()) == ()


@pytest.mark.spec("ML2-03")
@pytest.mark.parametrize(
    "error", [Conflict("no such VLAN"), ZeroDivisionError("oops"), SystemExit("bye")]
)
def test_a_refused_change_is_kept_and_shown_and_delays_no_other(
    context: ServerContext, error: BaseException
) -> None:
    driver = Recorder(does=Trouble(error, error, kind=Kind.PORT))
    scene = Scene(context, driver)
    network = scene.network()
    bad = scene.port(network)
    scene.delivery.drain()
    good = scene.port(network)
    scene.delivery.drain()
    assert [each.ref.id for each in driver.told] == [network, good]
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert fault.ref is not None
    assert (fault.ref.id, fault.revision) == (bad, 1)
    assert str(error) in fault.error
    assert scene.outbox.needed
    scene.touch(Kind.PORT, bad)
    scene.delivery.drain()
    assert driver.lines()[2:] == ["port None>2"], "its next change brings all of it"
    assert scene.waiting() == 0


@pytest.mark.spec("ML2-03")
def test_a_person_has_it_tried_again_or_forgotten(context: ServerContext) -> None:
    driver = Recorder(does=Trouble(Conflict("no"), Conflict("no"), kind=Kind.NETWORK))
    scene = Scene(context, driver)
    scene.network()
    scene.delivery.drain()
    assert driver.told == []
    assert context.database.transaction(lambda tx: tx.outbox.retry("mechanism/recorder")) == 1
    scene.delivery.drain()
    assert driver.lines() == ["network None>1"]
    scene.network()
    assert (
        context.database.transaction(lambda tx: tx.outbox.delete_driver("mechanism/recorder")) == 1
    )
    scene.delivery.drain()
    assert len(driver.told) == 1


@pytest.mark.spec("ML2-03")
def test_what_needs_what_came_later_is_delivered_after_it(context: ServerContext) -> None:
    known: set[Any] = set()

    def needs_the_other(change: Change) -> None:
        if change.ref.kind is Kind.PORT and change.revision == 2 and second not in known:
            raise Conflict("it needs the second port")
        known.add(change.ref.id)

    driver = Recorder(does=needs_the_other)
    scene = Scene(context, driver)
    network = scene.network()
    first = scene.port(network)
    second = scene.port(network)
    scene.touch(Kind.PORT, first)
    scene.delivery.drain()
    assert [each.ref.id for each in driver.told] == [network, second, first]
    assert scene.waiting() == 0


@pytest.mark.spec("ML2-03")
def test_what_was_perhaps_delivered_is_taken_back_though_it_came_and_went(
    context: ServerContext,
) -> None:
    """A process dies after it delivered and before it wrote that down."""
    driver = Recorder()
    scene = Scene(context, driver)
    network = scene.network()
    dead = scene.delivery

    class Killed(BaseException):
        pass

    def die(change: Change) -> None:
        raise Killed

    driver.does = die
    with pytest.raises(Killed):
        dead.drain()
    scene.delete(Kind.NETWORK, network)
    other = Scene(ServerContext(database=context.database, ipam=context.ipam), driver)
    driver.does = None
    other.delivery.drain()
    assert driver.told == [], "the lane is the dead one's until its lease is over"
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
    scene = Scene(context, driver)
    others = ServerContext(database=context.database, ipam=context.ipam)
    second = Scene(others, driver)
    scene.delivery.start()
    second.delivery.start()
    try:
        networks = [scene.network() for _ in range(4)]
        for _ in range(5):
            for network in networks:
                scene.port(network)
        deadline = time.monotonic() + 20
        while scene.waiting() and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        scene.delivery.close()
        second.delivery.close()
    assert scene.waiting() == 0
    assert most[0] > 1
    for network in networks:
        mine = [each for each in driver.told if each.network and each.network.id == network]
        assert mine[0].ref.kind is Kind.NETWORK
        assert len(mine) == 6


@pytest.mark.spec("ML2-03")
def test_a_driver_that_hangs_holds_up_no_other_and_not_the_end(context: ServerContext) -> None:
    released, notifier = threading.Event(), RecordingNotifier()
    driver = Recorder(does=lambda change: released.wait(60))
    scene = Scene(context, driver, notifiers=[notifier])
    scene.delivery.start()
    try:
        for _ in range(6):
            scene.port(scene.network())
        deadline = time.monotonic() + 20
        while sum(map(len, notifier.batches)) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert sum(map(len, notifier.batches)) == 6
        began = time.monotonic()
        scene.delivery.close(within=0.2)
        assert time.monotonic() - began < 5
        assert scene.waiting() == 12, "what was not told is still there"
    finally:
        released.set()


@pytest.mark.spec("ML2-03")
def test_a_driver_that_hangs_delays_neither_others_nor_the_end_of_the_server(
    context: ServerContext, caplog: pytest.LogCaptureFixture
) -> None:
    waiting, notifier = threading.Event(), RecordingNotifier()
    hanging, working = Recorder("hanging", lambda change: waiting.wait(20)), Recorder("working")
    pace = evolve(QUICK, workers=2)
    scene = Scene(context, hanging, working, notifiers=[notifier], pace=pace)
    scene.delivery.start()
    try:
        networks = [scene.network() for _ in range(4)]
        ports = [scene.port(network) for network in networks]
        deadline = time.monotonic() + 10
        while len(working.told) < 8 or sum(map(len, notifier.batches)) < len(ports):
            assert time.monotonic() < deadline, (working.lines(), notifier.batches)
            time.sleep(0.01)
        began = time.monotonic()
        scene.delivery.close(0.2)
        assert time.monotonic() - began < 2
        assert "delivery to mechanism/hanging does not end" in caplog.text
        assert not hanging.told
    finally:
        waiting.set()


@pytest.mark.spec("ML2-03")
@pytest.mark.spec("ML2-07")
def test_a_port_waits_for_its_drivers(context: ServerContext) -> None:
    driver = Recorder(does=Trouble(BackendUnavailable("off"), kind=Kind.PORT))
    delivered: list[Any] = []
    scene = Scene(context, driver, delivered=lambda unit, ports: delivered.extend(ports))
    port = scene.port(scene.network())

    def gated() -> list[Any]:
        return list(context.run(SERVER, lambda unit: scene.outbox.gate(unit, [port])))

    assert gated() == [port]
    scene.delivery.drain()
    scene.delivery.drain()
    assert gated() == []
    assert delivered == [port]


@pytest.mark.spec("API-14")
def test_a_notifier_receives_every_change_in_order_in_batches(context: ServerContext) -> None:
    notifier = RecordingNotifier()
    scene = Scene(context, notifiers=[notifier])
    network = scene.network()
    port = scene.port(network)
    scene.touch(Kind.PORT, port)
    scene.touch(Kind.NETWORK, network)
    scene.delete(Kind.PORT, port)
    scene.delivery.drain()
    assert notifier.batches == [["port None>1", "port 1>2", "port 2>None"]]
    assert scene.waiting() == 0


@pytest.mark.spec("API-14")
def test_a_batch_is_kept_until_the_other_side_takes_it(context: ServerContext) -> None:
    def fail(changes: Any) -> None:
        if troubles:
            raise troubles.pop(0)

    troubles: list[Exception] = [BackendUnavailable("gone"), Conflict("will not")]
    notifier = RecordingNotifier(fail)
    scene = Scene(context, notifiers=[notifier])
    network = scene.network()
    port = scene.port(network)
    scene.delivery.drain()
    assert notifier.batches == []
    (fault,) = context.database.transaction(lambda tx: tx.outbox.failures())
    assert fault.error == "will not", "it was tried again, and then refused for good"
    scene.touch(Kind.PORT, port)
    scene.delivery.drain()
    assert notifier.batches == [["port 1>2"]]


@pytest.mark.spec("API-14")
def test_a_notifier_receives_statuses_and_one_that_crashes_receives_all(
    context: ServerContext, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = RecordingNotifier()
    scene = Scene(context, notifiers=[notifier])
    port = scene.port(scene.network())
    value = cast(Port, context.read(lambda view: view.resources.get(Kind.PORT, port)).resource())
    after = evolve(value, status=Status.ACTIVE)
    context.run(SERVER, lambda unit: scene.outbox.status_changed(unit, value, after))
    scene.delivery.drain()
    assert notifier.batches == [["port None>1", "port 1>1"]]

    def crash(change: Change) -> bool:
        raise RuntimeError("oops")

    notifier.concerns = crash  # type: ignore[method-assign]
    scene.network()
    scene.delivery.drain()
    assert notifier.batches[1:] == [["network None>1"]]
    assert "selecting its changes failed" in caplog.text
