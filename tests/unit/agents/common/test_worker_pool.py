"""A pool: bounded, one order of a group at a time, newer ones joined with those that wait."""

import threading

import pytest

from netfw.agents.common.jobs import JobPriority
from netfw.agents.common.worker_pool import KeyedWorkerPool


class Yard:
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
        assert self.go.acquire(timeout=10)
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
def yard():
    yards = []

    def make(size=2):
        yards.append(Yard(size))
        return yards[-1]

    yield make
    for each in yards:
        each.let_go(100)
        each.pool.close()


@pytest.mark.spec("DHCP-04")
def test_no_more_are_at_work_than_it_has_threads(yard):
    yard = yard(2)
    for group in "abcde":
        yard.submit(group, group)
    yard.wait_begun(2)
    assert yard.pool.busy
    yard.let_go(5)
    assert sorted(yard.collected("abcde")) == list("abcde")
    assert yard.most == 2
    assert not yard.pool.busy


@pytest.mark.spec("DHCP-06")
def test_orders_of_a_group_follow_each_other_and_those_that_wait_are_joined(yard):
    yard = yard(2)
    yard.submit("a", "1")
    yard.wait_begun(1)
    for word in "234":
        yard.submit("a", word)
    yard.submit("b", "x")
    yard.wait_begun(2)
    assert yard.begun == [("1",), ("x",)]
    yard.let_go(3)
    assert sorted(yard.collected("ab")) == ["1", "234", "x"]


@pytest.mark.spec("L3-03")
def test_jobs_go_in_the_order_of_their_priority_and_take_what_they_join_along(yard):
    yard = yard(1)
    yard.submit("a", "a")
    yard.wait_begun(1)
    yard.submit("b", "b", priority=JobPriority.BACKGROUND)
    yard.submit("c", "c", priority=JobPriority.BACKGROUND)
    yard.submit("d", "d")
    yard.submit("c", "C")
    yard.submit("e", "e", priority=JobPriority.REMOVAL)
    yard.let_go(5)
    assert yard.collected("abcde") == ["a", "e", "d", "cC", "b"]


def test_queued_job_keeps_its_place_when_a_newer_one_joins_it(yard):
    yard = yard(1)
    yard.submit("a", "a")
    yard.wait_begun(1)
    yard.submit("b", "b")
    yard.submit("c", "c")
    yard.submit("b", "B", priority=JobPriority.BACKGROUND)
    yard.let_go(3)
    assert yard.collected("abc") == ["a", "bB", "c"]


def test_pool_notifies_of_results_and_wait_ends_after_its_timeout(yard):
    yard = yard(1)
    yard.submit("a", "a")
    yard.pool.wait("a", 0.01)
    assert yard.pool.take_results() == []
    yard.let_go(1)
    assert yard.news.wait(10)
    assert yard.collected("a") == ["a"]


def test_queued_jobs_can_be_cancelled(yard):
    yard = yard(1)
    yard.submit("a", "a")
    yard.wait_begun(1)
    yard.submit("c", "c")
    yard.submit("b", "b", priority=JobPriority.REMOVAL)
    assert yard.pool.cancel_queued() == [("b",), ("c",)]
    yard.let_go(1)
    assert yard.collected("abc") == ["a"]


def test_closed_it_begins_nothing_more(yard):
    yard = yard(1)
    yard.submit("a", "a")
    yard.wait_begun(1)
    yard.submit("b", "b")
    closing = threading.Thread(target=yard.pool.close)
    closing.start()
    yard.let_go(1)
    closing.join(10)
    assert not closing.is_alive()
    assert yard.begun == [("a",)]
