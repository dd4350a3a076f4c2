"""What is loaded when, asked of a fresh interpreter."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.spec("DRV-20")
def test_a_driver_can_be_made_without_loading_the_library_of_the_switch():
    program = """
import sys
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
options = {option.dest: option.default for option in OvsInterfaceDriver.OPTIONS}
OvsInterfaceDriver.from_conf(options, LocalHostResources()).describe()
print(sorted({"ovs", "ovsdbapp", "eventlet", "os_ken"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


def test_the_library_of_the_switch_is_loaded_without_eventlet():
    program = """
import sys
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.errors import BackendUnavailable
try:
    Ovsdb("unix:/nonexistent/db.sock", timeout=0.1).snapshot()
except BackendUnavailable as error:
    print(error)
print("ovsdbapp" in sys.modules, "eventlet" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=True, capture_output=True, text=True
    )
    assert "is ovsdb-server running" in done.stdout
    assert done.stdout.endswith("True False\n")
