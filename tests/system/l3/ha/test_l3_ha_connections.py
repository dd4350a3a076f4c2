"""Established connections through a highly available router with conntrackd, from a call of the API
to packets."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.tcp_stream import connected, passes
from netfw.testing.lab.wait import wait_until
from tests.system.file_hosts import start_all
from tests.system.l3.ha.ha_site import HaSite, ha_site
from tests.system.l3.routed_networks import WORLD4

SNAT_PORT, FLOATING_PORT = 4242, 4243

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def site() -> Iterator[HaSite]:
    sandbox.require()
    with ha_site(ha_conntrackd_enabled=True) as made:
        yield made


@pytest.mark.spec("L3-43")
def test_established_connections_survive_failovers_without_and_with_agents(site: HaSite) -> None:
    active = site.await_active()
    standby = site.other(active)
    inside, floating_guest = site.guests[0].instance, site.guests[2].instance
    address = str(site.floating_ip.floating_ip_address)
    with (
        connected(inside, site.world, WORLD4, SNAT_PORT) as snat,
        connected(site.world, floating_guest, address, FLOATING_PORT) as floating,
    ):
        for port in (SNAT_PORT, FLOATING_PORT):
            wait_until(lambda port=port: site.tracks(standby, port))
        for each in site.routing:
            each.l3.kill()
        site.signal_keepalived(active, signal.SIGTERM)
        wait_until(lambda: site.active() is standby)
        assert passes(*reversed(snat)), "the first packet comes from outside"
        assert passes(*floating)
        start_all(*(each.l3 for each in site.routing))
        wait_until(lambda: site.keepalived(active))
        for port in (SNAT_PORT, FLOATING_PORT):
            wait_until(lambda port=port: site.tracks(active, port))
        site.signal_keepalived(standby, signal.SIGKILL)
        wait_until(lambda: site.active() is active)
        assert passes(*reversed(snat))
        assert passes(*reversed(floating))
    wait_until(lambda: site.reported_active() is active, site.roles)
