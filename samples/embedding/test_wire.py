import subprocess
import sys
from pathlib import Path

import pytest

from netfw.testing.lab.openvswitch import PrivateOvs

PROGRAM = Path(__file__).with_name("wire.py")


@pytest.mark.spec("DRV-20", "DRV-21", "DRV-33")
def test_the_program_wires_plugged_ports(ovs: PrivateOvs) -> None:
    ovs.add_bridge("br-int")
    for number in (1, 2):
        port = f"00000000-0000-0000-0000-{100 + number:012x}"
        ovs.vsctl(
            "add-port", "br-int", f"tap{number}", "--", "set", "Interface", f"tap{number}",
            "type=internal", f"external_ids:iface-id={port}",
        )  # fmt: skip
    argv = [sys.executable, str(PROGRAM), ovs.remote]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for number in (1, 2):
        assert f"port 00000000-0000-0000-0000-{100 + number:012x} is ACTIVE" in done.stdout
    assert "ready: True" in done.stdout
    tags = {ovs.vsctl("get", "Port", f"tap{number}", "tag").strip() for number in (1, 2)}
    assert len(tags) == 1
    assert tags != {"4095"}


def test_the_program_prints_its_usage() -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python wire.py OVSDB")
