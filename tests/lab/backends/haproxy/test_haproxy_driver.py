"""The driver among restarts, neighbours and mishaps."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from netfw.drivers.values.events import FeedLost, KeysChanged, ProcessDied
from netfw.errors import BackendBroken, BackendLocked, ConfigError, OperationRefused
from netfw.linux.netns import run_in
from netfw.plan import Update
from netfw.testing.conformance.metadata.requests import request
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.haproxy.environment import ONE_USER, HaproxyEnvironment, status

pytestmark = pytest.mark.spec("MD-01", "MD-02", "DHCP-61")


CAPABILITIES = ("CapPrm:", "CapEff:")
FORK_WITH_LIMIT = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.setresuid(*[int(sys.argv[1])] * 3)
try:
    os._exit(0) if os.fork() == 0 else os.wait()
    print("it forked")
except OSError as error:
    print(type(error).__name__)
"""


def put(env: HaproxyEnvironment, driver) -> int:
    outcome = driver.converge(Update(put={env.key: env.proxy}))
    assert outcome.ok, outcome
    (pid,) = env.pids()
    return pid


def test_the_next_agent_takes_over_what_runs_and_restarts_it_for_another_option(env):
    first = env.driver()
    pid = put(env, first)
    first.close()
    second = env.driver()
    assert put(env, second) == pid
    second.close()
    assert put(env, env.driver(metadata_proxy_maxconn=99)) != pid
    assert status(env.ask()) == b"200"


def test_one_that_was_started_and_not_recorded_is_taken_over(env):
    # This is the state after an agent was killed between the two.
    first = env.driver()
    pid = put(env, first)
    first.close()
    (record,) = env.directory.rglob("*.json")
    record.unlink()
    second = env.driver()
    assert second.present() == {env.key}
    update = Update(put={env.key: env.proxy}, complete=True)
    assert not second.plan(update, second.observe(None))
    assert put(env, second) == pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: env.pids() - {pid} and status(env.ask()) == b"200")


def test_two_agents_with_directories_of_their_own_leave_each_other_alone(env):
    pid = put(env, env.driver())
    other = env.driver(metadata_proxy_confs=str(env.directory / "others"))
    assert other.present() == frozenset()
    assert other.gc(()).ok
    assert env.pids() == {pid}


def test_a_second_driver_touches_nothing_until_the_first_has_ended(env):
    first, second = env.driver(), env.driver(metadata_proxy_maxconn=99)
    events: queue.Queue = queue.Queue()
    second.watch(events.put)
    pid = put(env, first)
    for update in (Update(put={env.key: env.proxy}), Update(complete=True)):
        assert second.plan(update, second.observe(None)), "who only looks needs no right"
        with pytest.raises(BackendLocked, match=rf"process {os.getpid()} .*metadata_proxy_confs"):
            second.converge(update)
    assert second.present() == {env.key}
    assert env.pids() == {pid}
    first.close()
    assert isinstance(events.get(timeout=60), FeedLost)
    assert put(env, second) != pid


def test_what_is_left_of_a_dead_agent_s_dead_proxy_is_removed(env):
    first = env.driver()
    pid = put(env, first)
    first.close()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not env.pids())
    (config,) = env.directory.rglob("*.conf")
    config.unlink()
    (config.parent / f".{config.name}.new").write_text("half")
    (config.parent / "notes of a person.txt").write_text("mine")
    second = env.driver()
    assert second.present() == frozenset()
    second.gc(())
    left = [path for path in (env.directory / "confs").rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"notes of a person.txt", "holder"}


def test_dual_stack_wildcard_listener_is_reported_as_a_conflict(env):
    # The listener is not seen before: only the kernel knows that its socket is for IPv4 too.

    def listen() -> socket.socket:
        return socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True)

    with run_in("meta", listen):
        put = {env.key: evolve(env.proxy, device=None)}
        outcome = env.driver().converge(Update(put=put))
        error = outcome.failed[env.key]
        assert isinstance(error, OperationRefused)
        assert "Address already in use" in str(error)
        assert "169.254.169.254:80" in str(error)
        assert not env.pids()
        assert list((env.directory / "confs").rglob("*.conf")) == []


def test_death_is_fatal_where_the_operator_wants_so(env):
    events: queue.Queue = queue.Queue()
    driver = env.driver(check_child_process_action="exit")
    driver.watch(events.put)
    os.kill(put(env, driver), signal.SIGKILL)
    event = events.get(timeout=60)
    assert isinstance(event, ProcessDied)
    assert (event.keys, event.fatal) == ({env.key}, True)
    assert "was ended by signal 9" in event.reason
    assert not env.pids()


