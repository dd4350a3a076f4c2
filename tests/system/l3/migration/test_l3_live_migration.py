"""Live migration between three hosts, under traffic, behind a distributed router."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.file_hosts import start_all
from tests.system.l3.distributed.site import DistributedSite, distributed_site
from tests.system.l3.migration.migrant import (
    Beside,
    Migrant,
    Targets,
    make_migrant,
    measure_best,
    notifying,
    to_migrant,
)
from tests.system.l3.routed_networks import WORLD4
from tests.unit.backends.notifiers.http_receiver import Party, listening

LONG = bool(os.environ.get("NETFW_LONG"))
pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
GATEWAY_OWNER = "network:floatingip_agent_gateway"


@pytest.fixture(scope="module")
def compute() -> Iterator[Party]:
    """Yield the compute service, which receives events."""
    with listening() as party:
        yield party


@pytest.fixture(scope="module", params=["vlan", *(["vxlan"] if LONG else [])])
def site(request: pytest.FixtureRequest, compute: Party) -> Iterator[DistributedSite]:
    """Yield a site that works; each test leaves it so."""
    sandbox.require()
    with distributed_site(request.param, notifying(compute)) as made:
        yield made


@pytest.fixture
def mover(site: DistributedSite, compute: Party) -> Iterator[Migrant]:
    """Yield an instance on the second host, behind the router."""
    name = f"mover{len(site.second.host.instances)}"
    made = make_migrant(site, name, site.green, site.second, compute)
    yield made
    site.network.delete_port(made.port.id)
    for host in site.hosts:
        host.unplug_port(made.port)


def _flows(site: DistributedSite, mover: Migrant) -> Targets:
    guests = {
        "same network, target": site.green1,
        "same network, source": site.green2,
        "routed, target": site.blue1,
        "routed, source": site.blue2,
    }
    flows = to_migrant(guests, mover)
    flows["to the world"] = mover.instance, WORLD4
    flows["from the world, IPv6"] = site.world, mover.address(6)
    return flows


def _beside(site: DistributedSite) -> Beside:
    gateway = site.green.v4.gateway_ip
    return Beside(network=site.network, guest=site.green1, gateway=gateway)


def _await_agent_gateway(site: DistributedSite, host: ServedHost) -> None:
    """Wait until a host has its port on the external network."""
    wait_until(lambda: host.host.name in _gateway_hosts(site), f"gateway of {host.host.name}")


def _await_prepared(site: DistributedSite, mover: Migrant, host: ServedHost) -> None:
    """Wait until a host has all of a floating IP but its route."""
    _await_agent_gateway(site, host)
    netns = f"qrouter-{site.router.id}"
    rules = ["ip", "netns", "exec", netns, "ip", "rule"]
    rule = f"from {mover.address(4)} lookup 16"
    wait_until(lambda: rule in host.host.attempt(rules).output, f"rule of {host.host.name}")


def _gateway_hosts(site: DistributedSite) -> set[str]:
    """Return the hosts that have a port of their own on the external network."""
    ports = site.network.ports(device_owner=GATEWAY_OWNER)
    return {port.binding_host_id for port in ports if port.status == "ACTIVE"}


@pytest.mark.spec("ML2-08", "L2-19", "L3-67")
def test_a_migration_interrupts_traffic_briefly(site: DistributedSite, mover: Migrant) -> None:
    flows = _flows(site, mover)
    site.await_reached(flows)
    silences, limit = measure_best(
        mover, (site.second, site.first), flows, _beside(site), site.hosts
    )
    assert max(silences.values()) <= limit, silences


@pytest.mark.nightly
@pytest.mark.spec("ML2-08", "L3-62", "L3-67")
def test_a_floating_ip_migrates_with_its_instance(site: DistributedSite, mover: Migrant) -> None:
    # One host has no other floating IP: its agent gateway and its link are prepared.
    floating_ip = site.make_floating_ip(mover)
    flows = _flows(site, mover)
    flows["floating IP"] = site.world, str(floating_ip.floating_ip_address)
    site.await_reached(flows)
    silences, limit = measure_best(
        mover,
        (site.second, site.first),
        flows,
        _beside(site),
        site.hosts,
        await_prepared=lambda host: _await_prepared(site, mover, host),
    )
    assert max(silences.values()) <= limit, silences
    wait_until(lambda: site.network.get_ip(floating_ip.id).status == "ACTIVE")
    site.network.delete_ip(floating_ip)
    wait_until(lambda: _gateway_hosts(site) == {site.second.host.name})


@pytest.mark.spec("ML2-08", "L3-66", "L3-67")
def test_nothing_stays_at_a_target_that_is_given_up(site: DistributedSite, compute: Party) -> None:
    segment = site.segment("brief", 4)
    router = site.network.create_router(
        name="brief",
        is_distributed=True,
        external_gateway_info={"network_id": site.outside.network.id},
    )
    site.connect(router, segment)
    mover = make_migrant(site, f"brief-{site.network_type}", segment, site.second, compute)
    floating_ip = site.make_floating_ip(mover)
    flows = {"floating IP": (site.world, str(floating_ip.floating_ip_address))}
    site.await_reached(flows)
    before = site.first.router_namespaces()
    mover.prepare(site.first)
    _await_agent_gateway(site, site.first)
    wait_until(lambda: f"qrouter-{router.id}" in site.first.router_namespaces())
    mover.drop(site.first)
    wait_until(lambda: site.first.router_namespaces() == before)
    wait_until(lambda: _gateway_hosts(site) == {site.second.host.name})
    assert mover.bindings() == {site.second.host.name: "ACTIVE"}
    site.await_reached(flows)
    site.network.delete_ip(floating_ip)
    site.network.delete_port(mover.port.id)
    site.second.unplug_port(mover.port)
    site.disconnect(router, segment)
    site.network.delete_router(router)
    site.network.delete_network(segment.network.id)


@pytest.mark.spec("ML2-08", "L2-19")
@pytest.mark.parametrize("where", ["target", nightly("source")])
def test_agents_are_killed_during_a_migration(
    site: DistributedSite, mover: Migrant, where: str
) -> None:
    flows = _flows(site, mover)
    site.await_reached(flows)
    host = site.first if where == "target" else site.second
    mover.prepare(site.first)
    for agent in (host.agent, host.l3):
        agent.kill()
    mover.migrate(site.second, site.first)
    if where == "source":
        site.await_reached({name: flow for name, flow in flows.items() if "source" not in name})
    start_all(host.agent, host.l3)
    with mover.announcing():
        site.await_reached(flows)
    mover.drop(site.second)
    assert mover.bindings() == {site.first.host.name: "ACTIVE"}
    site.await_reached(flows)
