"""Notifications of a remote source: lost, doubled, late, and whom they reach."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from netfw.drivers.state_source import Cursor
from netfw.drivers.transport import Message
from netfw.drivers.values.subscription import Service
from netfw.errors import CursorLost
from netfw.state.dependencies import AgentRoot, reachable
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource
from netfw.state.rpc.notifications import make_notification, notification_topic
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.environment import Follower
from netfw.testing.fakes.transport import FakeBroker
from tests.unit.state.rpc.environment import offered


@pytest.mark.spec("RPC-02")
@pytest.mark.parametrize("kind", ["lost", "doubled", "late"])
def test_lost_doubled_and_late_notifications_are_harmless(wire: FakeBroker, kind: str) -> None:
    chance = random.Random(3)
    late: list[Message] = []

    def deliver(message: Message) -> Iterator[Message]:
        if kind == "lost":
            yield from () if chance.random() < 0.6 else (message,)
        elif kind == "doubled":
            yield from (message, message, message)
        else:
            late.append(message)
            if len(late) > 5:
                yield late.pop(chance.randrange(len(late)))

    memory = MemorySource(*samples.BACKGROUND)
    source = offered(wire, memory)
    wire.fate = deliver
    agent, hinted = Follower(source, samples.L2_HERE), threading.Event()
    stop = source.watch(samples.L2_HERE, hinted.set)
    agent.catch_up()
    for turn in range(60):
        host = chance.choice([samples.HERE, samples.THERE])
        memory.put(samples.port(chance.randrange(6, 12), host, samples.NET, samples.WEB))
        if turn % 7 == 0 and hinted.wait(0.02):
            hinted.clear()
            agent.catch_up()
    stop()
    assert agent.catch_up() == reachable(memory.items(), samples.L2_HERE)


def _settled(wire: FakeBroker) -> None:
    """Wait until everything published so far arrived."""
    arrived = threading.Event()
    stop = wire.subscribe("end", lambda _: arrived.set())
    assert arrived.wait(60)
    stop()


@pytest.mark.spec("RPC-02")
def test_one_of_several_servers_notifications_is_forwarded(wire: FakeBroker) -> None:
    source = RemoteSource(wire.transport())
    hints: list[None] = []
    source.watch(samples.L2_HERE, lambda: hints.append(None))
    _settled(wire)
    hints.clear()
    root, everywhere = AgentRoot(Service.L2, samples.HERE), AgentRoot(Service.L2, "")
    for cursor in (Cursor("e", 5), Cursor("e", 5), Cursor("e", 4), Cursor("e", 6)):
        wire.publish(make_notification(root, cursor))
        wire.publish(make_notification(everywhere, cursor))
    _settled(wire)
    assert len(hints) == 2
    wire.publish(make_notification(root, Cursor("restored", 1)))
    wire.publish(make_notification(root, None))
    _settled(wire)
    assert len(hints) == 4
    source.close()
    wire.publish(make_notification(root, Cursor("e", 9)))
    _settled(wire)
    assert len(hints) == 4


@pytest.mark.spec("RPC-02", "DRV-48")
def test_notifications_of_a_restored_source_that_counts_again_are_forwarded(
    wire: FakeBroker,
) -> None:
    source = offered(wire, MemorySource())
    hints: list[None] = []
    source.watch(samples.L2_HERE, lambda: hints.append(None))
    *_, last = source.snapshot(samples.L2_HERE)
    root, epoch = AgentRoot(Service.L2, samples.HERE), last.cursor.epoch
    wire.publish(make_notification(root, Cursor(epoch, 90)))
    _settled(wire)
    hints.clear()
    with pytest.raises(CursorLost):
        source.changes(samples.L2_HERE, Cursor(epoch, 90))
    wire.publish(make_notification(root, Cursor(epoch, 12)))
    _settled(wire)
    assert len(hints) == 1
    source.close()


def test_notification_topics_are_short_and_unique_per_host() -> None:
    assert notification_topic(AgentRoot(Service.L2, "compute-7")) == "l2.compute-7"
    long = [AgentRoot(Service.POPULATION, "h" * 200 + end) for end in "ab"]
    assert len({notification_topic(each) for each in long}) == 2
    assert max(len(notification_topic(each)) for each in long) <= 100


class Announcer(MemorySource):
    """Says whom commits concern, and cannot be watched."""

    tell: Any = None

    def announce(self, tell: Any) -> Any:
        self.notify = tell
        return lambda: None

    def watch(self, subscription: Any, hint: Any) -> Any:
        raise AssertionError("no agent is watched by itself")


def test_notifications_go_to_concerned_roots_without_subscribers_too(wire: FakeBroker) -> None:
    source = Announcer(samples.WEB_HERE)
    offered(wire, source).changes(samples.L2_HERE, next(source.snapshot(samples.L2_HERE)).cursor)
    source.notify(
        Cursor("e", 1), frozenset({AgentRoot(Service.L2, "a"), AgentRoot(Service.DHCP, "b")})
    )
    assert wire.hints == {"l2.a": 1, "dhcp.b": 1}
    source.notify(Cursor("e", 2), None)
    assert {"l2.", "dhcp.", "l3.", "population."} <= wire.hints.keys()