def test_failed_respawn_is_reported(env):
    events: queue.Queue = queue.Queue()
    driver = env.driver()
    driver.watch(events.put)
    pid = put(env, driver)
    (config,) = env.directory.rglob("*.conf")
    config.write_text("global\n    nonsense\n")
    os.kill(pid, signal.SIGKILL)
    died, failed = events.get(timeout=60), events.get(timeout=60)
    assert isinstance(died, ProcessDied)
    assert not died.fatal
    assert isinstance(failed, KeysChanged)
    assert failed.keys == {env.key}
    assert "nonsense" in failed.reason
    put(env, driver)
    assert status(env.ask()) == b"200"


@pytest.mark.spec("MD-11")
@pytest.mark.parametrize("level", ["notice", "info"])
def test_requests_are_logged_to_a_file(env, level):
    log = env.directory / "log"
    driver = env.driver(metadata_proxy_log_file=str(log), metadata_proxy_log_level=level)
    put(env, driver)
    env.ask(request(line=b"GET /fine HTTP/1.1"))
    env.ask(request(line=b"DELETE /wrong HTTP/1.1"))
    wait_until(lambda: "/wrong" in log.read_text())
    assert ("/fine" in log.read_text()) == (level == "info")


@pytest.mark.spec("MD-11")
def test_requests_are_logged_to_syslog(env):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        path = env.directory / "syslog"
        syslog.bind(str(path))
        path.chmod(0o666)
        syslog.settimeout(10)
        put(env, env.driver(metadata_proxy_syslog=str(path), metadata_proxy_log_level="info"))
        env.ask(request(line=b"GET /fine HTTP/1.1"))
        while b"GET /fine" not in (line := syslog.recv(4096)):
            pass
        assert b"netfw-metadata-proxy" in line


@pytest.mark.spec("MD-11")
@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
@pytest.mark.parametrize(
    ("user", "group", "ids"),
    [
        (None, None, None),
        (None, "daemon", None),
        ("haproxy", None, None),
        ("nobody", "daemon", (65534, 1)),
        ("65534", "1", (65534, 1)),
    ],
)
def test_it_runs_as_the_user_that_was_chosen_or_without_privileges(env, user, group, ids):
    pid = put(env, env.driver(metadata_proxy_user=user, metadata_proxy_group=group))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split()[0]: line.split()[1:] for line in lines if line}
    uid, gid = (int(found[name][1]) for name in ("Uid:", "Gid:"))
    assert (uid, gid) == ids if ids else uid != 0 and gid != 0
    assert found["Groups:"] == []
    assert status(env.ask()) == b"200"


@pytest.mark.spec("MD-11")
@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
def test_it_has_no_capability_and_cannot_start_processes(env):
    pid = put(env, env.driver())
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {line.split()[0]: line.split()[1] for line in lines if line.startswith(CAPABILITIES)}
    masks = {name: int(mask, 16) for name, mask in fields.items()}
    assert masks == dict.fromkeys(CAPABILITIES, 0)
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    (processes,) = (line.split()[2:4] for line in limits if line.startswith("Max processes"))
    assert processes == ["0", "0"]
    uid = Path(f"/proc/{pid}").stat().st_uid
    attempt = (sys.executable, "-c", FORK_WITH_LIMIT, str(uid))
    answer = subprocess.run(attempt, check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout == "BlockingIOError\n", "what that limit means for such a user"


def test_a_user_that_does_not_exist_is_said(env):
    driver = env.driver(metadata_proxy_user="nobody-of-that-name")
    with pytest.raises(ConfigError, match="there is no user 'nobody-of-that-name' here"):
        driver.converge(Update(put={env.key: env.proxy}))
    assert any("nobody-of-that-name" in fault for fault in driver.problems())


def test_a_missing_haproxy_is_said(env, monkeypatch):
    monkeypatch.setenv("PATH", str(env.directory))
    driver = env.driver()
    advice = r"install it \(Debian: apt install haproxy\)"
    with pytest.raises(BackendBroken, match=advice):
        driver.converge(Update(put={env.key: env.proxy}))
    assert any("apt install haproxy" in fault for fault in driver.problems())


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
def test_a_socket_that_the_proxies_cannot_reach_is_said(env):
    driver = env.driver()
    assert driver.problems() == ()
    env.socket_path.chmod(0o600)
    assert any(f"may not write to {env.socket_path}" in fault for fault in driver.problems())
    env.directory.chmod(0o700)
    assert any(f"cannot pass {env.directory}" in fault for fault in driver.problems())
    assert env.driver(metadata_proxy_user="root").problems() == ()
