"""The thread that waits for the ends of processes, while it is closed."""

import os
import threading

import pytest

from netfw.errors import BackendUnavailable
from netfw.linux.process.watcher import Watcher
from tests.thread_limit import no_threads


def test_close_during_a_new_timer_leaves_no_write_to_a_closed_file(monkeypatch):
    watcher, real = Watcher(), os.eventfd_write
    closing = threading.Thread(target=watcher.close)

    def write(descriptor: int, value: int) -> None:
        if closing.ident is None:
            closing.start()
            closing.join(0.3)
        real(descriptor, value)

    monkeypatch.setattr(os, "eventfd_write", write)
    watcher.call_later(60.0, lambda: None)
    closing.join(60)
    assert not closing.is_alive()
    watcher.forget(0)


def test_watcher_without_a_thread_leaves_no_descriptor_open():
    before = set(os.listdir("/proc/self/fd"))
    with no_threads(), pytest.raises(BackendUnavailable, match="watched"):
        Watcher()
    assert not set(os.listdir("/proc/self/fd")) - before
