"""What is done when the kernel allows no more programs that watch files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from netfw.errors import OperationRefused
from netfw.linux.fs.inotify_limit import allow_more_instances
from netfw.linux.process import Program, Supervisor
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import NetworkId
from netfw.plan import Operation, Stage
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import RunServer, process_key
from netfw_drivers.dnsmasq.runtime.executor import DnsmasqExecutor
from netfw_drivers.dnsmasq.runtime.state_cache import StateCache

SCRIPT = """#!/bin/sh
[ "$(cat {limit})" -ge 4096 ] && exec sleep 60
echo 'dnsmasq: failed to create inotify: Too many open files' >&2
exit 5
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "processes", lambda event: None) as supervisor:
        yield supervisor


@pytest.mark.parametrize("may", [True, False])
def test_limit_is_raised_once_or_the_error_names_the_remedy(
    tmp_path: Path, supervisor: Supervisor, may: bool
) -> None:
    limit = tmp_path / "limit"
    limit.write_text("128\n")
    command = tmp_path / "dnsmasq"
    command.write_text(SCRIPT.format(limit=limit))
    command.chmod(0o755)
    settings = Settings(confs=tmp_path / "dhcp", user="root")
    terms = DriverContext(settings=settings, device_name=lambda port: device_name("tap", port))
    raised = limit if may else tmp_path / "absent"
    workshop = DnsmasqExecutor(
        StateCache(terms), lambda: supervisor, settings, lambda: allow_more_instances(limit=raised)
    )
    network = NetworkId(uuid4())
    step = RunServer(NetworkPaths(settings.confs, network), Program(argv=(str(command),)))
    stage = Stage([Operation("dnsmasq", step.text, frozenset(), step)])
    if may:
        workshop.execute(stage)
        assert supervisor.pid(process_key(network)) is not None
        supervisor.stop(process_key(network))
    else:
        with pytest.raises(OperationRefused, match=r"inotify.*sysctl -w fs\.inotify"):
            workshop.execute(stage)
