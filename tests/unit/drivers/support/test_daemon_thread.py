"""What needs a thread of its own, on a machine that has none left for a while."""

import os
import threading
from pathlib import Path

import pytest

from netfw.agents.metadata.health_file import HealthProbe
from netfw.errors import BackendUnavailable
from netfw.linux.process.watcher import Watcher
from netfw.ovs.openflow.socket_connection import SocketConnection
from netfw.ovs.osken.event_loop import EventLoop
from netfw.server.scheduling.rescheduler import Rescheduler
from tests.thread_limit import no_threads


def started(made):
    made.start()
    return made


def health_probe():
    return HealthProbe(Path("/nowhere/alive"), Path("/nowhere/socket"), lambda: 0.0)


@pytest.mark.parametrize(
    "start",
    [
        Watcher,
        lambda: SocketConnection("unix:/nowhere"),
        lambda: EventLoop("os-ken", lambda message: None, lambda up: None),
        lambda: started(Rescheduler([])),
        lambda: started(health_probe()),
    ],
    ids=["processes", "openflow", "os-ken", "rescheduler", "health"],
)
def test_refused_thread_is_an_error_to_retry_that_leaves_nothing_open(start):
    files, threads = set(os.listdir("/proc/self/fd")), set(threading.enumerate())
    with no_threads(), pytest.raises(BackendUnavailable, match="can't start new thread; raise the"):
        start()
    assert set(os.listdir("/proc/self/fd")) <= files
    start().close()
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("make", [lambda: Rescheduler([]), health_probe])
def test_what_got_no_thread_can_be_closed(make):
    made = make()
    with no_threads(), pytest.raises(BackendUnavailable):
        made.start()
    made.close()
