"""A monitor of namespaces that cannot be started."""

import os

import pytest

from netfw.errors import BackendUnavailable
from netfw.linux.ip import multi_netns_monitor
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from tests.thread_limit import no_threads


def test_monitor_without_a_thread_leaves_no_descriptors(monkeypatch):
    monkeypatch.setattr(multi_netns_monitor, "_open_sockets", lambda size: ())
    before = os.listdir("/proc/self/fd")
    with no_threads(), pytest.raises(BackendUnavailable, match="new thread"):
        MultiNetnsMonitor(lambda changed: None)
    assert os.listdir("/proc/self/fd") == before
