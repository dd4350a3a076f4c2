"""The second host of the lab is on the networks of the first one, until it is cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.plan import Update
from netfw.testing.conformance.router.case import emptied
from netfw.testing.conformance.router.factories import make_site
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = pytest.mark.services


@pytest.fixture
def environment() -> Iterator[LinuxRouterEnvironment]:
    with LinuxRouterEnvironment() as lab:
        yield lab


def test_a_router_of_the_second_host_serves_machines_of_both(environment) -> None:
    blank, peer, site = emptied(environment), environment.peer(), make_site()
    assert emptied(environment) == blank, "the second host is not on the first one"
    driver, blank_peer = peer.make_driver(), emptied(peer)
    peer.admit(site.ports)
    wait_until(lambda: driver.converge(Update(put=site.wanted())).ok)
    peer.await_wired(site.ports)
    assert environment.found(site.router, site.ports) is None
    assert peer.found(site.router, site.ports) is not None
    net, external = site.nets[0], site.external
    near = environment.machine(net.id, net.interfaces(20), net.gateways())
    far = peer.machine(net.id, net.interfaces(21), net.gateways())
    outside = environment.machine(external.id, external.interfaces(1), (site.outside_address,))
    sent = peer.sent_frames(site.ports)
    for version in (4, 6):
        for machine in (near, far):
            wait_until(lambda m=machine, v=version: m.reach(net.address(1, v)))
            assert machine.count_answers(net.address(1, version)) == 1
    assert wait_until(lambda: far.reach(external.address(1))).at == outside.name
    assert peer.sent_frames(site.ports) > sent
    with environment.cut_off():
        assert near.reach(net.address(1)) is None
        assert near.count_answers(net.address(1)) == 0
        wait_until(lambda: far.reach(net.address(1)))
    wait_until(lambda: near.reach(net.address(1)))
    peer.killed(driver)
    for host, before in ((environment, blank), (peer, blank_peer)):
        host.dismiss()
        assert emptied(host) == before
