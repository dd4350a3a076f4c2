"""How long a stream outlives its rule when nobody empties the cache of the switch."""

import threading
import time
from ipaddress import ip_network

import pytest

from netfw.plan import Update
from tests.lab.backends.ovs.firewall.environment import (
    IN,
    OUT,
    UDP,
    V4,
    V6,
    everything,
    group,
    port,
    rule,
)

LIMIT, SILENCE, TIMEOUT = 5.0, 0.25, 60.0
"""Seconds; the limit is less than the switch keeps a flow of its cache that nothing uses."""
BURST, PAUSE = 5, 0.01
HOSTS = {V4: ("10.0.0.1", "10.0.0.2"), V6: ("fd00:1::1", "fd00:1::2")}
BEYOND = {V4: "10.0.0.2/31", V6: "fd00:1::2/127"}
"""Instance 1, who asks, is not in it."""


class Stream:
    """Bursts of datagrams from one socket to another, about 500 in a second."""

    def __init__(self, sender, receiver) -> None:
        self.sender, self.receiver = sender, receiver
        self.speaks, self.over = threading.Event(), threading.Event()
        self.count, self.last = 0, 0.0
        receiver.settimeout(0.1)
        self.threads = [threading.Thread(target=each) for each in (self.send, self.receive)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def send(self) -> None:
        while not self.over.wait(PAUSE):
            for _ in range(BURST if self.speaks.is_set() else 0):
                self.sender.sendto(b"x", self.receiver.getsockname())

    def receive(self) -> None:
        while not self.over.is_set():
            try:
                self.receiver.recv(99)
            except TimeoutError:
                continue
            self.count, self.last = self.count + 1, time.monotonic()

    def flows(self, packets: int = 20) -> bool:
        """Return whether some more packets arrive before long."""
        wanted, deadline = self.count + packets, time.monotonic() + TIMEOUT
        while self.count < wanted and time.monotonic() < deadline:
            time.sleep(0.002)
        return self.count >= wanted

    def outlives(self, moment: float) -> float:
        """Return the seconds from *moment* to the last packet before silence or the limit."""
        while time.monotonic() < moment + LIMIT + SILENCE:
            if time.monotonic() - max(self.last, moment) > SILENCE:
                break
            time.sleep(0.002)
        return max(0.0, self.last - moment)


def converge_at(host, put) -> float:
    """Converge, and return the time when it was done; unlike `filter`, nothing is purged."""
    outcome = host.firewall.converge(Update(put=put))
    assert outcome.ok, outcome
    return time.monotonic()


def changes(family):
    """Yield rules that allow the stream, and rules that do not allow it any more."""
    requested = {"protocol": UDP, "port_min": 800, "port_max": 800}
    other = rule(IN, family, protocol=UDP, port_min=600, port_max=700)
    anything = rule(IN, family)
    beyond = rule(IN, family, remote_prefix=ip_network(BEYOND[family]))
    yield [anything], []
    yield [rule(IN, family, **requested)], [other]
    yield [anything, beyond], [beyond]
    yield [rule(IN, family, **requested), beyond], [beyond, other]


@pytest.mark.spec("FW-04", "FW-09")
@pytest.mark.parametrize("questions", ["that go on", "that have ended"])
@pytest.mark.parametrize("family", [V4, V6])
def test_a_stream_ends_soon_after_its_rule(pair, family, questions):
    # This holds both ways; where one asks no more, answers alone refresh the switch's cache.
    converge_at(pair, {**port(1, 1), **port(2, 2), **group(1, *everything(OUT)), **group(2)})
    one, two = HOSTS[family]
    asker, answerer = pair.udp(1, one, 4800), pair.udp(2, two, 800)
    lived = []
    with Stream(asker, answerer) as forth, Stream(answerer, asker) as back:
        back.speaks.set()
        for allows, denies in [*changes(family)] * 2:
            forth.speaks.set()
            converge_at(pair, group(2, *allows))
            assert forth.flows()
            assert back.flows()
            if questions == "that have ended":
                forth.speaks.clear()
                assert back.flows(200)
            revoked = converge_at(pair, group(2, *denies))
            lived += [stream.outlives(revoked) for stream in (forth, back)]
    assert max(lived) < LIMIT, sorted(lived)
