"""Agents, servers and hosts that die, and clients that do not notice."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import pytest
from dhcp_cloud import DhcpNet, address, await_that, leased

SCHEDULING = {"dhcp_agents_per_network": 1}
SEEDS = int(os.environ.get("NETFW_SEEDS", "2"))

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("DHCP-10", "DHCP-49")
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restarted_agent_touches_no_server_and_clients_renew(net: DhcpNet, end: str) -> None:
    _, client, lease = net.boot(0)
    (place,) = net.places()
    pid = net.server_pid(place)
    getattr(place.dhcp, end)()
    assert client.renew() == lease
    place.dhcp.start()
    assert client.renew() == lease
    assert net.server_pid(place) == pid
    port = net.port(1)
    leased(net.client(port), port)
    assert net.server_pid(place) == pid


@pytest.mark.spec("DHCP-47", "DHCP-49")
def test_a_killed_server_is_back_and_knows_its_leases(net: DhcpNet) -> None:
    _, client, lease = net.boot(0)
    (place,) = net.places()
    pid = net.kill_server(place)
    await_that(lambda: net.server_pid(place) not in (None, pid), "dnsmasq is back")
    assert client.renew() == lease


@pytest.mark.spec("DHCP-61")
def test_a_killed_proxy_is_back(net: DhcpNet) -> None:
    net.boot(0)
    (place,) = net.places()
    pattern = f"[h]aproxy.*{net.network.id}"

    def proxies() -> set[int]:
        found = place.host.attempt(["pgrep", "-f", pattern]).output.split()
        return set(map(int, found))

    before = await_that(proxies, "a proxy runs")
    for pid in before:
        os.kill(pid, 9)
    await_that(lambda: proxies() and not proxies() & before, "it is back")


@pytest.mark.spec("DHCP-03", "DHCP-09", "DHCP-49")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_agent_killed_at_any_moment_loses_no_port(net: DhcpNet, seed: int) -> None:
    """Ports come and go while the agent is killed again and again."""
    chance = random.Random(seed)
    _, client, lease = net.boot(0)
    (place,) = net.places()
    made: list[Any] = []
    stopped = threading.Event()

    def churn() -> None:
        while not stopped.is_set():
            made.append(net.port(0))
            if len(made) > 6:
                gone = made.pop(chance.randrange(len(made)))
                net.cloud.network.delete_port(gone.id)
            time.sleep(0.05)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(4):
            time.sleep(chance.random() * 1.5)
            place.dhcp.kill()
            place.dhcp.begin()
    finally:
        stopped.set()
        thread.join()
    place.dhcp.wait_for(lambda status: bool(status.get("ready")))
    assert client.renew() == lease
    for port in made[-2:]:
        leased(net.client(port), port)
    await_that(lambda: _files(net, place) == {str(each.id) for each in (*made, _first(net))})


def _first(net: DhcpNet) -> Any:
    return net._ports[0][0]


def _files(net: DhcpNet, place: Any) -> set[str]:
    """The ports that the server has addresses for, as its files say it."""
    return {
        path.name
        for path in (net.files(place) / "host").iterdir()
        if "ignore" not in path.read_text() and "." not in path.name
    }


@pytest.mark.spec("DHCP-02", "DHCP-08")
def test_a_server_that_was_away_costs_no_lease(net: DhcpNet) -> None:
    _, client, lease = net.boot(0)
    net.cloud.server.kill()
    assert client.renew() == lease
    net.cloud.server.start()
    port = net.port(1)
    leased(net.client(port), port)
    assert client.renew() == lease


@pytest.mark.spec("DHCP-20", "DHCP-44", "DHCP-49")
def test_a_host_that_is_away_hands_its_networks_over_with_all_leases(net: DhcpNet) -> None:
    (place,) = await_that(net.places, "it is served")
    away = net.cloud.hosts.index(place)
    port, client, _lease = net.boot(1 - away)
    (before,) = _servers(net)
    place.dhcp.kill()
    net.kill_server(place)
    other = net.cloud.hosts[1 - away]
    await_that(lambda: other in net.places(), "the other host serves it")
    await_that(lambda: net.server_pid(other), "by a server of its own")
    assert client.renew() is not None
    leased(client, port)
    (after,) = _servers(net)
    assert (after.id, after.mac_address, address(after)) == (
        before.id, before.mac_address, address(before),
    )  # fmt: skip
    place.dhcp.start()
    await_that(lambda: net.places() == [other], "who came back has given it up")
    assert client.renew() is not None


def _servers(net: DhcpNet) -> list[Any]:
    ports = net.cloud.network.ports(network_id=net.network.id, device_owner="network:dhcp")
    return list(ports)
