"""The private switch: nothing of it outlives it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from netfw.testing.lab.namespaces import CommandFailed
from netfw.testing.lab.openvswitch import PrivateOvs

pytestmark = pytest.mark.spec("DRV-32")


@pytest.mark.parametrize("end", ["stop_switch", "kill_switch", None])
def test_a_stopped_switch_leaves_no_device_and_no_file(end: str | None) -> None:
    before = socket.if_nameindex()
    ovs = PrivateOvs(Path("/run/leaving")).start()
    ovs.add_bridge("br0")
    ovs.vsctl("add-port", "br0", "tap0", "--", "set", "Interface", "tap0", "type=internal")
    assert len(socket.if_nameindex()) > len(before)
    if end:
        getattr(ovs, end)()
    ovs.stop()
    assert socket.if_nameindex() == before
    assert not ovs.directory.exists()


def test_switch_starts_with_the_given_configuration(ovs: PrivateOvs) -> None:
    ovs.stop()
    ovs.start("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev")
    assert "br0" in {name for _, name in socket.if_nameindex()}


def test_refused_command_is_reported_with_its_own_output(ovs: PrivateOvs) -> None:
    with pytest.raises(CommandFailed, match="no bridge named br9"):
        ovs.vsctl("del-br", "br9")


def test_a_killed_database_is_back_with_its_content(ovs: PrivateOvs) -> None:
    ovs.add_bridge("br0")
    ovs.kill_database()
    ovs.start_database()
    assert ovs.vsctl("list-br") == "br0\n"


def test_a_switch_that_stops_leaves_the_devices_of_another_alone() -> None:
    # It has no bridge: in one namespace, a single switch has bridges.
    before = socket.if_nameindex()
    first = PrivateOvs(Path("/run/first")).start()
    second = PrivateOvs(Path("/run/second")).start()
    second.add_bridge("br2")
    devices = socket.if_nameindex()
    assert "br2" in {name for _, name in devices}
    first.stop()
    assert socket.if_nameindex() == devices
    assert second.vsctl("get", "Interface", "br2", "ofport") == "65534\n"
    second.stop()
    assert socket.if_nameindex() == before
