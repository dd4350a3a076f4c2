"""The driver among restarts, neighbours and mishaps."""

from __future__ import annotations

import os
import queue
import signal
import socket
from pathlib import Path

import pytest
from attrs import evolve

from netfw.drivers.values.events import FeedLost, KeysChanged, ProcessDied
from netfw.errors import BackendBroken, BackendLocked, ConfigError, OperationRefused
from netfw.linux.netns import run_in
from netfw.plan import Update
from netfw.testing.conformance.metadata.requests import request
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.haproxy.environment import ONE_USER, HaproxyPlace, status

pytestmark = pytest.mark.spec("MD-01", "MD-02", "DHCP-61")


def put(place: HaproxyPlace, driver) -> int:
    outcome = driver.converge(Update(put={place.key: place.proxy}))
    assert outcome.ok, outcome
    (pid,) = place.pids()
    return pid


def test_the_next_agent_takes_over_what_runs_and_restarts_it_for_another_option(place):
    first = place.driver()
    pid = put(place, first)
    first.close()
    second = place.driver()
    assert put(place, second) == pid
    second.close()
    assert put(place, place.driver(metadata_proxy_maxconn=99)) != pid
    assert status(place.ask()) == b"200"


def test_one_that_was_started_and_not_recorded_is_taken_over(place):
    """As if the agent had been killed between the two."""
    first = place.driver()
    pid = put(place, first)
    first.close()
    (record,) = place.directory.rglob("*.json")
    record.unlink()
    second = place.driver()
    assert second.present() == {place.key}
    update = Update(put={place.key: place.proxy}, complete=True)
    assert not second.plan(update, second.observe(None))
    assert put(place, second) == pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: place.pids() - {pid} and status(place.ask()) == b"200")


def test_two_agents_with_directories_of_their_own_leave_each_other_alone(place):
    pid = put(place, place.driver())
    other = place.driver(metadata_proxy_confs=str(place.directory / "others"))
    assert other.present() == frozenset()
    assert other.gc(()).ok
    assert place.pids() == {pid}


def test_a_second_driver_touches_nothing_until_the_first_has_ended(place):
    first, second = place.driver(), place.driver(metadata_proxy_maxconn=99)
    events: queue.Queue = queue.Queue()
    second.watch(events.put)
    pid = put(place, first)
    for update in (Update(put={place.key: place.proxy}), Update(complete=True)):
        assert second.plan(update, second.observe(None)), "who only looks needs no right"
        with pytest.raises(BackendLocked, match=rf"process {os.getpid()} .*metadata_proxy_confs"):
            second.converge(update)
    assert second.present() == {place.key}
    assert place.pids() == {pid}
    first.close()
    assert isinstance(events.get(timeout=10), FeedLost)
    assert put(place, second) != pid


def test_what_is_left_of_a_dead_agent_s_dead_proxy_is_removed(place):
    first = place.driver()
    pid = put(place, first)
    first.close()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not place.pids())
    (config,) = place.directory.rglob("*.conf")
    config.unlink()
    (config.parent / f".{config.name}.new").write_text("half")
    (config.parent / "notes of a person.txt").write_text("mine")
    second = place.driver()
    assert second.present() == frozenset()
    second.gc(())
    left = [path for path in (place.directory / "confs").rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"notes of a person.txt", "holder"}


def test_dual_stack_wildcard_listener_is_reported_as_a_conflict(place):
    """He is not seen before: only the kernel knows that his socket is for IPv4 too."""

    def listen() -> socket.socket:
        return socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)

    with run_in("meta", listen):
        put = {place.key: evolve(place.proxy, device=None)}
        outcome = place.driver().converge(Update(put=put))
        error = outcome.failed[place.key]
        assert isinstance(error, OperationRefused)
        assert "Address already in use" in str(error)
        assert "169.254.169.254:80" in str(error)
        assert not place.pids()
        assert list((place.directory / "confs").rglob("*.conf")) == []


