"""Hosts that go away and come back: others serve their networks, and nobody loses a lease."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, address, agents_of, leased
from tests.system.file_hosts import start_all

SCHEDULING = {"agent_down_time": 4, "reschedule_interval": 1, "failover_grace": 0}
"""Seconds after which the networks of a silent agent are given to another."""
RESYNC = "requests a resync"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-20", "DHCP-44", "DHCP-49")
def test_a_dead_agents_networks_are_served_by_another_with_all_leases(net: DhcpNet) -> None:
    # Its dnsmasq goes on meanwhile: both give the same answers.
    (serving,) = wait_until(net.serving_hosts, "it is served")
    other = _other(net, serving)
    with net.renewing(0) as one, net.renewing(1) as two:
        (before,) = net.servers()
        serving.dhcp.kill()
        wait_until(lambda: other in net.serving_hosts(), "the other host serves it")
        wait_until(lambda: net.server_pid(other), "by a server of its own")
        (after,) = net.servers()
        assert _identity(after) == _identity(before)
        port = net.port(0)
        leased(net.client(port), port)
        serving.dhcp.start()
        wait_until(lambda: net.serving_hosts() == [other], "who came back has given it up")
        for each in (one, two):
            each.check()


@pytest.mark.spec("DHCP-08", "DHCP-20", "DHCP-49")
def test_an_agent_that_was_merely_silent_compares_everything_and_gives_up(net: DhcpNet) -> None:
    # The agent is suspended for a while, and gets no notice of that.
    (serving,) = wait_until(net.serving_hosts, "it is served")
    other = _other(net, serving)
    with net.renewing(0) as renewals:
        text = serving.dhcp.log.read_text().count(RESYNC)
        os.kill(serving.dhcp.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: other in net.serving_hosts(), "the other host serves it")
        finally:
            os.kill(serving.dhcp.pid, signal.SIGCONT)
        wait_until(lambda: net.serving_hosts() == [other], "who came back has given it up")
        wait_until(lambda: serving.dhcp.log.read_text().count(RESYNC) > text, "it was told")
        renewals.check()
    port = net.port(0)
    leased(net.client(port), port)


@pytest.mark.nightly
@pytest.mark.spec("DHCP-20", "DHCP-44", "DHCP-49", "DHCP-09")
def test_crashed_host_costs_no_lease_on_other_hosts(net: DhcpNet) -> None:
    # All its processes are gone; what it had on disk and its namespaces are there again.
    (serving,) = wait_until(net.serving_hosts, "it is served")
    other = _other(net, serving)
    here, there = net.cloud.hosts.index(serving), net.cloud.hosts.index(other)
    lost, lost_client, _ = net.boot(here)
    with net.renewing(there) as renewals:
        serving.host.crash()
        for agent in agents_of(serving):
            agent.kill()
        wait_until(lambda: other in net.serving_hosts(), "the other host serves it")
        renewals.check()
        port = net.port(there)
        leased(net.client(port), port)
        serving.host.revive()
        serving.service.start()
        start_all(*agents_of(serving))
        wait_until(lambda: net.serving_hosts() == [other], "who came back has given it up")
        leased(lost_client, lost)
        renewals.check()


def test_unserved_network_is_served_by_the_first_agent_that_returns(net: DhcpNet) -> None:
    port, client, _ = net.boot(0)
    (before,) = net.servers()
    for host in net.cloud.hosts:
        host.dhcp.kill()
    for serving in net.serving_hosts():
        net.kill_server(serving)
    wait_until(lambda: not any(_alive(net)), "both are known to be dead")
    missed = net.port(1)
    start_all(*(host.dhcp for host in net.cloud.hosts))
    leased(net.client(missed), missed)
    leased(client, port)
    (after,) = net.servers()
    assert _identity(after) == _identity(before)


def _alive(net: DhcpNet) -> list[bool]:
    return [each.is_alive for each in net.cloud.network.agents(agent_type="DHCP agent")]


def _other(net: DhcpNet, serving: Any) -> Any:
    return next(host for host in net.cloud.hosts if host is not serving)


def _identity(port: Any) -> tuple[str, str, str]:
    return port.id, port.mac_address, address(port)
