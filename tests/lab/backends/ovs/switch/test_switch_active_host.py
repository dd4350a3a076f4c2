"""Frames for a MAC address of several hosts, once it is known which of them is active.

The peers are addresses of another host, without a switch: what they send and receive are the UDP
datagrams of the tunnels themselves.
"""

import itertools
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address

import pytest

from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    Tunnel,
)
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.segment import NetworkType
from netfw.model.values.address import Mac
from netfw.plan import Update
from netfw.testing.conformance.common.raw_socket import drain, open_wire
from netfw.testing.lab.host import Host
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw_drivers.ovs.pipeline.tunnel_tables import BY_ACTIVE
from tests.lab.backends.ovs.switch.environment import SwitchHost, mac, network, network_id, port

VXLAN_PORT, NUMBER = 4789, 5
SHARED, ALL = mac(9), "ff:ff:ff:ff:ff:ff"
SENDER = 1
REQUEST, REPLY = announcement(Mac(SHARED), ip_address("10.0.0.9"))
ARP = REQUEST.replace(bytes(6), b"\xff" * 6)
"""As keepalived announces: a request with a target.  The kernel asks for a neighbour without."""
(NEIGHBOUR,) = announcement(Mac(SHARED), ip_address("fd00:1::9"))
_TEST_TYPE = 0x88B5
_HEADER = struct.pack("!II", 0x08 << 24, NUMBER << 8)


def frame(to: str, source: str, content: int) -> bytes:
    macs = bytes.fromhex((to + source).replace(":", ""))
    return macs + struct.pack("!HI", _TEST_TYPE, content) + bytes(46)


class Peer:
    """The far end of a tunnel."""

    def __init__(self, host: Host, address: str, target: str) -> None:
        self.endpoint = Endpoint(NetworkType.VXLAN, ip_address(address))
        self._target = target
        self.socket = host.call(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, VXLAN_PORT))

    def send(self, frame: bytes) -> None:
        self.socket.sendto(_HEADER + frame, (self._target, VXLAN_PORT))

    def received(self, until: bytes) -> list[bytes] | None:
        """Return the frames before *until*; ``None`` if that does not arrive."""
        frames: list[bytes] = []
        while until not in frames:
            try:
                frames.append(self.socket.recv(4096)[len(_HEADER) :])
            except TimeoutError:
                return None
        return frames[:-1]


class Site:
    """A switch with an instance, and three peers; the first two have the shared MAC."""

    def __init__(self, switch: SwitchHost, peers: list[Peer], wire: socket.socket) -> None:
        self.switch, self.peers, self._wire = switch, peers, wire
        self._numbers = itertools.count()
        self.key = ForwardingKey(network_id(1), SHARED)

    def receivers(self) -> list[Peer] | None:
        """Return the peers that get a frame for the shared MAC.

        A frame for all follows it: who gets that has got the other one before, or does not get it.
        """
        self.switch.ovs.appctl("revalidator/purge")
        number = next(self._numbers)
        single, last = (frame(to, mac(SENDER), number) for to in (SHARED, ALL))
        self._wire.send(single)
        self._wire.send(last)
        found = {peer: peer.received(last) for peer in self.peers}
        if None in found.values():
            return None
        return [peer for peer, frames in found.items() if single in (frames or ())]

    def await_underlay(self) -> None:
        """Wait until all peers receive: the switch has to resolve their addresses first."""
        for timeout in (0.2, TIMEOUT):
            for peer in self.peers:
                peer.socket.settimeout(timeout)
            wait_until(lambda: self.receivers() is not None, "frames of the instance")

    def hear(self, peer: Peer, content: bytes) -> None:
        """Let *peer* send, and wait until the instance has it: then the switch has learned."""
        for _ in drain(self._wire):
            pass
        peer.send(content)
        wait_until(lambda: content in drain(self._wire), "a frame of a peer")

    def learned(self) -> list[str]:
        """Return the flow that has the tunnel of the active host."""
        flows = self.switch.flows("br-tun")
        return [one for one in flows if f" table={BY_ACTIVE.number}," in one and "load:" in one]

    def entry(self, *peers: Peer) -> dict[ForwardingKey, Forwarding]:
        return {self.key: Forwarding(frozenset(peer.endpoint for peer in peers))}

    def wanted(self) -> Update:
        tunnels = {peer.endpoint: Tunnel("peer") for peer in self.peers}
        floods = {FloodKey(network_id(1), peer.endpoint): Flood() for peer in self.peers}
        ports = {**network(1, network_type="vxlan", segmentation_id=NUMBER), **port(SENDER, 1)}
        put = {**ports, **tunnels, **floods, **self.entry(*self.peers[:2])}
        return Update(put=put, complete=True)


