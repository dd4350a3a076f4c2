"""The ears and mouths of the switch suite are right about what they hear, on a plain switch."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.testing.conformance.switch.environment import SwitchTestPort, a_network, among
from netfw.testing.conformance.switch.lab_environment import LabStations
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab

PAUSE = 0.7
"""Seconds that a switch may well have to wait for its turn on a busy machine."""


class PlainWorld(LabStations):
    """A learning switch whose ports are kept apart by tags."""

    def plug_in(self, station: SwitchTestPort, instance: Instance) -> None:
        device = f"tap{station.number}"
        instance.plug(Plug(bridge="br-int", device=device, mac=station.mac, tag=1))

    def take_out(self, *stations: SwitchTestPort) -> None:
        for station in stations:
            self.hosts[0].ovs.vsctl("del-port", f"tap{station.number}")
            self.hosts[0].place.ip(f"link del tap{station.number}")

    def tag(self, station: SwitchTestPort, tag: int) -> None:
        self.set("set", "Port", f"tap{station.number}", f"tag={tag}")

    def set(self, *arguments: str) -> None:
        """In effect for the next packet: the switch remembers what it did with those before."""
        self.hosts[0].ovs.vsctl(*arguments)
        self.hosts[0].ovs.appctl("revalidator/purge")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The switch gets no processor for some time that begins here."""
        pid = int((self.hosts[0].ovs.directory / "ovs-vswitchd.pid").read_text())
        resume = threading.Timer(PAUSE, os.kill, (pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        resume.start()
        yield
        resume.join()


@pytest.fixture(scope="module")
def shared() -> Iterator[PlainWorld]:
    with Lab(1, bridges=["br-int"]) as lab:
        yield PlainWorld(lab)


@pytest.fixture
def world(shared: PlainWorld) -> Iterator[PlainWorld]:
    yield shared
    shared.clear()


@pytest.fixture
def stations(world: PlainWorld) -> tuple[SwitchTestPort, SwitchTestPort, SwitchTestPort]:
    net = a_network()
    one, two, three = (SwitchTestPort(number=number, net=net) for number in (1, 2, 3))
    world.plug(one, two, three)
    return one, two, three


def test_an_exchange_is_who_hears_whom_now(world, stations):
    one, two, three = stations
    world.tag(three, 9)
    with world.gossip(one, two, three) as gossip:
        assert gossip.exchange(among(one, two)) == among(one, two)
        world.tag(three, 1)
        assert gossip.exchange(among(*stations)) == among(*stations)
        world.tag(one, 9)
        assert gossip.exchange(among(two, three)) == among(two, three)
        assert gossip.overheard == among(*stations)


def test_nothing_is_lost_while_nothing_happens(world, stations):
    with world.gossip(*stations) as gossip:
        for _ in range(10):
            gossip.exchange(among(*stations))
        assert gossip.lost(*among(*stations)) == 0


def test_a_short_break_is_a_loss(world, stations):
    one, two, three = stations
    with world.gossip(*stations) as gossip:
        gossip.exchange(among(*stations))
        world.tag(three, 9)
        gossip.exchange(among(one, two))
        world.tag(three, 1)
        gossip.exchange(among(*stations))
        assert gossip.lost(*among(one, two)) == 0
        assert gossip.lost((one, three)) > 0


def test_what_is_heard_for_a_moment_is_overheard(world, stations):
    one, two, three = stations
    world.tag(three, 9)
    with world.gossip(*stations) as gossip:
        gossip.exchange(among(one, two))
        assert gossip.overheard == among(one, two)
        world.tag(three, 1)
        gossip.exchange(among(*stations))
        world.tag(three, 9)
        assert gossip.exchange(among(one, two)) == among(one, two)
        assert (one, three) in gossip.overheard


def test_a_forged_tag_leads_through_a_trunk(world, stations):
    one, two, three = stations
    for station, tag in ((two, 7), (three, 8)):
        world.tag(station, tag)
    with world.gossip(*stations) as gossip:
        assert gossip.exchange() == frozenset()
        world.set("clear", "Port", "tap1", "tag")
        gossip.forge(one, vlans=range(4096))
        gossip.exchange([(two, one), (three, one)])
        assert {(one, two), (one, three)} <= gossip.overheard


def test_a_forged_address_hides_nobody(world, stations):
    one, two, thief = stations
    world.tag(one, 9)
    with world.gossip(*stations) as gossip:
        gossip.exchange(among(two, thief))
        assert (thief, two) in gossip.overheard
        gossip.forge(thief, source=one.mac)
        assert gossip.exchange(among(two, thief)) == among(two, thief)
        assert gossip.overheard == among(two, thief)


@pytest.mark.parametrize("family", ["address", "address6"])
def test_claims_and_questions(world, stations, family):
    one, two, three = stations
    world.tag(three, 9)
    address = getattr(one, family)
    assert world.claims(one, one.mac, address, two, hoped=True)
    assert not world.claims(one, one.mac, address, three, hoped=False)
    instance = world.plugged[one]
    prefix = 16 if family == "address" else 64
    instance.configure([f"{address}/{prefix}"])
    assert world.ask(two, address, hoped=True) == one.mac
    assert world.ask(two, getattr(two, family) + 77, hoped=False) is None
    assert world.ask(three, address, hoped=False) is None


def test_what_is_hoped_for_is_waited_for(world, stations):
    one, two, _ = stations
    world.plugged[one].configure([f"{one.address}/16"])
    with world.paused():
        assert world.claims(two, two.mac, two.address, one, hoped=True)
    with world.paused():
        assert world.ask(two, one.address, hoped=True) == one.mac
    with world.paused(), world.gossip(one, two) as gossip:
        assert gossip.exchange(among(one, two)) == among(one, two)
