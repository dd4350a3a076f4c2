"""os-ken is imported by those who use it, and by who has to name a refusal."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from netfw import flows as of
from netfw.errors import OperationRefused
from netfw.ovs.openflow import FlowMirror, OpenFlow, group_of

client = OpenFlow(sys.argv[1])
mirror = FlowMirror(client)
mirror.wait_current()

def put(*actions):
    mirror.converge({1: group_of(of.Flow(table=1, priority=1, match=of.tcp(), actions=actions))})

put(of.limited(of.PacketLimit(5, 10, 10)), of.output(1))
client.flows(), client.meters(), client.datapath_id(), mirror.audit()
mirror.wait_current()
print("os_ken" in sys.modules)
try:
    put(of.Meter(9))
except OperationRefused:
    print("os_ken" in sys.modules)
client.close()
"""


@pytest.mark.spec("DRV-49")
def test_os_ken_is_not_imported_without_a_refusal(bridge: str) -> None:
    argv = [sys.executable, "-c", PROGRAM, bridge]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
