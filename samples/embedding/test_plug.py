import subprocess
import sys
from pathlib import Path

import pytest

from netfw.testing.lab.openvswitch import PrivateOvs

PROGRAM = Path(__file__).with_name("plug.py")


@pytest.mark.spec("DRV-20")
def test_the_program_plugs_plans_and_cleans_up(ovs: PrivateOvs) -> None:
    ovs.add_bridge("br-a")
    for _ in range(2):  # twice: the program cleans up
        argv = [sys.executable, str(PROGRAM), ovs.remote, "br-a"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "add port tap-web to br-a type=internal" in done.stdout
        assert "tap-db fa:16:3e:00:00:02 is port" in done.stdout
        assert "Second plan: nothing to do" in done.stdout
        assert "Kept: tap-web" in done.stdout
        assert ovs.vsctl("list-ports", "br-a") == ""
