"""The ears and mouths of the switch suite are right about what they hear, on a plain switch."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.testing.conformance.switch.environment import SwitchTestPort, a_network, among
from netfw.testing.conformance.switch.lab_environment import LabSwitchPorts
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab

PAUSE = 0.7
"""Seconds that a switch may well have to wait for its turn on a busy machine."""


class TaggedPorts(LabSwitchPorts):
    """A learning switch whose ports are kept apart by tags."""

    def plug_in(self, port: SwitchTestPort, instance: Instance) -> None:
        device = f"tap{port.number}"
        instance.plug(Plug(bridge="br-int", device=device, mac=port.mac, tag=1))

    def take_out(self, *ports: SwitchTestPort) -> None:
        for port in ports:
            self.hosts[0].ovs.vsctl("del-port", f"tap{port.number}")
            self.hosts[0].namespaces.ip(f"link del tap{port.number}")

    def tag(self, port: SwitchTestPort, tag: int) -> None:
        self.set("set", "Port", f"tap{port.number}", f"tag={tag}")

    def set(self, *arguments: str) -> None:
        """Change the database, in effect for the next packet: cached datapath flows are purged."""
        self.hosts[0].ovs.vsctl(*arguments)
        self.hosts[0].ovs.appctl("revalidator/purge")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the switch at the beginning of the block, for some time."""
        pid = int((self.hosts[0].ovs.directory / "ovs-vswitchd.pid").read_text())
        resume = threading.Timer(PAUSE, os.kill, (pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        resume.start()
        yield
        resume.join()


@pytest.fixture(scope="module")
def shared() -> Iterator[TaggedPorts]:
    with Lab(1, bridges=["br-int"]) as lab:
        yield TaggedPorts(lab)


@pytest.fixture
def environment(shared: TaggedPorts) -> Iterator[TaggedPorts]:
    yield shared
    shared.clear()


@pytest.fixture
def ports(environment: TaggedPorts) -> tuple[SwitchTestPort, SwitchTestPort, SwitchTestPort]:
    net = a_network()
    one, two, three = (SwitchTestPort(number=number, net=net) for number in (1, 2, 3))
    environment.plug(one, two, three)
    return one, two, three


def test_exchange_returns_the_pairs_that_receive_now(environment, ports):
    one, two, three = ports
    environment.tag(three, 9)
    with environment.probe_traffic(one, two, three) as probe:
        assert probe.exchange(among(one, two)) == among(one, two)
        environment.tag(three, 1)
        assert probe.exchange(among(*ports)) == among(*ports)
        environment.tag(one, 9)
        assert probe.exchange(among(two, three)) == among(two, three)
        assert probe.ever_received == among(*ports)


def test_nothing_is_lost_while_nothing_happens(environment, ports):
    with environment.probe_traffic(*ports) as probe:
        for _ in range(10):
            probe.exchange(among(*ports))
        assert probe.lost(*among(*ports)) == 0


def test_a_short_break_is_a_loss(environment, ports):
    one, two, three = ports
    with environment.probe_traffic(*ports) as probe:
        probe.exchange(among(*ports))
        environment.tag(three, 9)
        probe.exchange(among(one, two))
        environment.tag(three, 1)
        probe.exchange(among(*ports))
        assert probe.lost(*among(one, two)) == 0
        assert probe.lost((one, three)) > 0


def test_what_is_heard_for_a_moment_is_overheard(environment, ports):
    one, two, three = ports
    environment.tag(three, 9)
    with environment.probe_traffic(*ports) as probe:
        probe.exchange(among(one, two))
        assert probe.ever_received == among(one, two)
        environment.tag(three, 1)
        probe.exchange(among(*ports))
        environment.tag(three, 9)
        assert probe.exchange(among(one, two)) == among(one, two)
        assert (one, three) in probe.ever_received


def test_a_forged_tag_leads_through_a_trunk(environment, ports):
    one, two, three = ports
    for port, tag in ((two, 7), (three, 8)):
        environment.tag(port, tag)
    with environment.probe_traffic(*ports) as probe:
        assert probe.exchange() == frozenset()
        environment.set("clear", "Port", "tap1", "tag")
        probe.forge(one, vlans=range(4096))
        probe.exchange([(two, one), (three, one)])
        assert {(one, two), (one, three)} <= probe.ever_received


def test_forged_address_hides_no_port(environment, ports):
    one, two, thief = ports
    environment.tag(one, 9)
    with environment.probe_traffic(*ports) as probe:
        probe.exchange(among(two, thief))
        assert (thief, two) in probe.ever_received
        probe.forge(thief, source=one.mac)
        assert probe.exchange(among(two, thief)) == among(two, thief)
        assert probe.ever_received == among(two, thief)


@pytest.mark.parametrize("family", ["address", "address6"])
def test_claims_and_questions(environment, ports, family):
    one, two, three = ports
    environment.tag(three, 9)
    address = getattr(one, family)
    assert environment.announces(one, one.mac, address, two, expected=True)
    assert not environment.announces(one, one.mac, address, three, expected=False)
    instance = environment.plugged[one]
    prefix = 16 if family == "address" else 64
    instance.configure([f"{address}/{prefix}"])
    assert environment.resolve(two, address, expected=True) == one.mac
    assert environment.resolve(two, getattr(two, family) + 77, expected=False) is None
    assert environment.resolve(three, address, expected=False) is None


def test_what_is_hoped_for_is_waited_for(environment, ports):
    one, two, _ = ports
    environment.plugged[one].configure([f"{one.address}/16"])
    with environment.paused():
        assert environment.announces(two, two.mac, two.address, one, expected=True)
    with environment.paused():
        assert environment.resolve(two, one.address, expected=True) == one.mac
    with environment.paused(), environment.probe_traffic(one, two) as probe:
        assert probe.exchange(among(one, two)) == among(one, two)
