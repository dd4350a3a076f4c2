"""What a lab leaves on the machine: nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from netfw.testing.lab.lab import Lab
from netfw.testing.lab.namespaces import CommandFailed
from netfw.testing.lab.wait import wait_until
from tests.lab.testing.lab.plugs import plug

pytestmark = pytest.mark.spec("DRV-32")


def test_nothing_of_a_lab_is_left_when_it_is_closed() -> None:
    before = _traces()
    with pytest.raises(ZeroDivisionError):
        _use_a_lab_and_fail()
    # Process 1 of the sandbox reaps the orphans of the lab, a moment after they have ended.
    wait_until(lambda: _processes() == before["processes"], "the end of the lab's processes")
    assert _traces() == before


def _use_a_lab_and_fail() -> None:
    with Lab(bridges=["br-int"]) as lab:
        host = lab.hosts["host1"]
        host.instance("vm1", plug(1)).spawn(["sleep", "1000"])
        host.run(["ip", "netns", "exec", "vm1", "sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
        assert len(host.namespaces.processes()) == 4
        _ = 1 / 0


def test_nothing_is_left_of_a_lab_that_could_not_start() -> None:
    before = _traces()
    with pytest.raises(CommandFailed, match="br-int"):
        Lab(bridges=["br-int", "br-int"]).__enter__()
    assert _traces() == before


def _traces() -> dict[str, object]:
    return {
        "run": sorted(os.listdir("/run")),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "devices": socket.if_nameindex(),
        "processes": _processes(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def _processes() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


FIRST_NAMESPACE = """
import os, subprocess
from pathlib import Path
from netfw.linux import netns
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.namespaces import KINDS, NamespaceContext
from netfw.testing.lab.openvswitch import PrivateOvs

own = {kind: os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY) for kind in KINDS}
Instance("first", NamespaceContext(own), PrivateOvs(Path("/run/ovs"))).open()
netns.create("second")
subprocess.run(["ip", "netns", "delete", "first"], check=True)
assert netns.names() == {"second"}, netns.names()
"""


def test_an_instance_that_is_the_first_namespace_of_its_host_can_be_deleted():
    alone = 'mount -t tmpfs none /run && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "sh", "-c", alone, sys.executable, FIRST_NAMESPACE]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
