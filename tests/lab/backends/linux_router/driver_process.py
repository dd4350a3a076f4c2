"""A process of its own with a driver that converges the same updates for ever, to be killed."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry import loader
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw_drivers.linux_router.driver import LinuxRouterDriver

READY = "ready"


def main(job: Path) -> None:
    """Read a job, say that it has begun, and work on it until killed."""
    interface, directory, updates = pickle.loads(job.read_bytes())
    host = LocalHostResources()
    host.add(loader.create(InterfaceDriver, "openvswitch", interface, host))
    options = {option.dest: option.default for option in LinuxRouterDriver.OPTIONS}
    driver = LinuxRouterDriver.from_conf({**options, "router_confs": directory}, host)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    while True:
        for update in updates:
            driver.converge(update)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