def test_death_is_fatal_where_the_operator_wants_so(place):
    events: queue.Queue = queue.Queue()
    driver = place.driver(check_child_process_action="exit")
    driver.watch(events.put)
    os.kill(put(place, driver), signal.SIGKILL)
    event = events.get(timeout=10)
    assert isinstance(event, ProcessDied)
    assert (event.keys, event.fatal) == ({place.key}, True)
    assert "was ended by signal 9" in event.reason
    assert not place.pids()


def test_failed_respawn_is_reported(place):
    events: queue.Queue = queue.Queue()
    driver = place.driver()
    driver.watch(events.put)
    pid = put(place, driver)
    (config,) = place.directory.rglob("*.conf")
    config.write_text("global\n    nonsense\n")
    os.kill(pid, signal.SIGKILL)
    died, failed = events.get(timeout=10), events.get(timeout=10)
    assert isinstance(died, ProcessDied)
    assert not died.fatal
    assert isinstance(failed, KeysChanged)
    assert failed.keys == {place.key}
    assert "nonsense" in failed.reason
    put(place, driver)
    assert status(place.ask()) == b"200"


@pytest.mark.spec("MD-11")
@pytest.mark.parametrize("level", ["notice", "info"])
def test_requests_are_logged_to_a_file(place, level):
    log = place.directory / "log"
    driver = place.driver(metadata_proxy_log_file=str(log), metadata_proxy_log_level=level)
    put(place, driver)
    place.ask(request(line=b"GET /fine HTTP/1.1"))
    place.ask(request(line=b"DELETE /wrong HTTP/1.1"))
    wait_until(lambda: "/wrong" in log.read_text())
    assert ("/fine" in log.read_text()) == (level == "info")


@pytest.mark.spec("MD-11")
def test_requests_are_logged_to_syslog(place):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        path = place.directory / "syslog"
        syslog.bind(str(path))
        path.chmod(0o666)
        syslog.settimeout(10)
        put(place, place.driver(metadata_proxy_syslog=str(path), metadata_proxy_log_level="info"))
        place.ask(request(line=b"GET /fine HTTP/1.1"))
        while b"GET /fine" not in (line := syslog.recv(4096)):
            pass
        assert b"netfw-metadata-proxy" in line


@pytest.mark.spec("MD-11")
@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
@pytest.mark.parametrize(
    ("user", "group", "ids"),
    [("haproxy", None, None), ("nobody", "daemon", (65534, 1)), ("65534", "1", (65534, 1))],
)
def test_it_runs_as_the_user_that_was_chosen(place, user, group, ids):
    pid = put(place, place.driver(metadata_proxy_user=user, metadata_proxy_group=group))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split()[0]: line.split()[1:] for line in lines if line}
    uid, gid = (int(found[name][1]) for name in ("Uid:", "Gid:"))
    assert (uid, gid) == ids if ids else uid != 0 and gid != 0
    assert found["Groups:"] == []
    assert status(place.ask()) == b"200"


def test_a_user_that_does_not_exist_is_said(place):
    driver = place.driver(metadata_proxy_user="nobody-of-that-name")
    with pytest.raises(ConfigError, match="there is no user 'nobody-of-that-name' here"):
        driver.converge(Update(put={place.key: place.proxy}))
    assert any("nobody-of-that-name" in fault for fault in driver.problems())


def test_a_missing_haproxy_is_said(place, monkeypatch):
    monkeypatch.setenv("PATH", str(place.directory))
    driver = place.driver()
    advice = r"install it \(Debian: apt install haproxy\)"
    with pytest.raises(BackendBroken, match=advice):
        driver.converge(Update(put={place.key: place.proxy}))
    assert any("apt install haproxy" in fault for fault in driver.problems())


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
def test_a_socket_that_the_proxies_cannot_reach_is_said(place):
    driver = place.driver()
    assert driver.problems() == ()
    place.socket_path.chmod(0o600)
    assert any(f"may not write to {place.socket_path}" in fault for fault in driver.problems())
    place.directory.chmod(0o700)
    assert any(f"cannot pass {place.directory}" in fault for fault in driver.problems())
    assert place.driver(metadata_proxy_user=None).problems() == ()
