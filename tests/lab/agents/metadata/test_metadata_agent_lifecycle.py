"""The metadata agent as a process: socket, signals, liveness, heartbeats, secrets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.metadata.environment import FIRST, NETWORK, SECRET, Agent, address
from tests.lab.agents.metadata.recording_service import RecordingService, Response
from tests.nightly import nightly

Make = Callable[..., Agent]
ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"


@pytest.mark.spec("MD-04", "MD-11")
@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("deduce", 0o644 if ONE_USER else 0o666),
        ("all", 0o666),
        ("group", 0o664),
        ("0600", 0o600),
    ],
)
def test_the_socket_has_the_mode_of_the_configuration_and_goes_with_the_agent(
    make_agent: Make, service: RecordingService, word: str, mode: int
) -> None:
    agent = make_agent(service.port, metadata={"metadata_proxy_socket_mode": word})
    agent.start()
    assert stat.S_IMODE(agent.socket.stat().st_mode) == mode
    assert agent.ask().status == 200
    assert agent.stop() == 0
    assert list(agent.socket.parent.iterdir()) == []
    assert not agent.alive.exists()
    assert not agent.status_file.exists()


def test_socket_for_another_user_is_writable_by_that_user(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_proxy_user": "nobody"})
    agent.start()
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o666


@pytest.mark.parametrize("ending", [nightly("stop"), "kill"])
def test_a_second_agent_waits_until_the_first_one_ends(
    make_agent: Make, service: RecordingService, ending: str
) -> None:
    agent = make_agent(service.port)
    agent.start()
    options = {"metadata_proxy_socket": agent.socket}
    second = make_agent(service.port, name="second", metadata=options)
    second.socket = agent.socket
    second.spawn()
    second.wait(lambda status: status["errors"])
    status = second.status()
    (error,) = set(status["errors"].values())
    assert f"process {agent.process.pid} holds {agent.socket}.lock" in error
    assert not status["ready"]
    assert agent.ask().status == 200
    getattr(agent, ending)()
    second.wait(lambda status: status["ready"])
    assert second.ask().status == 200


def test_what_is_no_socket_is_not_removed(make_agent: Make, service: RecordingService) -> None:
    agent = make_agent(service.port)
    agent.socket.parent.mkdir()
    agent.socket.write_text("precious")
    assert agent.spawn().wait(60) == 2
    assert "is no socket" in agent.log.read_text()
    assert agent.socket.read_text() == "precious"


@pytest.mark.nightly
def test_removed_socket_is_created_again(agent: Agent) -> None:
    agent.socket.unlink()
    assert wait_until(lambda: _try(agent)) == 200


def test_request_in_progress_is_answered_when_the_agent_stops(
    agent: Agent, service: RecordingService
) -> None:
    service.behave = lambda _: Response(after=0.5)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(agent.ask)
        wait_until(lambda: service.seen)
        assert agent.stop() == 0
        assert asking.result().status == 200


@pytest.mark.nightly
def test_a_service_that_hangs_does_not_keep_the_agent_from_ending(
    agent: Agent, service: RecordingService
) -> None:
    release = threading.Event()
    service.behave = lambda _: Response(body=b"%d" % release.wait(60))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(_try, agent)
        wait_until(lambda: service.seen)
        began = time.monotonic()
        assert agent.stop() == 0
        assert time.monotonic() - began < 20
        release.set()
        assert asking.result() in (0, 502)
    assert not agent.socket.exists()


@pytest.mark.nightly
@pytest.mark.spec("MD-08")
def test_the_liveness_file_stays_young_while_workers_answer(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 2})
    agent.start()

    def age() -> float:
        written = datetime.fromisoformat(agent.alive.read_text().strip())
        return (datetime.now(UTC) - written).total_seconds()

    wait_until(agent.alive.exists)
    for _ in range(4):
        time.sleep(0.25)
        assert age() < 10
    assert agent.process is not None
    os.kill(agent.process.pid, signal.SIGSTOP)
    try:
        before = _values(agent.alive, seconds=2)
        assert len(before) <= 2, "more than the probe that was under way has been answered"
    finally:
        os.kill(agent.process.pid, signal.SIGCONT)
    wait_until(lambda: agent.alive.read_text() not in before)


def _values(file: Path, seconds: float) -> set[str]:
    """Return the contents that *file* has within *seconds*."""
    ends, contents = time.monotonic() + seconds, set[str]()
    while time.monotonic() < ends:
        contents.add(file.read_text())
        time.sleep(0.01)
    return contents


@pytest.mark.spec("MD-08")
def test_an_agent_whose_workers_all_hang_is_seen_by_its_liveness_file(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 2})
    agent.start()
    wait_until(agent.alive.exists)
    release = threading.Event()
    service.behave = lambda _: Response(body=b"%d" % release.wait(30))
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(agent.ask, of=address(FIRST + each)) for each in range(2)]
        wait_until(lambda: len(service.seen) == 2)
        before = agent.alive.read_text()
        time.sleep(1)
        assert agent.alive.read_text() == before
        release.set()
        assert [each.result().status for each in asking] == [200, 200]
    wait_until(lambda: agent.alive.read_text() != before)


def test_no_guest_can_pass_for_the_probe(agent: Agent, service: RecordingService) -> None:
    assert agent.ask(headers={"X-Netfw-Probe": ""}).status == 200
    assert agent.ask(headers={"X-Netfw-Probe": "x" * 32}).status == 200
    assert len(service.seen) == 2


@pytest.mark.spec("MD-09")
def test_the_state_of_the_agent_is_reported(agent: Agent, service: RecordingService) -> None:
    status_file = Path(f"{agent.directory}/said.host1.metadata.json")
    agent.ask()

    def reported() -> bool:
        found = json.loads(status_file.read_text())["agents"].get("netfw-metadata-agent")
        return bool(found) and found["counts"]["requests"] >= 1

    wait_until(status_file.exists)
    wait_until(reported)
    found = json.loads(status_file.read_text())["agents"]["netfw-metadata-agent"]
    assert found["agent_type"] == "Metadata agent"
    assert found["configurations"]["nova_metadata_port"] == service.port


@pytest.mark.spec("MD-05")
def test_changed_topology_is_used_after_the_cache_ttl(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_cache_seconds": 0.3})
    agent.start()
    assert agent.ask().status == 200
    text = agent.topology.read_text()
    agent.topology.write_text(text.replace("fixed_ips: [10.0.0.10]", "fixed_ips: [10.0.9.9]"))
    wait_until(lambda: agent.ask().status == 404)
    assert agent.ask(of="10.0.9.9").status == 200


def test_instances_get_503_before_the_source_answers(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port)
    text = agent.topology.read_text()
    agent.topology.write_text("networks: 7\n")
    agent.spawn()
    wait_until(agent.socket.exists)
    got = wait_until(lambda: _try(agent))
    assert got == 503
    agent.topology.write_text(text)
    wait_until(lambda: _try(agent) == 200)
    assert "Traceback" not in agent.log.read_text()


def _try(agent: Agent) -> int:
    try:
        return agent.ask().status
    except (OSError, http.client.HTTPException):
        return 0


@pytest.mark.spec("MD-11")
def test_new_secret_is_applied_and_never_exposed(agent: Agent, service: RecordingService) -> None:
    assert agent.ask().status == 200
    agent.configure(metadata_proxy_shared_secret="another-secret")
    agent.hang_up()
    assert agent.ask().status == 200
    one, two = (each.values("X-Instance-ID-Signature") for each in service.seen)
    assert one != two
    text = agent.log.read_text() + agent.status_file.read_text()
    for path in agent.directory.glob("said*"):
        text += path.read_text()
    assert SECRET not in text
    assert "another-secret" not in text
    assert one[0] not in text


@pytest.mark.nightly
@pytest.mark.spec("MD-05", "MD-11")
def test_another_service_and_another_memory_are_taken_over(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_cache_seconds": 300})
    agent.start()
    for _ in range(3):
        assert agent.ask().status == 200
    agent.wait(lambda status: status["counts"]["requests"] == 3)
    assert agent.status()["counts"]["port_lookups"] == 1
    with RecordingService() as other:
        agent.configure(nova_metadata_port=other.port, metadata_cache_seconds=0)
        agent.hang_up()
        for _ in range(3):
            assert agent.ask(of=address(FIRST + 1)).status == 200
        assert (len(service.seen), len(other.seen)) == (3, 3)
    agent.wait(lambda status: status["counts"]["requests"] == 6)
    assert agent.status()["counts"]["port_lookups"] == 4


def test_empty_secret_causes_a_warning(make_agent: Make, service: RecordingService) -> None:
    agent = make_agent(service.port, metadata={"metadata_proxy_shared_secret": ""})
    agent.start()
    assert "impersonate any instance" in agent.status()["warnings"]["metadata_proxy_shared_secret"]
    assert "impersonate any instance" in agent.log.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metadata_proxy_socket_mode": "everybody"}, "metadata_proxy_socket_mode"),
        ({"metadata_proxy_user": "no-such-user"}, "metadata_proxy_user"),
        ({"nova_metadata_protocol": "https", "auth_ca_cert": "/nonexistent"}, "auth_ca_cert"),
        ({"metadata_proxy_socket": "/dev/null/x"}, "metadata_proxy_socket"),
        ({"metadata_worker": 3}, "metadata_workers"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(
    make_agent: Make, options: dict[str, object], message: str
) -> None:
    agent = make_agent(1, metadata=options)
    assert agent.spawn().wait(60) == 2
    text = agent.log.read_text()
    assert message in text
    assert "Traceback" not in text


def test_restart_costs_at_most_one_retry(agent: Agent, service: RecordingService) -> None:
    for end in (agent.stop, agent.kill, agent.kill):
        end()
        agent.start()
        assert agent.ask(network=NETWORK, of=f"10.0.0.{FIRST}").status == 200
