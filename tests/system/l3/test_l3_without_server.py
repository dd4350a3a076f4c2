"""The agents of two hosts on one file, without a server: the sample of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.l3.environment import (
    FileSite,
    fetch,
    file_site,
    is_answered,
    is_reached,
    listening,
    stays_reached,
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def site() -> Iterator[FileSite]:
    sandbox.require()
    with file_site() as made:
        yield made


@pytest.mark.spec("L3-01", "L3-11", "L3-28", "L3-80", "MD-03", "MD-10")
def test_router_of_a_file_carries_instances_of_another_host(site: FileSite) -> None:
    web, db = site.boot("web1", "10.0.1.1"), site.boot("db1", "10.0.2.1")
    world = site.boot("world")
    wait_until(lambda: is_reached(web, "10.0.2.11"))
    wait_until(lambda: is_reached(db, "203.0.113.1"))
    wait_until(lambda: is_reached(world, "203.0.113.100"))
    wait_until(lambda: fetch(web).startswith("vm-web1 10.0.1.11"), lambda: fetch(web))
    assert fetch(db).startswith("vm-db1 10.0.2.11")
    with listening(db, 22):
        wait_until(lambda: is_answered(world, "203.0.113.101", 2222))
    router = site.hosts["host2"].serving
    with (
        web.pinging("203.0.113.1", timeout=TIMEOUT) as out,
        world.pinging("203.0.113.100", timeout=TIMEOUT) as inside,
    ):
        router.kill()
        router.start()
        pings = out.stop(), inside.stop()
    assert [ping.lost for ping in pings] == [0, 0]
    site.content["floatingips"], site.content["port_forwardings"] = [], []
    site.write()
    wait_until(lambda: not is_reached(world, "203.0.113.100"))
    assert stays_reached(web, "203.0.113.1")


@pytest.mark.spec("L3-80")
def test_ndp_proxies_of_a_file_work_and_go(site: FileSite) -> None:
    inside = "2001:db8:2::11"
    db, world = site.boot("db1", "10.0.2.1"), site.boot("world")
    site.port("db1")["fixed_ips"].append(inside)
    site.content["routers"][0]["enable_ndp_proxy"] = True
    site.write()
    db.configure([f"{inside}/64"], ["2001:db8:2::1"])
    world.configure(["2001:db8::1/64"])
    world.run(["ip", "-6", "route", "add", "2001:db8:2::/64", "dev", "eth0"])
    wait_until(lambda: is_reached(db, "2001:db8:2::1"))
    assert not is_reached(world, inside)
    site.content["ndp_proxies"] = [{"router": "edge", "port": "db1"}]
    site.write()
    wait_until(lambda: is_reached(world, inside))
    site.content["ndp_proxies"] = []
    site.write()
    wait_until(lambda: not is_reached(world, inside))
