"""The health check of the metadata agent."""

import errno
import os
import socket

from netfw.agents.metadata.health_file import HealthProbe
from netfw.testing.lab.wait import wait_until


def test_probe_goes_on_after_a_lack_of_descriptors(tmp_path, monkeypatch):
    attempts = []

    def lacking(*_: object) -> socket.socket:
        attempts.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", lacking)
    probe = HealthProbe(tmp_path / "health", tmp_path / "socket", lambda: 0.01)
    probe.start()
    try:
        wait_until(lambda: len(attempts) > 1, "another probe")
        assert "Too many open files" in probe.problem
    finally:
        probe.close()
