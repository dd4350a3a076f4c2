"""The monitor of leases on a machine that refuses threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from netfw.errors import BackendUnavailable
from netfw.model.values.ids import RouterId
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.runtime import lease_monitor
from netfw_drivers.linux_router.runtime.lease_monitor import LeaseMonitor
from tests.thread_limit import no_threads

ROUTER = RouterId(UUID(int=1))


def test_leases_are_read_later_if_the_thread_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[object] = []
    monkeypatch.setattr(lease_monitor, "_INTERVAL", 0.02)
    monitor = LeaseMonitor(cast(Any, None))
    monkeypatch.setattr(monitor, "_report", lambda part, watched: reports.append(part))
    client: Any = "client"
    with no_threads(), pytest.raises(BackendUnavailable):
        monitor.watch(ROUTER, client, tmp_path, is_shared=False)
    monitor.watch(ROUTER, client, tmp_path, is_shared=False)
    try:
        wait_until(lambda: ROUTER in reports, "its leases are read")
    finally:
        monitor.close()
