"""The ARP responder answers for no address that another port may use too."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.agents.l2.address_pairs import AddressPairIndex
from netfw.drivers.values.switch_values import ForwardingKey
from netfw.model.port import AddressPair
from netfw.model.resource import ref
from tests.unit.agents.l2.environment import (
    AGENT_THERE,
    ELSEWHERE,
    NET,
    OTHER,
    OTHER_SEGMENT,
    SEGMENT,
    THERE,
    agent,
    learn,
    port,
)
from tests.unit.agents.l2.switch_samples import PORT, desired

AGENTS = AGENT_THERE, agent(ELSEWHERE, "192.0.2.3", number=81)
OPTIONS = {"population": True, "forwarding": True, "arp_responder": True}
OWNER = port(2, NET, THERE)
HOSTS = pytest.mark.parametrize("host", ["here", THERE, ELSEWHERE])


def paired(number, *prefixes, host=ELSEWHERE, net=NET):
    pairs = tuple(AddressPair(prefix=prefix) for prefix in prefixes)
    return port(number, net, host, port_security=True, allowed_address_pairs=pairs)


def answered(made, of=OWNER):
    """Return the last bytes of the addresses that are answered for with the MAC of a port."""
    value = made.values[ForwardingKey(of.network_id, of.mac)]
    return sorted(int(address) & 0xFF for address in value.addresses)


@pytest.mark.spec("L2-62")
@HOSTS
@pytest.mark.parametrize("prefix", ["10.0.0.2", "10.0.0.0/30", "10.0.0.0/8", "0.0.0.0/0"])
def test_an_allowed_address_of_another_port_is_not_answered_for(host, prefix):
    made = desired(NET, SEGMENT, PORT, OWNER, *AGENTS, **OPTIONS)
    assert answered(made) == [2]
    rival = paired(3, prefix, host=host)
    learn(made, [rival])
    assert answered(made) == []
    learn(made, [evolve(rival, allowed_address_pairs=())])
    assert answered(made) == [2]
    learn(made, [rival])
    learn(made, drop=[ref(rival)])
    assert answered(made) == [2]


@pytest.mark.spec("L2-62")
def test_the_order_in_which_the_ports_come_means_nothing():
    made = desired(NET, SEGMENT, PORT, paired(3, "10.0.0.2"), OWNER, *AGENTS, **OPTIONS)
    assert answered(made) == []


def test_other_addresses_and_other_networks_are_answered_for():
    rivals = paired(3, "10.0.0.4", "2001:db8::/32"), paired(4, "10.0.0.2", net=OTHER)
    made = desired(NET, SEGMENT, OTHER, OTHER_SEGMENT, PORT, OWNER, *rivals, *AGENTS, **OPTIONS)
    assert answered(made) == [2]


@pytest.mark.spec("L2-62")
def test_a_port_is_no_rival_of_itself():
    own = evolve(paired(2, "10.0.0.0/24", host=THERE))
    made = desired(NET, SEGMENT, PORT, own, *AGENTS, **OPTIONS)
    assert answered(made, own) == [2]
    second, third = paired(3, "10.0.0.0/24"), paired(4, "10.0.0.0/24")
    learn(made, [second])
    assert (answered(made, own), answered(made, second)) == ([], [])
    learn(made, [third])
    learn(made, drop=[ref(second)])
    assert (answered(made, own), answered(made, third)) == ([], [])
    learn(made, drop=[ref(third)])
    assert answered(made, own) == [2]


def test_one_more_port_with_a_wide_prefix_concerns_at_most_one_other():
    index = AddressPairIndex()
    (first,) = index.update(PORT.id, paired(1, "0.0.0.0/0"))
    assert first.port is None
    (second,) = index.update(OWNER.id, paired(2, "0.0.0.0/0"))
    assert second.port == PORT.id
    third = paired(3, "0.0.0.0/0")
    assert index.update(third.id, third) == ()
    assert index.update(third.id, evolve(third, name="renamed")) == ()
    assert index.update(third.id, None) == ()
    (last,) = index.update(PORT.id, None)
    assert last.port == OWNER.id


def test_nothing_stays_of_ports_that_are_gone():
    index = AddressPairIndex()
    for number in range(1, 5):
        index.update(port(number, NET).id, paired(number, "10.0.0.0/24", f"10.0.0.{number}"))
    assert index.has_other_user(NET.id, ip_address("10.0.0.9"), PORT.id)
    for number in range(1, 5):
        index.update(port(number, NET).id, None)
    assert not index.has_other_user(NET.id, ip_address("10.0.0.9"), PORT.id)
    assert (index._pairs, index._ports, index._lengths) == ({}, {}, {})
