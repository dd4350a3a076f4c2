"""Users of the host at the agent's socket: a request names any instance, so only proxies may send
one."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from netfw.cli.agents import metadata
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.metadata.environment import FIRST, NETWORK, Agent, address
from tests.lab.agents.metadata.recording_service import RecordingService
from tests.lab.other_users import run_as

ONE_USER = Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
pytestmark = [
    pytest.mark.spec("MD-11"),
    pytest.mark.skipif(ONE_USER, reason="this user namespace has one user"),
]

Make = Callable[..., Agent]
STRANGER = 54321
HEAD = (
    f"GET /latest/user-data HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: close\r\n"
    f"X-Forwarded-For: {address(FIRST)}\r\nX-Neutron-Network-ID: {NETWORK}\r\n\r\n"
)
"""A request in the name of an instance, as every process can send one."""


def request_as(user: int, agent: Agent, group: int = STRANGER) -> str:
    """Return the response to a process of *user*, without the protocol's name."""
    directory = os.open(agent.socket.parent, os.O_PATH)

    def request() -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(f"/proc/self/fd/{directory}/{agent.socket.name}")
            client.sendall(HEAD.encode())
            return b"".join(iter(lambda: client.recv(65_536), b""))

    try:
        return run_as(user, group, request).decode().removeprefix("HTTP/1.1 ")
    finally:
        os.close(directory)


def can_run_agents(user: int) -> bool:
    """Return whether the user can read the project, which may be in root's home."""

    def find() -> bytes:
        return b"yes" if os.access(sys.executable, os.X_OK) and os.access(main, os.R_OK) else b""

    main = metadata.__file__
    return run_as(user, user, find) == b"yes"


@pytest.mark.parametrize("options", [{}, {"metadata_proxy_user": "nobody"}])
def test_only_users_of_proxies_get_metadata(
    make_agent: Make, service: RecordingService, options: dict[str, str]
) -> None:
    agent = make_agent(service.port, metadata=options)
    agent.start()
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o666
    refused = request_as(STRANGER, agent)
    assert refused.startswith("403 "), refused
    assert f"user {STRANGER} may not" in refused
    assert service.seen == []
    proxy = pwd.getpwnam(options.get("metadata_proxy_user", "haproxy"))
    for user in (proxy.pw_uid, os.geteuid()):
        assert request_as(user, agent, proxy.pw_gid).startswith("200 ")
    agent.wait(lambda status: status["counts"].get("status_403") == 1)


def test_mode_that_an_operator_chose_decides_alone(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_proxy_socket_mode": "all"})
    agent.start()
    assert request_as(STRANGER, agent).startswith("200 ")


def test_agent_without_privileges_serves_in_a_directory_of_its_own(
    service: RecordingService,
) -> None:
    # It needs no other directory, so that it shares none with agents that run as root.
    if not can_run_agents(STRANGER):
        pytest.skip("other users cannot read this installation")
    state = Path(tempfile.mkdtemp(prefix="agent-", dir="/run"))
    state.chmod(0o755)
    agent = Agent(state, service.port)
    own = state / "metadata"
    own.mkdir()
    os.chown(own, STRANGER, STRANGER)
    for option in ("metadata_proxy_socket", "liveness_file"):
        del agent.options["metadata"][option]
    del agent.options["agent"]["status_file"], agent.options["file"]["status_path"]
    agent.configure()
    (state / "agent.conf").chmod(0o644)
    command = [sys.executable, "-m", "netfw.cli.agents.metadata", "--config-file"]
    process = subprocess.Popen(
        [*command, str(state / "agent.conf")],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        stderr=subprocess.PIPE,
    )
    agent.socket = own / "proxy"
    try:
        files = [own / f"netfw-metadata-agent.{name}" for name in ("alive", "json")]
        wait_until(lambda: all(map(Path.exists, files)) or process.poll() is not None)
        assert process.poll() is None, process.stderr.read().decode()
        assert agent.ask().status == 200
        assert {path.name for path in state.iterdir() if path.stat().st_uid == STRANGER} == {
            "metadata"
        }
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()
        shutil.rmtree(state)


def test_root_serves_in_no_directory_of_another_user(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port)
    agent.socket.parent.mkdir()
    os.chown(agent.socket.parent, STRANGER, STRANGER)
    process = agent.spawn()
    assert process.wait(60) == 2
    assert "others could change" in agent.log.read_text()
