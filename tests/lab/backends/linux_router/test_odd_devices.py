"""A device with an odd name in a router's namespace does not block the router."""

from __future__ import annotations

import os
import subprocess

import pytest

from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.plan import Update
from netfw.testing.conformance.router.factories import Site
from netfw_drivers.linux_router.plan.names import router_namespace
from tests.lab.backends.linux_router.environment import (
    LinuxRouterEnvironment,
    MakeDriver,
    bring,
    plan,
)

pytestmark = pytest.mark.services

ODD = [b"x;y", "été".encode(), b"\xff\xfe", b"-dash"]


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_a_foreign_device_of_any_name_is_removed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, name: bytes
) -> None:
    driver = make_driver()
    bring(driver, site)
    _add_bridge(site, name)
    update = Update(put={site.key: site.state})
    planned = plan(driver, update)
    assert "".join(op.text for stage in planned.stages for op in stage.operations).encode()
    assert driver.converge(update).ok
    with NetlinkClient(router_namespace(site.router)) as network:
        assert os.fsdecode(name) not in network.links()
    assert not plan(driver, update)


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_a_router_with_a_foreign_device_of_any_name_is_removed(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver, site: Site, name: bytes
) -> None:
    driver = make_driver()
    bring(driver, site)
    _add_bridge(site, name)
    assert driver.converge(Update(drop=frozenset({site.key}))).ok
    assert site.key not in driver.present()


def _add_bridge(site: Site, name: bytes) -> None:
    """Add a bridge with an address and a route, as a stranger could."""
    namespace = router_namespace(site.router).encode()
    for words in (
        [b"link", b"add", b"name", name, b"type", b"bridge"],
        [b"link", b"set", b"dev", name, b"up"],
        [b"address", b"add", b"10.77.0.1/24", b"dev", name],
        [b"route", b"add", b"10.78.0.0/24", b"via", b"10.77.0.2", b"dev", name],
    ):
        subprocess.run([b"ip", b"-n", namespace, *words], check=True, capture_output=True)
