"""An interface driver of each way of plugging, on a switch of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.linux import netns
from netfw.linux.service_netns import ServiceNetnsExecutor
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.nightly import nightly


@pytest.fixture
def ovsdb(ovs: PrivateOvs) -> Iterator[Ovsdb]:
    with Ovsdb(ovs.remote, timeout=20) as ovsdb:
        yield ovsdb
    for name in netns.names():
        netns.delete(name)


@pytest.fixture(params=["internal", nightly("veth")])
def interface(
    request: pytest.FixtureRequest, ovs: PrivateOvs, ovsdb: Ovsdb
) -> Iterator[OvsInterfaceDriver]:
    ovs.add_bridge("br-int")
    driver = OvsInterfaceDriver(ovsdb, use_veth=request.param == "veth")
    yield driver
    driver.close()


@pytest.fixture
def stations(interface: OvsInterfaceDriver) -> ServiceNetnsExecutor:
    return ServiceNetnsExecutor(interface)
