"""Whose address it is: asked once, remembered for a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest

from netfw.agents.metadata.headers import RequestingInstance
from netfw.agents.metadata.instance_cache import CachePolicy, InstanceCache
from netfw.drivers.values.agent_requests import FindPorts
from netfw.errors import BackendUnavailable, NotFound, NotSupported
from netfw.http.http_error import HttpError
from netfw.model.port import Port
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, PortId
from netfw.testing.lab.wait import wait_until

NET = NetworkId(UUID(int=1))


def request(number: int = 7) -> FindPorts:
    return FindPorts(address=ip_address(f"10.0.0.{number}"), network=NET)


def port(device: str = "i-1", project: str = "p") -> Port:
    mac = Mac("fa:16:3e:00:00:01")
    return Port(
        id=PortId(UUID(int=5)), network_id=NET, mac=mac, device_id=device, project_id=project
    )


class Source:
    """Answers as it is told, and counts."""

    def __init__(self, answer: Callable[[FindPorts], tuple[Port, ...]]) -> None:
        self.answer = answer
        self.requests: list[FindPorts] = []
        self.now = 0.0

    def __call__(self, request: FindPorts) -> tuple[Port, ...]:
        self.requests.append(request)
        return self.answer(request)

    def clock(self) -> float:
        return self.now


def status(directory: InstanceCache, of: FindPorts | None = None) -> int:
    try:
        directory.find(of or request())
    except HttpError as refusal:
        return refusal.status
    return 200


def test_an_answer_is_remembered_for_its_time_and_no_longer() -> None:
    source = Source(lambda _: (port(),))
    directory = InstanceCache(source, CachePolicy(found=5, none=1), source.clock)
    for source.now in (0.0, 4.9):
        assert directory.find(request()) == RequestingInstance("i-1", "p")
    assert len(source.requests) == 1
    source.answer = lambda _: (port("i-2"),)
    source.now = 5.0
    assert directory.find(request()) == RequestingInstance("i-2", "p")
    assert (directory.lookups, directory.hits) == (2, 1)


@pytest.mark.parametrize(
    "ports",
    [(), (port(), port("i-2")), (port(""),), (port("i-1", "p\u00e9"),)],
    ids=["none", "two", "without instance", "with a name no header takes"],
)
def test_none_or_several_ports_are_404_with_a_shorter_ttl(ports: tuple[Port, ...]) -> None:
    source = Source(lambda _: ports)
    directory = InstanceCache(source, CachePolicy(found=5, none=1), source.clock)
    for source.now in (0.0, 0.9):
        assert status(directory) == 404
    assert len(source.requests) == 1
    source.answer = lambda _: (port(),)
    source.now = 1.0
    assert status(directory) == 200


def test_without_a_ttl_the_source_is_queried_each_time() -> None:
    source = Source(lambda _: (port(),))
    directory = InstanceCache(source, CachePolicy(found=0, none=0), source.clock)
    for _ in range(3):
        assert status(directory) == 200
    assert (len(source.requests), len(directory)) == (3, 0)


def test_no_more_is_remembered_than_may_be() -> None:
    source = Source(lambda _: (port(),))
    directory = InstanceCache(source, CachePolicy(most=3), source.clock)
    for number in (1, 2, 3, 4):
        directory.find(request(number))
    assert len(directory) == 3
    directory.find(request(4))
    assert len(source.requests) == 4
    directory.find(request(1))
    assert len(source.requests) == 5


def test_concurrent_requests_for_one_address_are_one_query() -> None:
    threads = 100
    together = threading.Barrier(threads)
    answer_now = threading.Event()

    def answer(_: FindPorts) -> tuple[Port, ...]:
        assert answer_now.wait(60)
        return (port(),)

    source = Source(answer)
    cache = InstanceCache(source, CachePolicy(found=0))

    def boot(_: int) -> RequestingInstance:
        together.wait(60)
        return cache.find(request())

    def waiting() -> int:
        """Return the number of threads that wait for the query of another one."""
        conditions: list[Any] = [flight._condition for flight in cache._in_flight.values()]
        return sum(len(condition._waiters) for condition in conditions)

    with ThreadPoolExecutor(threads) as pool:
        results = [pool.submit(boot, number) for number in range(threads)]
        wait_until(lambda: waiting() == threads - 1)
        answer_now.set()
        assert {result.result() for result in results} == {RequestingInstance("i-1", "p")}
    assert len(source.requests) == 1


def fails(error: Exception) -> Callable[[FindPorts], tuple[Port, ...]]:
    def answer(_: FindPorts) -> tuple[Port, ...]:
        raise error

    return answer


def test_network_that_is_gone_is_404() -> None:
    source = Source(fails(NotFound("there is no network")))
    directory = InstanceCache(source, clock=source.clock)
    assert status(directory) == 404
    assert directory.problem == ""


@pytest.mark.parametrize("error", [BackendUnavailable("no answer"), NotSupported("not that")])
def test_source_error_is_503_and_a_problem_until_recovery(error: Exception) -> None:
    source = Source(fails(error))
    directory = InstanceCache(source, CachePolicy(none=1), source.clock)
    assert (status(directory), directory.problem) == (503, str(error))
    assert status(directory) == 503
    assert len(source.requests) == 1
    source.answer = lambda _: (port(),)
    source.now = 1.0
    assert (status(directory), directory.problem) == (200, "")


def test_while_the_source_is_away_one_waits_for_it_and_the_others_do_not() -> None:
    source = Source(fails(BackendUnavailable("no answer")))
    directory = InstanceCache(source, clock=source.clock)
    assert status(directory) == 503
    begun, release = threading.Event(), threading.Event()

    def hang(_: FindPorts) -> tuple[Port, ...]:
        begun.set()
        assert release.wait(60)
        return (port(),)

    source.answer = hang
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(status, directory, request(1))
        assert begun.wait(60)
        assert [status(directory, request(number)) for number in (2, 3, 4)] == [503] * 3
        release.set()
        assert first.result() == 200
    assert [status(directory, request(number)) for number in (2, 3, 4)] == [200] * 3


def test_exception_reaches_all_waiting_threads_and_leaves_nothing() -> None:
    source = Source(fails(ZeroDivisionError()))
    directory = InstanceCache(source, clock=source.clock)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            directory.find(request())
    source.answer = lambda _: (port(),)
    assert status(directory) == 200
