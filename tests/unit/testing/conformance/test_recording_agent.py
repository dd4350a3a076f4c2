"""The agent that records the requests of metadata proxies."""

from __future__ import annotations

import socket
from pathlib import Path

from netfw.testing.conformance.metadata.lab_environment import no_files_left
from netfw.testing.conformance.metadata.recording_agent import ANSWER, RecordingAgent
from netfw.testing.lab.wait import wait_until


def request(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return connection.recv(1000)


def test_agent_that_lacked_a_descriptor_serves_again(tmp_path: Path) -> None:
    with RecordingAgent(tmp_path / "agent") as agent, socket.socket(socket.AF_UNIX) as waiting:
        with no_files_left():
            waiting.connect(str(agent.path))
            wait_until(lambda: agent.shortages)
        assert request(agent.path) == ANSWER
