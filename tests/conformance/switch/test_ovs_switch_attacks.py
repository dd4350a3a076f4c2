"""Frames by which an instance would leave its network or deny others their addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import ip_network
from itertools import islice, product

import pytest
from attrs import evolve

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.model.address import IpAddress, Mac
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.raw_socket import drain
from netfw.testing.conformance.switch import frames
from netfw.testing.conformance.switch.case import MakeDriver, SwitchSuite
from netfw.testing.conformance.switch.environment import SwitchTestPort, a_network
from netfw.testing.lab.wait import wait_until
from tests.conformance.switch.test_ovs_switch import OvsSwitchEnvironment, ovs_environment

VICTIM_VLAN = 2005
TAG_TYPES = (0x8100, 0x88A8)


def probe(mac: Mac, address: IpAddress) -> bytes:
    """Return a frame of duplicate address detection."""
    return frames.question(mac, type(address)(0), address)


def tagged(mac: Mac, token: bytes, *tags: tuple[int, int]) -> bytes:
    """Return a broadcast frame with these tags: types and VLANs, the outermost first."""
    head = b"".join(type.to_bytes(2) + vlan.to_bytes(2) for type, vlan in tags)
    return frames.BROADCAST + frames.raw(mac) + head + (b"\x88\xb5" + token).ljust(46, b"\0")


class TestOvsSwitchAttacks(SwitchSuite):
    environment: OvsSwitchEnvironment

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[OvsSwitchEnvironment]:
        with ovs_environment() as environment:
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