@pytest.fixture
def site(lab, hosts) -> Iterator[Site]:
    here, there = lab.hosts.values()
    local, far = here.address, there.address
    addresses = [str(far.ip + 50 + number) for number in range(3)]
    there.namespaces.ip(
        *(f"addr add {one}/{far.network.prefixlen} dev br-phy" for one in addresses)
    )
    switch = hosts(here, tunnel_types=["vxlan"], local_ip=str(local.ip))
    switch.driver.converge(Update(put=network(1, network_type="vxlan", segmentation_id=NUMBER)))
    instance = switch.instance(SENDER)
    switch.driver.observe(None)  # what was plugged is known
    with ExitStack() as stack:
        peers = [Peer(there, address, str(local.ip)) for address in addresses]
        wire = instance.call(open_wire, instance.device, 1 << 20)
        for opened in (wire, *(peer.socket for peer in peers)):
            stack.enter_context(opened)
        made = Site(switch, peers, wire)
        assert switch.driver.converge(made.wanted()).ok
        made.await_underlay()
        yield made


def forgotten(site: Site) -> bool:
    return site.receivers() == site.peers[:2]


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize("content", [ARP, REPLY, NEIGHBOUR], ids=["ARP", "ARP reply", "ND"])
def test_frames_go_to_the_host_that_announced_itself_and_to_all_when_it_is_silent(site, content):
    one, other, _ = site.peers
    assert site.receivers() == [one, other]
    for active in (one, other, one):

        def alone(active: Peer = active) -> bool:
            site.hear(active, content)
            return site.receivers() == [active]

        wait_until(alone, "frames to the active host alone")
        plan = site.switch.driver.plan(site.wanted(), site.switch.driver.observe(None))
        assert not plan, plan
    wait_until(lambda: forgotten(site), "frames to all hosts")


@pytest.fixture
def rarely_counted(site) -> Iterator[None]:
    """Make the switch count packets of cached flows, and learn from them, only if it has to."""
    ovs, interval = site.switch.ovs, "max-revalidator"
    ovs.vsctl("set", "Open_vSwitch", ".", f"other_config:{interval}=600000")
    yield
    ovs.vsctl("remove", "Open_vSwitch", ".", "other_config", interval)


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize("content", [ARP, REPLY, NEIGHBOUR], ids=["ARP", "ARP reply", "ND"])
def test_each_announcement_is_learned_before_it_is_delivered(site, rarely_counted, content):
    # This includes an announcement of a host that announced itself a moment ago.
    one, other, _ = site.peers
    learned = []
    for peer in (one, other) * 3:
        site.hear(peer, content)
        learned.append(site.learned())
    assert learned == learned[:2] * 3
    assert learned[0] != learned[1]


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize(
    "data", [frame(mac(SENDER), SHARED, 1), REQUEST], ids=["data", "ARP request"]
)
def test_other_frames_change_nothing_while_a_host_is_known(site, data):
    former, active, _ = site.peers

    def learned_from_data() -> bool:
        site.hear(former, data)
        return site.receivers() == [former]

    wait_until(learned_from_data, "frames to the host that sends")

    def announced() -> bool:
        site.hear(former, data)
        site.hear(active, ARP)
        # The switch counts the frames of the former host, and would learn from them again.
        site.switch.ovs.appctl("revalidator/wait")
        site.hear(former, data)
        return site.receivers() == [active]

    wait_until(announced, "frames to the host that announced itself")


@pytest.mark.spec("L2-61")
def test_a_host_without_the_mac_teaches_nothing(site):
    active, other, stranger = site.peers
    for forged in (ARP, NEIGHBOUR, frame(mac(SENDER), SHARED, 1)):
        site.hear(stranger, forged)
        assert site.receivers() == [active, other]

        def unimpressed(forged: bytes = forged) -> bool:
            site.hear(active, ARP)
            site.hear(stranger, forged)
            return site.receivers() == [active]

        wait_until(unimpressed, "frames to the active host alone")
        wait_until(lambda: forgotten(site), "frames to all hosts")


@pytest.mark.spec("L2-61")
def test_what_was_learned_has_no_effect_without_its_endpoint(site):
    one, other, stranger = site.peers
    driver = site.switch.driver
    site.hear(one, ARP)
    assert driver.converge(Update(put=site.entry(other))).ok
    assert site.receivers() == [other]
    assert driver.converge(Update(put=site.entry(one, other))).ok
    site.hear(one, ARP)
    assert driver.converge(Update(put=site.entry(other, stranger))).ok
    assert site.receivers() == [other, stranger]
    site.hear(stranger, ARP)
    assert driver.converge(Update(drop=frozenset({site.key}))).ok
    assert site.receivers() == site.peers
