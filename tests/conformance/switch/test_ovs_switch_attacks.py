"""Frames by which an instance would leave its network or deny others their addresses."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from ipaddress import ip_network
from itertools import islice, product

import pytest
from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import Tunnel
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress, Mac
from netfw.plan import Update
from netfw.testing.conformance.common.raw_socket import drain
from netfw.testing.conformance.switch import frames
from netfw.testing.conformance.switch.case import MakeDriver, SwitchCase
from netfw.testing.conformance.switch.environment import SwitchTestPort, a_network, wanted
from netfw.testing.conformance.switch.ovs_environment import OvsSwitchEnvironment, ovs_environment
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.pipeline.br_tun import LEARNT_AT_MOST
from netfw_drivers.ovs.pipeline.tunnel_tables import UNICAST
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from netfw_drivers.ovs.switch.plan.settings import MAX_MACS_PER_PORT

VICTIM_VLAN = 2005
INVENTED = 28_649
"""MAC addresses that one instance sent from in four seconds."""
LATER = Mac("fa:16:3e:98:00:01")
TAG_TYPES = (0x8100, 0x88A8)


def probe(mac: Mac, address: IpAddress) -> bytes:
    """Return a frame of duplicate address detection."""
    return frames.question(mac, type(address)(0), address)


def tagged(mac: Mac, token: bytes, *tags: tuple[int, int]) -> bytes:
    """Return a broadcast frame with these tags: types and VLANs, the outermost first."""
    head = b"".join(type.to_bytes(2) + vlan.to_bytes(2) for type, vlan in tags)
    return frames.BROADCAST + frames.raw(mac) + head + (b"\x88\xb5" + token).ljust(46, b"\0")


class TestOvsSwitchAttacks(SwitchCase):
    environment: OvsSwitchEnvironment

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsSwitchEnvironment]:
        with ovs_environment(OvsSwitchDriver) as environment:
            yield environment

    def received_of(
        self,
        sender: SwitchTestPort,
        sent: Collection[bytes],
        last: Collection[bytes],
        receivers: Collection[SwitchTestPort],
    ) -> bytes:
        """Send frames until each of *last* arrived somewhere; return all that arrived."""
        sockets = [self.environment.socket(port) for port in receivers]
        arrived = b""
        with self.environment.socket(sender) as wire:

            def arrive() -> bool:
                nonlocal arrived
                for each in (*sent, *last):
                    wire.send(each)
                arrived += b"".join(piece for ear in sockets for piece in islice(drain(ear), 200))
                return all(each in arrived for each in last)

            wait_until(arrive)
        for each in sockets:
            each.close()
        return arrived

    @pytest.mark.spec("L2-26")
    def test_a_guarded_port_probes_its_own_addresses_alone(self, driver: SwitchDriver) -> None:
        net = a_network()
        guarded, receiver = self.make_ports(net, 2)
        self.wire(driver, net, receiver)
        guard = frozenset(AllowedSource(guarded.mac, ip_network(a)) for a in guarded.addresses)
        wiring = evolve(guarded.wiring(), guard=guard)
        self.bring(driver, Update(put={guarded.key: wiring}))
        own = [probe(guarded.mac, address) for address in guarded.addresses]
        foreign = [probe(guarded.mac, address) for address in receiver.addresses]
        arrived = self.received_of(guarded, foreign, own, [receiver])
        assert not [each for each in foreign if each in arrived]

    def test_no_tag_behind_a_priority_tag_leaves_the_network(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        """Check that a VLAN of the physical network cannot be reached from a flat network."""
        (physical,) = self.environment.physical
        flat = a_network(NetworkType.FLAT, None, physical)
        vlan = a_network(NetworkType.VLAN, VICTIM_VLAN, physical)
        (attacker, neighbour) = self.make_ports(flat, 2)
        ((remote,), (victim,)) = self.make_ports(flat, 1, host=1), self.make_ports(vlan, 1, host=1)
        self.wire(driver, flat, attacker, neighbour)
        self.wire(make_driver(1), flat, vlan, remote, victim)
        nested = [
            tagged(attacker.mac, b"nested", (outer, 0), *deeper, (inner, VICTIM_VLAN))
            for outer, inner in product(TAG_TYPES, TAG_TYPES)
            for deeper in ((), ((0x8100, 0),), ((0x88A8, 0), (0x8100, 0)))
        ]
        plain, token = tagged(attacker.mac, b"plain"), b"nested"
        arrived = self.received_of(attacker, nested, [plain], [remote, neighbour, victim])
        assert token not in arrived
        with self.environment.socket(attacker) as wire, self.environment.socket(remote) as ear:
            single = tagged(attacker.mac, b"single", (0x8100, 0))

            def arrive() -> bool:
                wire.send(single)
                return any(b"single" in piece for piece in islice(drain(ear), 200))

            wait_until(arrive, "a priority tag alone is no network")

    def test_learned_senders_of_a_network_are_bounded(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        """Check that an instance with many MAC addresses fills the share of its network alone."""
        kind = NetworkType.VXLAN
        red, blue = a_network(kind, 7), a_network(kind, 8)
        (near,) = self.make_ports(red, 1)
        (attacker,), (other,) = self.make_ports(red, 1, host=1), self.make_ports(blue, 1, host=1)
        (blue_near,) = self.make_ports(blue, 1)
        here, there = (self.environment.endpoint(kind, host) for host in (0, 1))
        mine = {**wanted(red, blue, near, blue_near), there: Tunnel("host2", mesh=True)}
        theirs = {**wanted(red, blue, attacker, other), here: Tunnel("host1", mesh=True)}
        self.bring(driver, Update(put=mine))
        self.bring(make_driver(1), Update(put=theirs))
        wait_until(lambda: self.flood(attacker) >= LEARNT_AT_MOST)
        # Threads of the switch may learn some at the same moment.
        assert self.flood(attacker) < LEARNT_AT_MOST + 100
        self.check_learned_again(attacker)
        with self.environment.socket(other) as wire:

            def learned() -> bool:
                wire.send(tagged(other.mac, b"sender"))
                return any(other.mac in line for line in self.learned(8))

            wait_until(learned, "another network has a share of its own")
        left = {**wanted(blue, blue_near), there: Tunnel("host2", mesh=True)}
        without_red = Update(put=left, complete=True)
        self.bring(driver, without_red)
        assert self.learned(7), "they expire by themselves"
        assert isinstance(driver, OvsSwitchDriver)
        assert not driver.plan(without_red, driver.observe(None)).stages

    def test_the_mac_addresses_of_a_port_without_anti_spoofing_are_bounded(
        self, driver: SwitchDriver, make_driver: MakeDriver
    ) -> None:
        """Check that other hosts learn few of the MACs that one port invents, and all of others."""
        kind = NetworkType.VXLAN
        red = a_network(kind, 9)  # other tests have left learned flows of theirs
        (near,) = self.make_ports(red, 1)
        attacker, neighbour = self.make_ports(red, 2, host=1)
        here, there = (self.environment.endpoint(kind, host) for host in (0, 1))
        far = make_driver(1)
        for one, ports, peer in ((driver, [near], there), (far, [attacker, neighbour], here)):
            values = {**wanted(red, *ports), peer: Tunnel("peer", mesh=True)}
            values |= {port.key: evolve(port.wiring(), open=True) for port in ports}
            self.bring(one, Update(put=values, complete=True))
        self.send_from_many(attacker, INVENTED)
        wait_until(lambda: len(self.learned(9)) >= MAX_MACS_PER_PORT)
        # Threads of the switch may learn some at the same moment; two more are no attacker's.
        assert len(self.learned(9)) < MAX_MACS_PER_PORT + 50
        for port in (attacker, neighbour):
            own = tagged(port.mac, b"own")
            arrived = self.received_of(port, [tagged(LATER, b"later")], [own], [near])
            assert (b"later" in arrived) == (port is neighbour)
            wait_until(lambda mac=port.mac: any(mac in line for line in self.learned(9)))
        values = {**wanted(red, attacker, neighbour), here: Tunnel("peer", mesh=True)}
        self.bring(far, Update(put=values, complete=True))
        assert isinstance(far, OvsSwitchDriver)
        assert not far.plan(Update(put=values, complete=True), far.observe(None)).stages

    def flood(self, attacker: SwitchTestPort) -> int:
        """Send from more MAC addresses than are learned; return how many are."""
        self.send_from_many(attacker, 3 * LEARNT_AT_MOST)
        return len(self.learned(7))

    def send_from_many(self, attacker: SwitchTestPort, count: int) -> None:
        """Send a frame from each of *count* MAC addresses."""
        with self.environment.socket(attacker) as wire:
            for number in range(count):
                mac = Mac(f"fa:16:3e:99:{number >> 8:02x}:{number & 255:02x}")
                wire.send(tagged(mac, b"sender"))
                if number % 64 == 63:
                    time.sleep(0.005)  # no queue on the way is longer

    def check_learned_again(self, attacker: SwitchTestPort) -> None:
        """Check that the tunnel of a learned sender is corrected, beyond the limit, too."""
        known = Mac(self.learned(7)[0].partition("dl_dst=")[2][:17])
        match = f"table={UNICAST.number},reg0=0x4/0xe,tun_id=7,dl_dst={known}"
        elsewhere = f"{match},actions=load:99->NXM_NX_REG1[]"
        self.environment.hosts[0].ovs.ofctl("-OOpenFlow14", "mod-flows", "br-tun", elsewhere)
        with self.environment.socket(attacker) as wire:

            def corrected() -> bool:
                wire.send(tagged(known, b"sender"))
                return not any("0x63->" in line for line in self.learned(7))

            wait_until(corrected, "a known sender is learned again")
        assert len(self.learned(7)) < LEARNT_AT_MOST + 100

    def learned(self, number: int) -> list[str]:
        """Return the learned flows of a tunnel id on the first host."""
        ovs = self.environment.hosts[0].ovs
        dumped = ovs.ofctl("-OOpenFlow14", "dump-flows", "br-tun", f"table={UNICAST.number}")
        word = f"tun_id={number:#x},"
        return [line for line in dumped.splitlines() if "hard_timeout=" in line and word in line]
