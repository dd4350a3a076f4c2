"""What no restart of an agent can do without: its imports, and one snapshot from the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.imports import IMPORT
from netfw.drivers.values.subscription import Service
from netfw.testing.lab.services.server import PrivateNetfw

_PROGRAM = f"""{IMPORT}
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.subscription import Service, Subscription
from netfw.drivers.registry.loader import create
from netfw.drivers.transport import Transport
from netfw.state.rpc import RemoteSource
transport = create(Transport, "socket", {{"connect": sys.argv[2]}}, LocalHostResources())
source = RemoteSource(transport)
subscription = Subscription(sys.argv[3], {{Service[sys.argv[4]]}})
assert sum(len(page.put) for page in source.snapshot(subscription))
source.close()
transport.close()
"""


def import_and_read_snapshot(
    modules: Path, server: PrivateNetfw, host: str, service: Service
) -> None:
    """Run a process that imports *modules* (a file) and reads the snapshot of a service."""
    arguments = [str(modules), f"unix:{server.messages}", host, service.name]
    subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], check=True)
