"""The files of keepalived."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from netfw.model.values.ids import RouterId
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.plan.names import config_path
from netfw_drivers.linux_router.runtime.daemon_runner import RouterProcesses
from netfw_drivers.linux_router.runtime.keepalived_runner import KeepalivedRunner

ROUTER = RouterId(UUID(int=1))


def test_configuration_with_the_password_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    settings = RouterSettings(directory=tmp_path)
    processes = RouterProcesses(settings, lambda event: None)
    try:
        KeepalivedRunner(settings, processes).write(ROUTER, "auth_pass secret\n")
    finally:
        processes.close()
    path = config_path(tmp_path, "keepalived", ROUTER)
    assert path.stat().st_mode & 0o777 == 0o600
