"""Agents and devices with several server processes on one database."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.server.db.agents.assignments import AssignmentRows
from tests.lab.server.db.processes import at_once
from tests.lab.server.forkserver import CONTEXT
from tests.lab.server.scheduling.processes import (
    ask_for_ports,
    core_of,
    deliver_for_ever,
    make_environment,
    register_agents,
)
from tests.server.core.core_client import Calls

LEASE = 6.0
"""Seconds; longer than a busy machine stops a process, whose lanes others would take."""


@pytest.mark.spec("ML2-10")
@pytest.mark.spec("RPC-03")
def test_agents_are_known_once_and_networks_served_once_however_many_servers_hear(
    url: str,
) -> None:
    core, plugin = core_of(url)
    calls = Calls(plugin)
    for _ in range(6):
        calls.subnet(calls.network(), "10.0.0.0/24")
    at_once(3, register_agents, url)
    agents = calls.all("agent")
    assert sorted(each["host"] for each in agents) == list("abcde")
    assert all(each["alive"] for each in agents)
    served = core.context.read(lambda view: AssignmentRows(view.connection).at(Service.DHCP))
    assert len(served) == 6
    assert len({each.ref for each in served}) == 6
    core.context.database.close()


@pytest.mark.spec("RPC-04")
def test_requests_to_several_servers_create_nothing_twice(url: str) -> None:
    core, plugin = core_of(url)
    calls = Calls(plugin)
    network = calls.network()
    subnet = calls.subnet(network, "10.0.0.0/24")
    ids = NetworkId(UUID(network["id"])), SubnetId(UUID(subnet["id"]))
    answers = at_once(4, ask_for_ports, url, *ids)
    assert len(set(answers)) == 1
    assert len(calls.all("port")) == 1
    core.context.database.close()


@pytest.mark.spec("ML2-03")
def test_a_lane_is_delivered_by_one_process_at_a_time_and_none_is_lost_when_one_is_killed(
    url: str, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    diary.touch()
    env = make_environment(url, diary, 9, 0.0, LEASE)
    workers = [
        CONTEXT.Process(target=deliver_for_ever, args=(url, diary, seed, 0.02, LEASE))
        for seed in (1, 2, 3)
    ]
    for worker in workers:
        worker.start()
    try:
        networks = [env.network() for _ in range(3)]
        ports = [env.port(network) for _ in range(4) for network in networks]
        _wait(lambda: _begun(diary) >= 6)
        assert workers[0].pid is not None
        os.kill(workers[0].pid, signal.SIGKILL)
        for port in ports:
            env.touch(Kind.PORT, port)
        _wait(lambda: env.waiting() == 0)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    lines = diary.read_text(encoding="utf-8").splitlines()
    _check_one_at_a_time(lines, dead="1")
    for network in networks:
        finished = [
            line.split() for line in lines if line.startswith("end") and str(network) in line
        ]
        assert finished[0][3:] == ["network", "1"]
        assert sum(each[3:] == ["port", "2"] for each in finished) >= 4
    env.context.database.close()


def _check_one_at_a_time(lines: list[str], dead: str) -> None:
    """Check that no delivery begins in a lane before the one before it has ended.

    A delivery of the dead process may have no end.
    """
    at_work: dict[str, str] = {}
    for line in lines:
        what, who, lane, *_ = line.split()
        if what == "begin":
            assert at_work.get(lane, dead) == dead, line
            at_work[lane] = who
        else:
            assert at_work.pop(lane) == who


def _begun(diary: Path) -> int:
    return diary.read_text(encoding="utf-8").count("begin")


def _wait(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
