"""A pool: bounded, one order of a group at a time, newer ones joined with those that wait."""

import threading

import pytest

from netfw.agents.common.jobs.jobs import JobPriority
from netfw.agents.common.jobs.worker_pool import KeyedWorkerPool
from tests.thread_limit import no_threads


class BlockingPool:
    """A pool whose orders, tuples of words, are held up until the test lets them go."""

    def __init__(self, size):
        self.begun, self.finished = [], []
        self.now, self.most = 0, 0
        self.lock = threading.Lock()
        self.go = threading.Semaphore(0)
        self.news = threading.Event()
        self.pool = KeyedWorkerPool(
            size, self.work, lambda older, newer: older + newer, self.news.set
        )

    def work(self, order):
        with self.lock:
            self.begun.append(order)
            self.now += 1
            self.most = max(self.most, self.now)
        assert self.go.acquire(timeout=60)
        with self.lock:
            self.now -= 1
        return "".join(order)

    def submit(self, group, *words, priority=JobPriority.CHANGE):
        self.pool.submit(group, words, priority)

    def wait_begun(self, count):
        pause = threading.Event()
        for _ in range(1000):
            if len(self.begun) >= count:
                return
            pause.wait(0.01)
        raise AssertionError(self.begun)

    def let_go(self, count):
        self.go.release(count)

    def collected(self, groups):
        self.pool.wait(groups, 10)
        return [report.result for report in self.pool.take_results()]


@pytest.fixture
def make_pool():
    pools = []

    def make(size=2):
        pools.append(BlockingPool(size))
        return pools[-1]

    yield make
    for each in pools:
        each.let_go(100)
        each.pool.close()


@pytest.mark.spec("DHCP-04")
def test_no_more_are_at_work_than_it_has_threads(make_pool):
    pool = make_pool(2)
    for group in "abcde":
        pool.submit(group, group)
    pool.wait_begun(2)
    assert pool.pool.busy
    pool.let_go(5)
    assert sorted(pool.collected("abcde")) == list("abcde")
    assert pool.most == 2
    assert not pool.pool.busy


@pytest.mark.spec("DHCP-06")
def test_orders_of_a_group_follow_each_other_and_those_that_wait_are_joined(make_pool):
    pool = make_pool(2)
    pool.submit("a", "1")
    pool.wait_begun(1)
    for word in "234":
        pool.submit("a", word)
    pool.submit("b", "x")
    pool.wait_begun(2)
    assert pool.begun == [("1",), ("x",)]
    pool.let_go(3)
    assert sorted(pool.collected("ab")) == ["1", "234", "x"]


@pytest.mark.spec("L3-03")
def test_jobs_go_in_the_order_of_their_priority_and_take_what_they_join_along(make_pool):
    pool = make_pool(1)
    pool.submit("a", "a")
    pool.wait_begun(1)
    pool.submit("b", "b", priority=JobPriority.BACKGROUND)
    pool.submit("c", "c", priority=JobPriority.BACKGROUND)
    pool.submit("d", "d")
    pool.submit("c", "C")
    pool.submit("e", "e", priority=JobPriority.REMOVAL)
    pool.let_go(5)
    assert pool.collected("abcde") == ["a", "e", "d", "cC", "b"]


def test_queued_job_keeps_its_place_when_a_newer_one_joins_it(make_pool):
    pool = make_pool(1)
    pool.submit("a", "a")
    pool.wait_begun(1)
    pool.submit("b", "b")
    pool.submit("c", "c")
    pool.submit("b", "B", priority=JobPriority.BACKGROUND)
    pool.let_go(3)
    assert pool.collected("abc") == ["a", "bB", "c"]


def test_pool_notifies_of_results_and_wait_ends_after_its_timeout(make_pool):
    pool = make_pool(1)
    pool.submit("a", "a")
    pool.pool.wait("a", 0.01)
    assert pool.pool.take_results() == []
    pool.let_go(1)
    assert pool.news.wait(60)
    assert pool.collected("a") == ["a"]


def test_queued_jobs_can_be_cancelled(make_pool):
    pool = make_pool(1)
    pool.submit("a", "a")
    pool.wait_begun(1)
    pool.submit("c", "c")
    pool.submit("b", "b", priority=JobPriority.REMOVAL)
    assert pool.pool.cancel_queued() == [("b",), ("c",)]
    pool.let_go(1)
    assert pool.collected("abc") == ["a"]


def test_closed_it_begins_nothing_more(make_pool):
    pool = make_pool(1)
    pool.submit("a", "a")
    pool.wait_begun(1)
    pool.submit("b", "b")
    closing = threading.Thread(target=pool.pool.close)
    closing.start()
    pool.pool.wait("b", 60)  # ends when the pool is closed, as no thread starts the job
    pool.let_go(1)
    closing.join(60)
    assert not closing.is_alive()
    assert pool.begun == [("a",)]


def test_job_stays_queued_while_no_thread_can_be_started(make_pool):
    pool = make_pool(2)
    with no_threads():
        pool.submit("a", "a")
        error = pool.pool.start_threads()
    assert "0 of 2 worker threads" in str(error)
    assert pool.pool.busy
    assert pool.pool.start_threads() is None
    pool.let_go(1)
    assert pool.collected("a") == ["a"]
    pool.submit("b", "b")
    pool.let_go(1)
    assert pool.collected("b") == ["b"]


def test_started_threads_go_on_while_no_more_can_be_started(make_pool):
    pool = make_pool(2)
    pool.submit("a", "a")
    pool.wait_begun(1)
    with no_threads():
        pool.submit("b", "b")
        assert "1 of 2 worker threads" in str(pool.pool.start_threads())
        pool.let_go(2)
        assert pool.collected("ab") == ["a", "b"]
        assert pool.pool.start_threads() is None, "no job needs one"
