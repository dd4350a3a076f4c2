"""Limits of floating IPs and gateways by the agents of two hosts on one file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.datagrams import assert_address_limited, assert_unlimited
from tests.system.l3.environment import SAMPLE, FileSite, is_reached, running

pytestmark = [pytest.mark.timeout(300), pytest.mark.spec("L3-80")]
ROUTER, WORLD, FLOATING = "host2", "203.0.113.1", "203.0.113.100"


@pytest.fixture
def site() -> Iterator[FileSite]:
    sandbox.require()
    with Lab(hosts=2) as lab, temporary_directory("netfw-l3.") as directory:
        made = FileSite(lab, directory, SAMPLE)
        made.content["qos_policies"] = [{"name": "slow", "rules": rules(400)}]
        made.content["floatingips"][0]["qos_policy"] = "slow"
        made.write()
        made.hosts[ROUTER].serving.options["agent"]["extensions"] = "fip_qos,gateway_ip_qos"
        agents = [made.hosts["host1"].wiring, *made.hosts[ROUTER].agents[:2]]
        with running(*agents):
            yield made


def rules(kbps: int) -> list[dict[str, Any]]:
    return [
        {"id": f"0000000{n}-0000-0000-0000-000000000009", "type": "bandwidth_limit",
         "max_kbps": kbps, "direction": direction}
        for n, direction in enumerate(("ingress", "egress"))
    ]  # fmt: skip


def rates(site: FileSite) -> set[str]:
    """Return the directions and rates of all limits that the router has."""
    host = site.hosts[ROUTER].host
    names = [name for name in host.run(["ip", "netns"]).split() if name.startswith("qrouter-")]
    saved = "".join(host.run(["ip", "netns", "exec", n, "iptables-save"]) for n in names)
    words = saved.split()
    named = [words[n + 1] for n, word in enumerate(words) if word == "--hashlimit-name"]
    return {"-".join(name.split("-")[::2]) for name in named}


def test_a_changed_policy_reaches_limits_that_are_in_force(site: FileSite) -> None:
    web, world = site.boot("web1", "10.0.1.1"), site.boot("world")
    db = site.boot("db1", "10.0.2.1")
    wait_until(lambda: is_reached(world, FLOATING))
    wait_until(lambda: rates(site) == {"in-400", "out-400"}, lambda: rates(site))
    assert_address_limited(world, web, FLOATING, 400)
    assert_address_limited(web, world, WORLD, 400)
    with world.pinging(FLOATING, timeout=TIMEOUT) as pings:
        site.content["qos_policies"][0]["rules"] = rules(200)
        site.write()
        wait_until(lambda: rates(site) == {"in-200", "out-200"}, lambda: rates(site))
        router = site.hosts[ROUTER].serving
        router.kill()
        router.start()
        assert not pings.stop().lost
    assert_address_limited(world, web, FLOATING, 200)
    wait_until(lambda: is_reached(db, WORLD))
    assert_unlimited(db, world, WORLD, 200)
    site.content["floatingips"][0].pop("qos_policy")
    site.content["routers"][0]["external_gateway_info"]["qos_policy"] = "slow"
    site.content["qos_policies"][0]["rules"] = rules(300)
    site.write()
    wait_until(lambda: rates(site) == {"in-300", "out-300"}, lambda: rates(site))
    assert_address_limited(db, world, WORLD, 300)
    assert_unlimited(web, world, WORLD, 200)
    site.content["routers"][0]["external_gateway_info"].pop("qos_policy")
    site.write()
    wait_until(lambda: not rates(site))
    assert_unlimited(db, world, WORLD, 200)
