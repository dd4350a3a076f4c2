"""One driver at a time works in a directory."""

from __future__ import annotations

import os
import time

import pytest

from netfw.drivers.values.events import FeedLost
from netfw.errors import BackendLocked
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import make_network, wanted
from tests.lab.backends.dnsmasq.environment import DnsmasqHost


@pytest.mark.spec("DHCP-40")
def test_a_second_driver_touches_nothing_until_the_first_has_ended(host: DnsmasqHost) -> None:
    net = make_network()
    port, other = net.tenant(20), net.tenant(21)
    assert host.put(net, port).ok
    before, pid, first = host.stamps(net), host.pid(net), host.driver
    second = host.make_driver()
    for update in (Update(put=wanted(net, other)), Update(complete=True)):
        with pytest.raises(BackendLocked, match=rf"process {os.getpid()} .*\(dhcp_confs\)"):
            second.converge(update)
        with pytest.raises(BackendLocked):
            second.apply(second.plan(update, second.observe(None)), lambda stage: None)
    assert (host.stamps(net), host.pid(net)) == (before, pid)
    assert second.present() == {net.key, port.key}, "who only reads needs no right"
    assert host.put(other).ok, "and the first goes on"
    first.close()
    host.driver = second
    deadline = time.monotonic() + 60
    while not any(isinstance(event, FeedLost) for event in host.events):
        assert time.monotonic() < deadline, "nobody said that it is the second's turn"
        time.sleep(0.02)
    everything = Update(put=wanted(net, port, other), complete=True)
    assert second.converge(everything).ok
    assert host.pid(net) == pid
    lease = host.lease(other)
    assert lease is not None
    assert lease.ip == other.ip


def test_planning_takes_no_lock(host: DnsmasqHost) -> None:
    net = make_network()
    looking = host.make_driver()
    update = Update(put=wanted(net))
    assert looking.plan(update, looking.observe(None))
    assert looking.present() == frozenset()
    assert host.put(net).ok
    looking.close()
