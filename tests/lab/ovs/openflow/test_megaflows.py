"""A change of flows is in force for the next packet, whatever megaflows there were."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from ipaddress import IPv4Address

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import FlowChanges, OpenFlow, difference, encode_flows
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.lab.ovs.openflow.openflow_peer import Peer, Relay

IN, FORMER, PRESENT = 1, 2, 3
"""Ports of the switch: where packets come in, and two that flows send them to."""
SOURCE = bytes.fromhex("0200000000aa")


def frame(destination: str) -> bytes:
    addresses = IPv4Address("10.9.9.9").packed + IPv4Address(destination).packed
    header = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + addresses
    ethernet = bytes.fromhex("0200000000bb") + SOURCE + b"\x08\x00"
    return ethernet + header + struct.pack("!4H", 1, 2, 8, 0)


class Switch:
    """The switch, and the devices of its ports."""

    def __init__(self, ovs: PrivateOvs, client: OpenFlow, devices: ExitStack) -> None:
        self.ovs, self.client = ovs, client
        self._sockets = {port: devices.enter_context(self._open(port)) for port in (1, 2, 3)}

    def _open(self, port: int) -> socket.socket:
        name = f"mega{port}"
        self.ovs.vsctl(
            *("add-port", "br0", name, "--", "set", "Interface", name),
            *("type=internal", f"ofport_request={port}"),
        )
        self.ovs.run("ip", "link", "set", name, "up")
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        found.bind((name, 0x0800))
        return found

    def lead(self, prefixes: Mapping[str, int]) -> None:
        """Lead *prefixes* to ports, and nothing else; wait until megaflows were compared."""
        self.change(prefixes)
        self.ovs.appctl("revalidator/wait")

    def change(self, prefixes: Mapping[str, int]) -> None:
        """Lead *prefixes* to ports, and nothing else."""
        flows = [
            of.Flow(
                table=0,
                priority=10,
                match=of.in_port(IN) & of.ipv4() & of.ipv4_dst(prefix),
                actions=(of.output(port),),
                cookie=1,
            )
            for prefix, port in prefixes.items()
        ]
        self.client.commit(difference(encode_flows(flows), self.client.flows()))

    def leads(self, destination: str) -> int:
        """Send a packet to *destination*; return the port that it leaves by."""
        self._sockets[IN].send(frame(destination))
        waiting = {self._sockets[port]: port for port in (FORMER, PRESENT)}
        while True:
            ready, _, _ = select.select(list(waiting), [], [], TIMEOUT)
            assert ready, self.ovs.appctl("dpctl/dump-flows", "netdev@ovs-netdev")
            if ready[0].recv(2000)[6:12] == SOURCE:
                return waiting[ready[0]]

    def megaflows(self) -> list[str]:
        """Return the megaflows of packets to one destination."""
        dumped = self.ovs.appctl("dpctl/dump-flows", "netdev@ovs-netdev")
        return [line for line in dumped.splitlines() if "dst=10.2.0.2" in line]

    def keep_megaflows(self) -> None:
        """Keep unused megaflows, however long the test takes."""
        lasting = ("other_config:max-idle=600000", "other_config:max-revalidator=60000")
        self.ovs.vsctl("set", "Open_vSwitch", ".", *lasting)


@pytest.fixture
def switch(ovs: PrivateOvs, client: OpenFlow) -> Iterator[Switch]:
    with ExitStack() as devices:
        yield Switch(ovs, client, devices)


@pytest.mark.spec("L2-20")
def test_no_packet_is_handled_by_flows_of_before(switch: Switch) -> None:
    # There are two overlapping megaflows, and the actions of both change.
    first = {"10.2.0.0/16": FORMER}  # its megaflow makes the switch try /16 before /24
    switch.lead(first | {"10.1.0.0/16": FORMER})
    assert switch.leads("10.2.0.2") == FORMER
    switch.lead(first | {"10.1.2.0/24": FORMER})
    assert switch.leads("10.2.0.2") == switch.leads("10.1.2.2") == FORMER
    switch.lead(first | {"10.1.0.0/16": FORMER})
    assert switch.leads("10.1.0.2") == FORMER
    switch.lead(first | {"10.1.0.0/16": PRESENT})
    switch.lead(first | {"10.1.2.0/24": PRESENT})
    assert switch.leads("10.1.2.2") == PRESENT


@pytest.mark.spec("L2-20")
def test_what_could_not_be_deleted_is_deleted_with_the_next_change(
    switch: Switch, caplog: pytest.LogCaptureFixture
) -> None:
    switch.keep_megaflows()
    switch.change({"10.2.0.0/16": FORMER})
    assert switch.leads("10.2.0.2") == FORMER
    wait_until(switch.megaflows)
    pid_file, hidden = (switch.ovs.directory / name for name in ("ovs-vswitchd.pid", "hidden"))
    pid = pid_file.read_text()
    pid_file.rename(hidden)
    for prefix in ("10.3.0.0/16", "10.4.0.0/16"):
        switch.change({"10.2.0.0/16": FORMER, prefix: FORMER})
    assert len([each for each in caplog.messages if "outdated megaflows" in each]) == 1
    pid_file.write_text(pid)
    assert switch.megaflows()
    switch.change({"10.2.0.0/16": FORMER})
    assert not switch.megaflows()


@pytest.mark.spec("L2-20")
def test_megaflows_are_deleted_after_a_commit_of_unknown_outcome(switch: Switch) -> None:
    relay = Relay(switch.ovs.management("br0"))
    peer = Peer(relay, switch.ovs.directory / "relay.mgmt")
    client = switch.client = OpenFlow(peer.target)
    try:
        client.wait_connected()
        switch.keep_megaflows()
        switch.change({"10.2.0.0/16": FORMER})
        assert switch.leads("10.2.0.2") == FORMER
        wait_until(switch.megaflows)
        relay.loses_answers = True
        with pytest.raises(BackendUnavailable):
            switch.change({"10.2.0.0/16": FORMER, "10.3.0.0/16": FORMER})
        relay.loses_answers = False
        assert switch.megaflows()
        client.wait_connected()
        client.commit(FlowChanges())
        assert not switch.megaflows()
    finally:
        client.close()
        peer.close()
