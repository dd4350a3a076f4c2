"""Connections that a proxy accepts while it is cut."""

from __future__ import annotations

import socket
from pathlib import Path

from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw.testing.lab.wait import TIMEOUT, wait_until


def test_a_connection_that_is_accepted_during_the_cut_is_closed(tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    with (
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX) as first,
        socket.socket(socket.AF_UNIX) as client,
    ):
        server.bind(there)
        server.listen(0)
        first.connect(there)  # the queue is full: the proxy waits for its connection
        proxy = FaultProxy(here, there)
        client.settimeout(TIMEOUT)
        client.connect(here)
        wait_until(lambda: proxy.accepted == 1)
        proxy.cut()
        ends = [server.accept()[0] for _ in range(2)]
        assert client.recv(1) == b""
        for end in ends:
            end.close()
        proxy.close()
