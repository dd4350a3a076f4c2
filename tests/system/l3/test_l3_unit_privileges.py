"""Agents serve metadata and routers with no more privileges than their systemd units give."""

from __future__ import annotations

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import fetch, file_site, is_reached, stays_reached
from tests.system.unit_privileges import bounding_set, capabilities, service_section

pytestmark = pytest.mark.timeout(300)

NUMBERS = {
    "kill": 5,
    "setgid": 6,
    "setuid": 7,
    "net_bind_service": 10,
    "net_broadcast": 11,
    "net_admin": 12,
    "net_raw": 13,
    "sys_ptrace": 19,
    "sys_admin": 21,
}
"""Numbers of capabilities, from linux/capability.h."""


def mask(program: str) -> int:
    return sum(1 << NUMBERS[name] for name in capabilities(program))


@pytest.mark.spec("DRV-48")
@pytest.mark.usefixtures("unit_privileges")
def test_router_and_metadata_are_served_with_the_capabilities_of_the_units() -> None:
    sandbox.require()
    with file_site() as site:
        for host in site.hosts.values():
            for agent, kind in zip(host.agents, ("ovs", "l3", "metadata"), strict=True):
                assert bounding_set(agent.pid) == mask(f"netfw-{kind}-agent")
        web, world = site.boot("web1", "10.0.1.1"), site.boot("world")
        wait_until(lambda: is_reached(web, "203.0.113.1"))
        wait_until(lambda: is_reached(world, "203.0.113.100"))
        wait_until(lambda: fetch(web).startswith("vm-web1 10.0.1.11"), lambda: fetch(web))
        router = site.hosts["host2"].serving
        router.kill()
        router.start()  # it adopts processes of other users
        assert stays_reached(world, "203.0.113.100")
        assert fetch(web).startswith("vm-web1 10.0.1.11")


def test_server_and_metadata_agent_are_no_root_and_have_no_capability() -> None:
    for program in ("netfw-server", "netfw-metadata-agent"):
        assert capabilities(program) == frozenset()
        service = service_section(program)
        assert service["User"] not in ("", "root", "0")
        assert service["ProtectSystem"] == "strict"
        assert service["NoNewPrivileges"] == "yes"
