"""Tunnels that come again soon after the last one went: docs/decisions/0012."""

import socket

import pytest

from netfw.drivers.values.switch_values import Endpoint, Tunnel
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import SwitchHost, network

GENEVE_PORT = 6081
ROUNDS = 10
"""Without the listener, the switch got it wrong in every second round."""


@pytest.mark.spec("L2-32")
def test_a_tunnel_that_comes_again_is_listened_for(make_lab, hosts):
    # The peer sends all the time, and each round begins with an empty cache.
    here, peer = make_lab(hosts=2).hosts.values()
    address = str(here.address6.ip)
    one = hosts(here, tunnel_types=["geneve"], local_ip=address)
    endpoint = Endpoint(NetworkType.GENEVE, peer.address6.ip)
    base = network(1, network_type="geneve", segmentation_id=5)
    for _ in range(ROUNDS):
        one.ovs.appctl("revalidator/purge")
        # An entry with the mask of entries for hosts that listen for nothing, before all others.
        peer.attempt(["ping", "-c", "1", "-W", "0.05", "-I", "br-phy", "ff02::1"])
        assert one.driver.converge(Update(put={**base, endpoint: Tunnel("peer")})).ok
        peer.call(send, address)
        peer.call(send, address)
        assert one.driver.converge(Update(put=base, complete=True)).ok
        peer.run(["ping", "-c", "2", "-i", "0.01", address])
        assert one.driver.converge(Update(put={endpoint: Tunnel("peer")})).ok
        one.ovs.appctl("revalidator/wait")
        tunnelled = wait_until(lambda: sent_entries(one, peer), "an entry for the tunnel")
        assert [entry for entry in tunnelled if "tnl_pop" not in entry] == []


def sent_entries(one: SwitchHost, peer: Host) -> list[str]:
    """Let the peer send; return the entries of the cache for what it sends."""
    peer.call(send, str(one.host.address6.ip))
    entries = one.ovs.appctl("dpctl/dump-flows").splitlines()
    return [entry for entry in entries if f"dst={GENEVE_PORT}" in entry]


def send(address: str) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        sender.sendto(bytes(60), (address, GENEVE_PORT))
