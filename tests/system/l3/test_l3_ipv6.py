"""IPv6 from the API to an instance that configures itself by router advertisements."""

from __future__ import annotations

import json
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.environment import is_reached
from tests.system.l3.spare_router import spare_router, status

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


def preferred_addresses(instance: Instance) -> set[str]:
    """Return the global addresses from advertisements that new connections may use."""
    (link,) = json.loads(instance.run(["ip", "-j", "-6", "address", "show", "dev", "eth0"]))
    return {
        each["local"]
        for each in link["addr_info"]
        if each["scope"] == "global" and each["preferred_life_time"]
    }


def default_routes(instance: Instance) -> list[Any]:
    found: list[Any] = json.loads(instance.run(["ip", "-j", "-6", "route", "show", "default"]))
    return [each for each in found if each["protocol"] == "ra"]


@pytest.mark.spec("L3-26", "L3-22")
def test_an_instance_gets_and_loses_its_address_by_advertisements(edge: EdgeSite) -> None:
    """Check it with a router that is set down: its ports stay wired, so that it can withdraw."""
    with edge.undisturbed(), spare_router(edge) as spare:
        host, segment = edge.hosts[0], spare.segment
        port = edge.network.create_port(
            network_id=segment.network.id, name="slaac", binding_host_id=host.host.name,
            port_security_enabled=False, security_groups=[],
        )  # fmt: skip
        address = next(e["ip_address"] for e in port.fixed_ips if ":" in e["ip_address"])
        instance = host.plug_port(port, f"auto{port.id[:4]}", addressed=False)
        instance.configure([])
        wait_until(lambda: preferred_addresses(instance) == {address})
        wait_until(lambda: default_routes(instance))
        wait_until(lambda: is_reached(instance, segment.v6.gateway_ip))
        edge.network.update_router(spare.router, is_admin_state_up=False)
        wait_until(lambda: not preferred_addresses(instance))
        wait_until(lambda: not default_routes(instance))
        wait_until(lambda: status(edge, spare.router) == "DOWN")
        edge.network.update_router(spare.router, is_admin_state_up=True)
        wait_until(lambda: preferred_addresses(instance) == {address})
        edge.network.delete_port(port)
        host.unplug_port(port)
