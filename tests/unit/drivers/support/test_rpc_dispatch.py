"""Listeners of transports on a machine that refuses threads."""

import threading

from netfw.drivers.support.rpc_dispatch import CoalescingSubscriber
from netfw.drivers.support.thread_pool import BoundedThreadPool
from netfw.drivers.transport import Message
from tests.thread_limit import no_threads


def test_hint_is_delivered_with_the_next_one_if_a_thread_was_refused():
    pool, received, done = BoundedThreadPool("test", threads=1, queue=9), [], threading.Event()

    def listener(message):
        received.append(message.method)
        done.set()

    subscriber = CoalescingSubscriber("topic", listener, pool)
    with no_threads():
        subscriber.offer(Message(topic="topic", method="first"))
    subscriber.offer(Message(topic="topic", method="second"))
    assert done.wait(60)
    assert received == ["second"]
    pool.close()
