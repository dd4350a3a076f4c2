"""Live migration between three hosts, under traffic, behind highly available and plain routers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from tests.nightly import nightly
from tests.system.l3.ha.ha_site import HaSite, ha_site
from tests.system.l3.migration.migrant import (
    Beside,
    make_migrant,
    measure_best,
    notifying,
    to_migrant,
)
from tests.system.l3.routed_networks import WORLD4, Segment
from tests.unit.backends.notifiers.http_receiver import Party, listening

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture(scope="module")
def compute() -> Iterator[Party]:
    """Yield the compute service, which receives events."""
    with listening() as party:
        yield party


@pytest.fixture(scope="module")
def site(compute: Party) -> Iterator[HaSite]:
    sandbox.require()
    with ha_site(notifying(compute)) as made:
        yield made


def _plain_network(site: HaSite) -> Segment:
    """Create a network behind a plain router of its own, which the world has a route to."""
    made = site.segment("plain", 9)
    gateway = {"network_id": site.outside.network.id}
    router = site.network.create_router(name="plain", is_ha=False, external_gateway_info=gateway)
    site.connect(router, made)
    inside = site.network.get_router(router.id).external_gateway_info["external_fixed_ips"]
    (gateway6,) = (each["ip_address"] for each in inside if ":" in each["ip_address"])
    site.world.namespaces.ip(f"route add fd00:9::/64 via {gateway6}")
    return made


@pytest.mark.spec("ML2-08", "L2-19")
@pytest.mark.parametrize("is_ha", [nightly(True), False], ids=["highly available", "plain"])
def test_a_migration_interrupts_traffic_briefly(site: HaSite, compute: Party, is_ha: bool) -> None:
    # One instance leaves by the router's own address, the other one has a floating IP.
    segment = site.blue if is_ha else _plain_network(site)
    source, target = site.hosts[2], site.hosts[0]
    beside = site.guest(f"beside{is_ha:d}", segment, site.hosts[1])
    gateway = site.blue.v4.gateway_ip
    unmoved = Beside(network=site.network, guest=site.guests[0], gateway=gateway)
    for name in ("snat", "floating"):
        mover = make_migrant(site, f"{name}{is_ha:d}", segment, source, compute)
        flows = to_migrant({"same network": beside}, mover)
        flows["to the world"] = mover.instance, WORLD4
        flows["from the world, IPv6"] = site.world, mover.address(6)
        if name == "floating":
            floating_ip: Any = site.make_floating_ip(mover)
            flows["floating IP"] = site.world, str(floating_ip.floating_ip_address)
        site.await_reached(flows)
        silences, limit = measure_best(mover, (source, target), flows, unmoved, site.hosts)
        assert max(silences.values()) <= limit, silences
