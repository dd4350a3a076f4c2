"""Two L2 agents on one switch: the second waits, says so, and takes over."""

import json
import time

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l2.environment import AgentHost, port_id
from tests.nightly import nightly


@pytest.fixture
def pair(make_cloud, tmp_path):
    """Yield an agent that wired a port, and another of the same switch that wants it dead."""
    cloud = make_cloud()
    ((name, first),) = cloud.hosts.items()
    cloud.topology.network(0, network_type="local", segmentation_id=None)
    cloud.topology.port(1, name)
    cloud.topology.write()
    first.configure()
    first.instance(1)
    first.start_ready()
    elsewhere = tmp_path / "second"
    elsewhere.mkdir()
    cloud.topology.port(1, name, admin_state_up=False)
    (elsewhere / "topology.json").write_text(json.dumps(cloud.topology.content))
    second = AgentHost(first.host, elsewhere / "topology.json")
    second.configure(agent="retry_interval_max = 60")
    yield first, second
    if second.process is not None and second.process.poll() is None:
        second.kill()


def waits(status: dict) -> bool:
    return any("another agent" in text for text in status["errors"].values())


@pytest.mark.parametrize("end", [nightly("stop"), "kill"])
def test_the_second_agent_touches_nothing_and_takes_over_when_the_first_ends(pair, end):
    first, second = pair
    flows = first.flows()
    second.start()
    second.wait(waits)
    status = second.status()
    assert not status["ready"]
    assert "stop it, or give this one its own integration_bridge" in str(status["errors"])
    assert "another agent" in second.log.read_text()
    assert second.reported() == {}, "neither a status nor a heartbeat"
    assert first.flows() == flows
    assert first.plan().status == 0
    assert second.plan().status == 3
    getattr(first, end)()
    began = time.monotonic()
    second.wait(lambda status: status["ready"])
    assert time.monotonic() - began < 45  # less than the longest pause
    assert second.flows() != flows
    wait_until(lambda: port_id(1) in str(second.reported()))


def test_an_agent_that_is_to_end_says_why_it_is_not_ready(pair):
    _, second = pair
    ended = second.once(5)
    assert ended.status == 1
    assert "another agent" in ended.error


def test_a_second_agent_that_starts_without_a_database_waits_for_the_lock(pair):
    first, second = pair
    socket = second.directory / "db.sock"
    second.configure(remote=f"unix:{socket}")
    second.start()
    second.wait(lambda status: "the lock against a second agent" in status["errors"])
    socket.symlink_to(first.host.ovs.remote.removeprefix("unix:"))
    second.wait(waits)
    assert second.reported() == {}, "neither a status nor a heartbeat"


@pytest.mark.nightly
def test_an_agent_is_in_charge_again_after_the_database_was_restarted(pair):
    first, second = pair
    flows = first.flows()
    first.host.ovs.kill_database()
    first.wait(lambda status: not status["ready"])
    first.host.ovs.start_database()
    first.wait(lambda status: status["ready"])
    second.start()
    second.wait(waits)
    assert first.flows() == flows
