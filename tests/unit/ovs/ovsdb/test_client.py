"""The client of a database that does not answer."""

import socket
import threading
import time

import pytest

from netfw.errors import BackendUnavailable
from netfw.ovs.ovsdb.client import Ovsdb

THREADS, TIMEOUT = 5, 2.0


@pytest.mark.slow
def test_no_call_waits_for_the_attempts_of_others_to_connect(tmp_path):
    waits = []

    def read() -> None:
        began = time.monotonic()
        try:
            database.switch()
        except BackendUnavailable:
            waits.append(time.monotonic() - began)

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "db.sock"))
        silent.listen(THREADS)
        with Ovsdb(f"unix:{tmp_path / 'db.sock'}", timeout=60.0) as database:
            database.timeout = TIMEOUT
            threads = [threading.Thread(target=read) for _ in range(THREADS)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
    assert len(waits) == THREADS
    assert max(waits) < (THREADS - 1) * TIMEOUT
