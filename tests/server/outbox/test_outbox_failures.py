"""The outbox, when the database, a thread or a driver fails beside a delivery."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import update

from netfw.drivers.server.change import Change
from netfw.errors import BackendUnavailable
from netfw.server.core.server_context import ServerContext
from netfw.server.db.schema.tables import OUTBOX_LANES
from netfw.server.outbox.worker import DeliveryConfig
from netfw.testing.lab.wait import wait_until
from tests.server.outbox.samples import QUICK, OutboxEnvironment, Recorder
from tests.server.outbox.test_outbox import join_lanes


def test_a_lane_that_failed_is_retried_though_another_one_hangs(context: ServerContext) -> None:
    released, trouble = threading.Event(), [BackendUnavailable("the database is gone")]
    driver = Recorder(does=lambda change: hangs(change) and released.wait(300))

    def delivered(unit: Any, ports: Any) -> None:
        if trouble:
            raise trouble.pop()

    env = OutboxEnvironment(
        context, driver, delivered=delivered, pace=evolve(QUICK, lease=0.6, settle=0.0)
    )
    networks = [env.network(), env.network()]

    def hangs(change: Change) -> bool:
        return change.ref.id == networks[0]

    env.port(networks[1])
    env.delivery.start()
    try:
        wait_until(lambda: env.waiting() == 1, "what does not hang is delivered")
    finally:
        released.set()
        env.delivery.close()
    join_lanes()
    assert not trouble


def test_the_outbox_survives_what_it_does_not_expect(
    context: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Recorder()
    env = OutboxEnvironment(context, driver)
    refused, begin = [RuntimeError("can't start new thread")], threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if refused and threading.current_thread() is not threading.main_thread():
            raise refused.pop()
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    env.network()
    env.delivery.start()
    try:
        wait_until(lambda: not env.waiting(), "it is delivered later")
    finally:
        env.delivery.close()
    assert driver.lines() == ["network None>1"]


def test_the_back_off_of_a_target_that_is_away_for_days_stays_the_longest(
    context: ServerContext,
) -> None:
    failed = threading.Event()

    def refuse(change: Change) -> None:
        failed.set()
        raise BackendUnavailable("the switch is off")

    pace = DeliveryConfig(poll=0.05, first_pause=1.0, longest_pause=1500.0)
    env = OutboxEnvironment(context, Recorder(does=refuse), pace=pace)
    env.network()
    env.delivery.drain()
    env.end_pauses()
    set_attempts(context, 1100)
    failed.clear()
    env.delivery.start()
    try:
        assert failed.wait(60)
    finally:
        env.delivery.close()
    join_lanes()
    (left,) = env.end_pauses()
    assert 1000 < left <= 1500


def set_attempts(context: ServerContext, count: int) -> None:
    """Have *count* attempts behind all lanes."""
    values = update(OUTBOX_LANES).values(attempts=count)
    context.database.transaction(lambda tx: tx.connection.execute(values) and None)
