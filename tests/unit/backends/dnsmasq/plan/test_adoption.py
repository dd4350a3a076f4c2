"""Networks that a former agent served, of whose namespaces the devices were read alone."""

from __future__ import annotations

from attrs import evolve

from netfw.testing.conformance.dhcp.factories import ServedNetwork, make_network
from netfw_drivers.dnsmasq.plan.observed import Observed
from tests.unit.backends.dnsmasq.plan.samples import found_network, planned


def test_adopted_network_with_changes_needs_a_full_observation() -> None:
    net = make_network()
    observed = adopted(found_network(net), net)
    assert not planned(observed, net).needs_full_observation
    assert not planned(observed, net.tenant()).needs_full_observation
    elsewhere = net.with_subnet(0, gateway=net.subnets[0].cidr[77])
    assert planned(observed, elsewhere).needs_full_observation
    assert not planned(found_network(net), elsewhere).needs_full_observation
    stopped = adopted(found_network(net, runs=False), net)
    assert planned(stopped, net).needs_full_observation


def adopted(observed: Observed, net: ServedNetwork) -> Observed:
    """Return the same state with a namespace of which only the devices were read."""
    found = observed.networks[net.id]
    assert found.netns is not None
    devices = evolve(found.netns, sysctls={}, rules=None, devices_only=True)
    return evolve(observed, networks={net.id: evolve(found, netns=devices)})
