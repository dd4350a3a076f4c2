"""Whoever is refused after a restart stays as it was, and shields nobody else."""

import re

import pytest
from attrs import evolve

from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import Admission
from netfw.plan import Update
from tests.lab.backends.ovs.switch.environment import mac, network, network_id, port, port_id

BROADCAST = "dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x9999"


def key(number: int) -> PortKey:
    return PortKey(port_id(number))


def leaves(host, number: int, packet: str = BROADCAST) -> set[str]:
    return set(host.ovs.leaves_by("br-int", f"in_port=tap{number},dl_src={mac(number)},{packet}"))


def with_mac_of(number: int, other: int) -> dict:
    (value,) = port(number, 1).values()
    return {key(number): evolve(value, mac=mac(other))}


@pytest.fixture
def two_networks(one):
    """Return a host with ports 1 and 2 on network 1, and 3 and 4 on network 2."""
    one.driver.converge(Update(put={**network(1), **network(2)}))
    for number in (1, 2, 3, 4, 5):
        one.instance(number)
    one.driver.observe(None)  # what was plugged is known
    one.wanted = {**network(1), **port(1, 1), **port(2, 1)}
    rest = {**network(2), **port(3, 2), **port(4, 2)}
    outcome = one.driver.converge(Update(put={**one.wanted, **rest}, complete=True))
    assert outcome.ok, outcome
    return one


def test_a_port_refused_after_a_restart_keeps_no_removed_port_alive(two_networks):
    host = two_networks
    host.start()
    outcome = host.driver.converge(Update(put={**host.wanted, **with_mac_of(2, 1)}, complete=True))
    assert outcome.failed.keys() == {key(2)}
    assert (leaves(host, 1), leaves(host, 3)) == ({"tap2"}, set())
    assert host.driver.present() == {NetworkKey(network_id(1)), key(1), key(2)}
    assert host.driver.converge(Update(put={**network(3), **port(5, 3)})).ok
    assert (leaves(host, 3), leaves(host, 5)) == (set(), set())


def test_a_dead_port_refused_after_a_restart_keeps_no_removed_port_alive(two_networks):
    host = two_networks
    host.driver.converge(Update(put=port(2, 1, Admission.DEAD)))
    host.start()
    outcome = host.driver.converge(Update(put={**host.wanted, **with_mac_of(2, 1)}, complete=True))
    assert outcome.failed.keys() == {key(2)}
    assert (leaves(host, 1), leaves(host, 2), leaves(host, 3)) == (set(), set(), set())
    assert host.driver.present() == {NetworkKey(network_id(1)), key(1), key(2)}


@pytest.mark.parametrize(("taker", "owner"), [(1, 2), (2, 1)])
def test_the_port_that_has_an_address_keeps_it(two_networks, taker, owner):
    host = two_networks
    for _ in ("running", "restarted"):
        outcome = host.driver.converge(
            Update(put={**host.wanted, **with_mac_of(taker, owner)}, complete=True)
        )
        assert outcome.failed.keys() == {key(taker)}
        assert leaves(host, taker, f"dl_dst={mac(owner)},dl_type=0x9999") == {f"tap{owner}"}
        host.start()


def test_a_text_that_is_no_record_does_no_harm_and_is_removed(two_networks):
    host = two_networks
    ids = host.ovs.vsctl("get", "Bridge", "br-int", "external_ids:netfw-vlan-1").strip().strip('"')
    host.ovs.vsctl("remove", "Bridge", "br-int", "external_ids", "netfw-vlan-1")
    for number in ("5000", "-3", "0", "4095", "02"):
        host.ovs.vsctl("set", "Bridge", "br-int", f'external_ids:netfw-vlan-{number}="{ids}"')
    outcome = host.start().converge(Update(put=host.wanted, complete=True))
    assert outcome.ok, outcome
    assert (leaves(host, 1), leaves(host, 3)) == ({"tap2"}, set())
    left = host.ovs.vsctl("get", "Bridge", "br-int", "external_ids")
    assert re.findall(r"netfw-vlan-[^=]*=", left) == ["netfw-vlan-1="]
