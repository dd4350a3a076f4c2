"""A host whose switch is restarted, or that loses what a network is served from."""

from __future__ import annotations

import json
import time

import pytest

from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.wait import wait_until
from tests.system.dhcp.environment import DhcpNet, dhcp_agent, leased

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
SOON = 45.0
"""Seconds; less than until the next health check of dnsmasq, and the next complete pass."""


def carriers(net: DhcpNet, host: ServedHost) -> list[bool]:
    """Return whether each device of the network's DHCP server on that host has its switch."""
    output = host.host.attempt(["ip", "-j", "-n", f"qdhcp-{net.network.id}", "link"]).output
    flags = [link["flags"] for link in json.loads(output or "[]") if link["ifname"] != "lo"]
    return ["LOWER_UP" in each for each in flags]


@pytest.mark.spec("DHCP-23")
def test_new_ports_get_their_leases_soon_after_the_switch_was_restarted(net: DhcpNet) -> None:
    old, client, lease = net.boot(0)
    (serving,) = net.serving_hosts()
    pid = net.server_pid(serving)
    serving.host.ovs.kill_switch()
    serving.host.ovs.start_switch()
    since = time.monotonic()
    net.boot(0)
    assert time.monotonic() - since < SOON
    assert leased(client, old) == lease
    assert net.server_pid(serving) == pid, "dnsmasq follows its device"


@pytest.mark.spec("DHCP-23")
def test_a_server_whose_port_was_removed_from_the_switch_has_it_again(net: DhcpNet) -> None:
    net.boot(0)
    (serving,) = net.serving_hosts()
    (server,) = net.servers()
    serving.host.ovs.vsctl("del-port", f"tap{server.id[:11]}")
    since = time.monotonic()
    wait_until(lambda: carriers(net, serving) == [True], "its device")
    net.boot(0)
    assert time.monotonic() - since < SOON
    assert dhcp_agent(net.cloud, serving).is_alive


@pytest.mark.spec("DHCP-28")
@pytest.mark.parametrize(
    "harm", ["-n qdhcp-{id} link delete {device}", "netns delete qdhcp-{id}"], ids=["device", "all"]
)
def test_what_an_operator_deletes_by_mistake_is_made_again_at_once(net: DhcpNet, harm: str) -> None:
    old, client, lease = net.boot(0)
    (serving,) = net.serving_hosts()
    (server,) = net.servers()
    words = harm.format(id=net.network.id, device=f"tap{server.id[:11]}")
    serving.host.run(["ip", *words.split()])
    since = time.monotonic()
    wait_until(lambda: carriers(net, serving) == [True], "its device")
    net.boot(0)
    assert time.monotonic() - since < SOON
    assert leased(client, old) == lease
