"""A bounded pool on a machine that refuses threads."""

import threading

import pytest

from netfw.drivers.support.thread_pool import BoundedThreadPool
from netfw.errors import BackendUnavailable
from tests.thread_limit import no_threads


def test_pool_that_got_no_thread_starts_one_for_a_later_task():
    pool, done = BoundedThreadPool("test", threads=2, queue=2), threading.Event()
    with no_threads(), pytest.raises(BackendUnavailable):
        pool.submit(done.set)
    assert not done.is_set()
    assert pool.submit(done.set)
    assert done.wait(60)
    pool.close()


def test_task_is_left_to_the_threads_that_run():
    pool, go, done = (
        BoundedThreadPool("test", threads=2, queue=2),
        threading.Event(),
        threading.Event(),
    )
    assert pool.submit(lambda: go.wait(60))
    with no_threads():
        assert pool.submit(done.set)
    go.set()
    assert done.wait(60)
    pool.close()
