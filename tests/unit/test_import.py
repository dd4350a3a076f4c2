import subprocess
import sys

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

HEAVY = ("ovs", "ovsdbapp", "os_ken", "pyroute2", "sqlalchemy", "eventlet", "oslo_config", "falcon")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True
    ).stdout.decode()


@pytest.mark.spec("DRV-23")
def test_importing_netfw_is_fast_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, time; start = time.process_time(); import netfw;"
        "print(time.process_time() - start, *sys.modules)"
    )
    seconds, *modules = run(code).split()
    assert float(seconds) < 0.1
    assert not {name.partition(".")[0] for name in modules} & set(HEAVY)


@pytest.mark.spec("DRV-23")
def test_the_contracts_load_nothing_heavy_either() -> None:
    code = (
        "import sys; import netfw.drivers.interface, netfw.model, netfw.plan; print(*sys.modules)"
    )
    assert not {name.partition(".")[0] for name in run(code).split()} & set(HEAVY)


@pytest.mark.spec("DRV-20")
def test_importing_starts_no_thread_and_leaves_logging_alone() -> None:
    code = (
        "import threading, logging, netfw.drivers.registry.loader, netfw.conf.loader;"
        "import netfw.cli.runtime.daemon;"
        "print(threading.active_count(), logging.getLogger().handlers)"
    )
    assert run(code).strip() == "1 []"
