"""Agents and servers that die, and clients that do not notice."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.dhcp.environment import DhcpNet, agents_of, leased
from tests.system.file_hosts import start_all, stop_all

SEEDS = int(os.environ.get("NETFW_SEEDS", "1"))

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-10", "DHCP-49")
@pytest.mark.parametrize("end", [nightly("stop"), "kill"])
def test_a_restarted_agent_touches_no_server_and_clients_renew(net: DhcpNet, end: str) -> None:
    with net.renewing(0) as one, net.renewing(1) as other:
        (serving,) = net.serving_hosts()
        pid = net.server_pid(serving)
        getattr(serving.dhcp, end)()
        missed = net.port(1)
        serving.dhcp.start()
        leased(net.client(missed), missed)
        port = net.port(1)
        leased(net.client(port), port)
        assert net.server_pid(serving) == pid
        for each in (one, other):
            each.check()
            assert each.longest_silence < 3


@pytest.mark.spec("DHCP-47", "DHCP-49")
def test_a_killed_server_is_back_and_knows_its_leases(net: DhcpNet) -> None:
    _, client, lease = net.boot(1)
    with net.renewing(0) as renewals:
        (serving,) = net.serving_hosts()
        for _ in range(2):
            pid = net.kill_server(serving)
            wait_until(lambda pid=pid: net.server_pid(serving) not in (None, pid), "it is back")
            renewals.check()
    assert client.renew() == lease


@pytest.mark.spec("DHCP-47", "DHCP-49", "DHCP-44")
def test_a_server_that_died_while_no_agent_was_there_is_back_with_the_agent(net: DhcpNet) -> None:
    with net.renewing(1) as renewals:
        (serving,) = net.serving_hosts()
        serving.dhcp.kill()
        net.kill_server(serving)
        serving.dhcp.start()
        renewals.check()


@pytest.mark.spec("DHCP-23", "DHCP-49")
def test_a_switch_that_is_restarted_costs_no_lease(net: DhcpNet) -> None:
    # The devices of a switch in userspace go with it, also from namespaces.
    (serving,) = wait_until(net.serving_hosts, "it is served")
    other = 1 - net.cloud.hosts.index(serving)
    with net.renewing(other) as renewals:
        serving.host.restart_switch()
        renewals.check()


@pytest.mark.spec("DHCP-61")
def test_a_killed_proxy_is_back(net: DhcpNet) -> None:
    net.boot(0)
    (serving,) = net.serving_hosts()
    pattern = f"[h]aproxy.*{net.network.id}"

    def proxies() -> set[int]:
        found = serving.host.attempt(["pgrep", "-f", pattern]).output.split()
        return set(map(int, found))

    before = wait_until(proxies, "a proxy runs")
    for pid in before:
        with suppress(ProcessLookupError):  # a worker ends with its master
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: proxies() and not proxies() & before, "it is back")


@pytest.mark.nightly
@pytest.mark.spec("DHCP-03", "DHCP-06", "DHCP-09", "DHCP-49")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_agent_killed_at_any_moment_loses_no_port(net: DhcpNet, seed: int) -> None:
    # Ports come and go while the agent and its dnsmasq are killed again and again.
    chance = random.Random(seed)
    stopped = threading.Event()
    gone: list[str] = []

    def churn() -> None:
        made: list[Any] = []
        while not stopped.is_set():
            made.append(net.port(chance.randrange(2)))
            if len(made) > 6:
                port = made.pop(chance.randrange(len(made)))
                net.delete(port)
                gone.append(port.id)
            stopped.wait(0.05)

    with net.renewing(0) as one, net.renewing(1) as other:
        (serving,) = net.serving_hosts()
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(4):
                stopped.wait(chance.random() * 1.5)
                serving.dhcp.kill()
                pid = net.server_pid(serving)
                if pid is not None and chance.random() < 0.5:
                    os.kill(pid, signal.SIGKILL)
                serving.dhcp.spawn()
        finally:
            stopped.set()
            thread.join()
        serving.dhcp.wait_for(lambda status: bool(status.get("ready")))
        wait_until(lambda: net.served_ports(serving) == net.ports.keys(), "all ports are served")
        for port, _ in list(net.ports.values())[-2:]:
            leased(net.client(port), port)
        assert gone
        one.check()
        other.check()


@pytest.mark.spec("DHCP-02", "DHCP-08")
def test_a_server_that_was_away_costs_no_lease(net: DhcpNet) -> None:
    with net.renewing(0) as renewals:
        net.cloud.server.kill()
        (serving,) = net.serving_hosts()
        net.kill_server(serving)  # which the agent mends by what it knows
        renewals.await_answer()
        net.cloud.server.start()
        port = net.port(1)
        leased(net.client(port), port)
        renewals.check()


@pytest.mark.spec("DHCP-09", "DHCP-10")
def test_what_was_deleted_while_an_agent_was_away_is_gone_when_it_is_back(net: DhcpNet) -> None:
    other = DhcpNet(net.cloud, "short-lived")
    other.subnet(4)
    (serving,) = wait_until(other.serving_hosts, "it is served")
    wait_until(lambda: other.server_pid(serving), "by dnsmasq")
    serving.dhcp.stop()
    assert other.server_pid(serving) is not None
    other.remove()
    serving.dhcp.start()
    wait_until(
        lambda: not other.serving_hosts() and not other.files(serving).exists(), "it is gone"
    )


def test_agents_can_be_stopped_while_the_server_is_away(net: DhcpNet) -> None:
    agents = agents_of(*net.cloud.hosts)
    net.cloud.server.kill()
    try:
        time.sleep(1.5)  # each has a report to make by now, and waits for the server
        began = time.monotonic()
        assert stop_all(*agents) == [0] * len(agents)
        assert time.monotonic() - began < 25, "they waited for the server"
    finally:
        net.cloud.server.start()
        start_all(*agents)
