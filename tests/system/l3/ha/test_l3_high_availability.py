"""A highly available router under faults, from a call of the API to packets."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from netfw.drivers.values.router_values import HA_PRIORITY
from netfw.testing.lab import sandbox
from netfw.testing.lab.dhcp_client import solicit
from netfw.testing.lab.wait import wait_until
from tests.system.file_hosts import start_all
from tests.system.l3.environment import (
    crash,
    fetch,
    is_reached,
    prefer_switch,
    revive,
    stays_reached,
)
from tests.system.l3.ha.ha_site import ADVERT, AWAY, TAKEOVER, UNITED, HaSite, ha_site
from tests.system.pings import pinging_all

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture(scope="module")
def site() -> Iterator[HaSite]:
    """Yield a site that works; each test leaves it so."""
    sandbox.require()
    with ha_site() as made:
        yield made


@pytest.mark.spec("L3-40", "L2-61", "API-18")
def test_machines_on_every_host_reach_the_one_active_host(site: HaSite) -> None:
    active = site.await_active()
    for guest in site.guests:
        for subnet in (site.blue.v4, site.blue.v6):
            assert stays_reached(guest.instance, subnet.gateway_ip)
    standby = site.other(active)
    assert site.roles() == {active.host.name: "active", standby.host.name: "standby"}
    ports = site.network.ports(device_id=site.router.id, network_id=site.blue.network.id)
    assert {port.binding_host_id for port in ports} == {active.host.name}


@pytest.mark.parametrize(
    ("number", "bound"),
    [(signal.SIGKILL, TAKEOVER), (signal.SIGTERM, ADVERT)],
    ids=["killed", "stopped"],
)
@pytest.mark.spec("L3-43")
def test_another_host_takes_over_when_keepalived_ends(
    site: HaSite, number: signal.Signals, bound: float
) -> None:
    active = site.await_active()
    standby = site.other(active)
    site.purge_cached_flows()
    with pinging_all(site.targets()) as pings:
        former = site.signal_keepalived(active, number)
        wait_until(lambda: site.active() is standby, site.roles)
        site.await_reached()
        site.await_restart(active, former)
        assert pings.outage() <= bound, pings.report()
    wait_until(lambda: site.reported_active() is standby, site.roles)
    assert site.active() is standby, "it came back and preempted"


@pytest.mark.spec("L3-43")
def test_a_standby_that_dies_costs_nothing(site: HaSite) -> None:
    active = site.await_active()
    standby = site.other(active)
    with pinging_all(site.targets()) as pings, site.sampling() as sampler:
        former = site.signal_keepalived(standby, signal.SIGKILL)
        site.await_restart(standby, former)
        assert not pings.lost(), pings.report()
    assert site.active() is active
    assert not sampler.has_seen(2)


@pytest.mark.spec("L3-43")
def test_another_host_takes_over_from_one_that_is_cut_off(site: HaSite) -> None:
    active = site.await_active()
    standby, targets = site.other(active), site.targets(active)
    with pinging_all(targets) as pings:
        with site.cut(active):
            wait_until(lambda: standby in site.active_hosts(), site.roles)
            site.await_reached(targets)
        site.await_active()
        site.await_reached()
        assert pings.outage() <= AWAY, pings.report()
    site.await_reported()


@pytest.mark.spec("L3-41", "L3-43", "MD-03")
def test_a_failover_needs_no_agent(site: HaSite) -> None:
    active = site.await_active()
    standby, targets = site.other(active), site.targets(active)
    agents = [host.agent for host in site.hosts] + [host.l3 for host in site.routing]
    for agent in agents:
        agent.kill()
    try:
        with pinging_all(targets) as pings, site.cut(active):
            wait_until(lambda: standby in site.active_hosts())
            site.await_reached(targets)
            wait_until(lambda: fetch(site.guests[2].instance))
            wait_until(lambda: solicit(site.guests[2].instance))
            assert pings.outage() <= AWAY, pings.report()
        site.await_active()
    finally:
        start_all(*agents)
    site.await_reached()
    site.await_reported()


@pytest.mark.spec("L3-41", "L3-43")
def test_a_failover_needs_no_server(site: HaSite) -> None:
    active = site.await_active()
    standby = site.other(active)
    site.cloud.server.stop()
    try:
        with pinging_all(site.targets()) as pings:
            former = site.signal_keepalived(active, signal.SIGTERM)
            wait_until(lambda: site.active() is standby)
            site.await_reached()
            site.await_restart(active, former)
            assert pings.outage() <= ADVERT, pings.report()
    finally:
        site.cloud.server.start()
    wait_until(lambda: site.reported_active() is standby, site.roles)


@pytest.mark.spec("L3-43")
def test_a_split_pair_is_one_again_when_it_is_healed(site: HaSite) -> None:
    active = site.await_active()
    with ExitStack() as pinging:
        with site.cut(active, provider=False):
            wait_until(lambda: len(site.active_hosts()) == 2)
            wait_until(lambda: set(site.roles().values()) == {"active"}, site.roles)
            pings = pinging.enter_context(pinging_all(site.targets()))
            sampler = pinging.enter_context(site.sampling())
        site.await_active()
        site.await_reached()
        assert pings.outage() <= UNITED, pings.report()
    assert sampler.longest(2) <= UNITED
    site.await_reported()


@pytest.mark.spec("L3-40")
def test_floating_ips_of_a_running_pair_come_and_go_without_a_failover(site: HaSite) -> None:
    active = site.await_active()
    processes = [site.keepalived(each) for each in site.routing]
    sent = site.sent_frames(site.other(active))
    with pinging_all(site.targets()) as pings:
        made = site.make_floating_ip(site.guests[0])
        address = str(made.floating_ip_address)
        wait_until(lambda: is_reached(site.world, address))
        site.network.update_ip(made, port_id=site.guests[1].port.id)
        wait_until(lambda: site.network.get_ip(made.id).status == "ACTIVE")
        wait_until(lambda: is_reached(site.world, address))
        site.network.delete_ip(made)
        wait_until(lambda: not is_reached(site.world, address))
        assert not pings.lost(), pings.report()
    assert site.active() is active
    assert [site.keepalived(each) for each in site.routing] == processes
    assert site.sent_frames(site.other(active)) == sent, "the standby sent a frame"


@pytest.mark.spec("L3-41", "L3-42")
def test_restarted_agents_change_no_role_and_no_process(site: HaSite) -> None:
    active = site.await_active()
    processes = [site.keepalived(each) for each in site.routing]
    with pinging_all(site.targets()) as pings:
        for each in site.routing:
            each.l3.kill()
        for each in site.routing:
            each.l3.start()
        assert not pings.lost(), pings.report()
    assert site.active() is active
    assert [site.keepalived(each) for each in site.routing] == processes
    wait_until(lambda: site.reported_active() is active, site.roles)


@pytest.mark.spec("L3-43")
def test_a_restarted_switch_leaves_one_active(site: HaSite) -> None:
    # The devices of a switch in userspace go with it, and the other host takes over.
    active = site.await_active()
    with site.sampling() as sampler:
        active.host.restart_switch()
        prefer_switch(active.host)
        site.await_active()
        site.await_reached()
    assert sampler.longest(2) <= UNITED
    site.await_reported()


@pytest.mark.spec("L3-43")
def test_both_killed_become_one(site: HaSite) -> None:
    with pinging_all(site.targets()) as pings, site.sampling() as sampler:
        former = [site.signal_keepalived(each, signal.SIGKILL) for each in site.routing]
        for each, pids in zip(site.routing, former, strict=True):
            site.await_restart(each, pids)
        wait_until(lambda: sampler.has_seen(0))  # the addresses of the former process are removed
        site.await_active()
        site.await_reached()
        assert pings.outage() <= AWAY, pings.report()
    assert sampler.longest(2) <= UNITED
    site.await_reported()


@pytest.mark.spec("L3-43")
def test_a_host_that_returns_does_not_preempt(site: HaSite) -> None:
    # The machines of the crashed host are lost: only the next test can use the site.
    active = site.await_active()
    standby, targets = site.other(active), site.targets(active)
    with pinging_all(targets) as pings:
        crash(active)
        wait_until(lambda: standby in site.active_hosts(), site.roles)
        site.await_reached(targets)
        active.l3.options["agent"]["ha_vrrp_priority"] = HA_PRIORITY + 50
        revive(active)
        wait_until(lambda: site.active() is standby, site.roles)
        wait_until(lambda: len(site.keepalived(active)) > 0)
        wait_until(lambda: site.roles()[active.host.name] == "standby", site.roles)
        time.sleep(AWAY)  # it would have preempted by then
        assert pings.outage() <= AWAY, pings.report()
    assert site.active() is standby


@pytest.mark.nightly
@pytest.mark.spec("L3-43")
def test_both_hosts_that_crash_return_as_one(site: HaSite) -> None:
    with site.sampling() as sampler:
        for each in site.routing:
            crash(each)
        revive(*site.routing)
        site.await_active()
        site.await_reached(site.targets(*site.routing))
    assert sampler.longest(2) <= UNITED
    site.await_reported()
