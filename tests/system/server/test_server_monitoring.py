"""What monitors see of a server: the watchdog of its service manager, and its metrics."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import TIMEOUT

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    sandbox.require()


@pytest.mark.spec("DRV-43", "DRV-48")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_server_reports_to_the_watchdog_that_it_is_alive(tmp_path: Path, workers: str) -> None:
    server = PrivateNetfw(tmp_path / "server", arguments=["--workers", workers])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT)
        server.environment = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "2000000",
        }
        with server:
            signs = [manager.recv(4096).decode() for _ in range(4)]
    assert signs == ["READY=1", *["WATCHDOG=1"] * 3]
