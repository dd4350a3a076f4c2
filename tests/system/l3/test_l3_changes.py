"""Changes by the API that concern one router, beside one that must not notice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.environment import is_reached
from tests.system.l3.spare_router import await_active, external_address, spare_router, status

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
MARK = "evil"
HOSTILE = [
    f"'; touch /tmp/{MARK}; '",
    f"$(touch /tmp/{MARK})",
    f"COMMIT {MARK} *filter",
    f"../../{MARK}",
    f'" -j ACCEPT {MARK}',
]


def gateway_port(edge: EdgeSite, router: Any) -> Any:
    ports = edge.network.ports(device_id=router.id, device_owner="network:router_gateway")
    return next(iter(ports))


@pytest.mark.spec("L3-02", "L3-22")
def test_a_router_and_its_gateway_are_set_down_and_up(edge: EdgeSite) -> None:
    with edge.undisturbed(), spare_router(edge) as spare:
        await_active(edge, spare.router, spare.floating_ip)
        address = external_address(edge, spare.router)
        wait_until(lambda: is_reached(edge.world, address))
        gateway = gateway_port(edge, spare.router)
        edge.network.update_port(gateway, is_admin_state_up=False)
        wait_until(lambda: not is_reached(edge.world, address))
        edge.network.update_port(gateway, is_admin_state_up=True)
        wait_until(lambda: is_reached(edge.world, address))
        edge.network.update_router(spare.router, is_admin_state_up=False)
        wait_until(lambda: not edge.has_namespace(spare.router))
        wait_until(lambda: status(edge, spare.router) == "DOWN")
        edge.network.update_router(spare.router, is_admin_state_up=True)
        await_active(edge, spare.router, spare.floating_ip)
        wait_until(lambda: is_reached(edge.world, address))


@pytest.mark.spec("L3-30")
def test_hostile_names_reach_no_rule_no_file_and_no_command(edge: EdgeSite) -> None:
    host = edge.router_host.host
    with edge.undisturbed(), spare_router(edge) as spare:
        for text in HOSTILE:
            edge.network.update_router(spare.router, name=text, description=text)
            edge.network.update_ip(spare.floating_ip, description=text)
            for port in edge.network.ports(device_id=spare.router.id):
                edge.network.update_port(port, name=text, description=text)
            edge.network.update_network(spare.segment.network, name=text)
        await_active(edge, spare.router, spare.floating_ip)
        edge.await_converged()
        found = [
            edge.in_router("iptables-save", router=spare.router),
            edge.in_router("ip6tables-save", router=spare.router),
            host.run(["sh", "-c", f"cat $(find {edge.router_confs} -type f)"]),
            host.run(["ps", "-eww", "-o", "args"]),
        ]
        assert not [text for text in found if MARK in text]
        assert not host.call(Path(f"/tmp/{MARK}").exists)
