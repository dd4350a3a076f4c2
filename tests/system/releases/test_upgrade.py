"""Upgrade from the previous release, and back, while traffic passes.

The short form restarts all agents at once; with ``NETFW_LONG`` one after another, and instances
come and go between hosts of different releases.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.testing.lab import sandbox
from tests.system.releases.environment import ReleaseSite, release_site
from tests.system.releases.releases import Release, present_release, previous_release

LOG = logging.getLogger("upgrade")
LONG = bool(os.environ.get("NETFW_LONG"))

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@contextmanager
def unharmed(site: ReleaseSite, what: str) -> Iterator[None]:
    """Check that no packet, connection or lease is lost in the block, and log what passed."""
    with site.traffic() as traffic, site.renewing() as lease:
        yield
        lease.check()
        LOG.info("%s: %s", what, traffic.pings.report())
        traffic.check()


def restart_agents(site: ReleaseSite, release: Release) -> None:
    """Restart the agents as *release*: all at once, or one after another."""
    if not LONG:
        site.restart(site.agents, release)
        return
    for number, agent in enumerate(site.agents):
        site.restart([agent], release)
        site.come_and_go(f"mixed{number}-")


@pytest.mark.spec("RPC-05", "DRV-48")
def test_a_release_is_upgraded_and_rolled_back_without_a_lost_packet() -> None:
    sandbox.require()
    old, new = previous_release(), present_release()
    with release_site(old) as site:
        former = site.tables(old, "current").split()[1].rstrip(";")
        with unharmed(site, f"upgraded from version {former} of the tables"):
            seconds = site.replace_server(new, new, "upgrade")
            LOG.info("the API was away for %.1f s", seconds)
            restart_agents(site, new)
            site.come_and_go("after")
        with unharmed(site, "rolled back"):
            restart_agents(site, old)
            seconds = site.replace_server(old, new, "downgrade", former)
            LOG.info("the API was away for %.1f s", seconds)
            site.come_and_go("back")
