"""The thread that writes the packet log: bounded lines, rotated files, a path that is wrong."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netfw.errors import BackendUnavailable
from netfw.model.packet_log import LogEvent
from netfw.model.security_group import Direction
from netfw.model.values.protocol import TCP
from netfw.ovs.openflow.packets import PacketIn
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.packet_log.plan.log_subject import encode_subject, make_subject
from netfw_drivers.ovs.packet_log.writer import LogFile, PacketLogWriter
from tests.thread_limit import threads_left
from tests.unit.backends.ovs.packet_log.samples import PORT, ipv4, log, tcp

pytestmark = pytest.mark.spec("FW-14")

SUBJECT = make_subject(PORT, [log()], (), LogEvent.DROP, Direction.INGRESS)
PACKET = PacketIn(1, ipv4(TCP, tcp(22)), encode_subject(SUBJECT), {7: 1})
LINES = 5


@contextmanager
def writing(directory: Path, path: Path, size: int = 1 << 20) -> Iterator[PacketLogWriter]:
    """Yield a writer whose switch does not answer; packets are given to it directly."""
    target = f"unix:{directory}/no-switch"
    writer = PacketLogWriter(target, LogFile(str(path), size, 2), timeout=1.0, lines=LINES)
    try:
        yield writer
    finally:
        writer.close()


def read(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_lines_in_a_second_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    with writing(tmp_path, path) as writer:
        began = time.monotonic()
        for _ in range(1000):
            writer.receive(PACKET)
        elapsed = time.monotonic() - began
        wait_until(lambda: read(path))
        assert len(read(path)) <= LINES * (elapsed + 2)

        def is_counted() -> bool:
            writer.receive(PACKET)
            return any("packets were not logged: too many at once" in each for each in read(path))

        wait_until(is_counted)
    assert any(f"port={PORT.id}" in each for each in read(path))


def test_files_are_rotated(tmp_path: Path) -> None:
    path = tmp_path / "packets.log"
    with writing(tmp_path, path, size=1024) as writer:

        def is_rotated() -> bool:
            writer.receive(PACKET)
            return path.with_suffix(".log.2").exists()

        wait_until(is_rotated)
        wait_until(lambda: is_rotated() and len(read(path)) > 1)
    assert not path.with_suffix(".log.3").exists()
    assert path.stat().st_size <= 1024


def test_a_path_that_cannot_be_written_leaves_the_agents_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with writing(tmp_path, tmp_path / "missing" / "packets.log") as writer:
        writer.receive(PACKET)
        wait_until(lambda: f"port={PORT.id}" in caplog.text)
    assert "the agent's own log has the lines" in caplog.text


def test_writer_without_a_thread_leaves_no_connection_to_the_switch(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with (
        threads_left(1),
        pytest.raises(BackendUnavailable, match="no-switch: can't start new thread"),
        writing(tmp_path, tmp_path / "packets.log"),
    ):
        pass
    assert set(threading.enumerate()) <= threads
