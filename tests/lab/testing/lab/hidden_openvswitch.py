"""A machine on which Open vSwitch is not installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from netfw.testing.lab.prerequisites import TUN, search_path

PROGRAMS = "ovs-vsctl", "ovs-appctl", "ovs-ofctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd"


@contextmanager
def hidden_openvswitch() -> Iterator[None]:
    """Hide the programs of Open vSwitch, and the device that it needs, in this sandbox."""
    found = [shutil.which(name, path=search_path()) for name in PROGRAMS]
    with ExitStack() as stack:
        for path in (*(path for path in found if path is not None), TUN):
            subprocess.run(["mount", "--bind", "/dev/null", path], check=True)
            stack.callback(subprocess.run, ["umount", path], check=True)
        yield
