"""Orders that are joined before anybody began them."""

import pytest
from attrs import evolve

from netfw.agents.dhcp.desired import Desired, DhcpHostContext, make_dhcp_port
from netfw.agents.dhcp.jobs import Job, RemoveNetwork
from netfw.agents.dhcp.resource_index import DhcpResourceIndex
from netfw.drivers.keys import NetworkKey, PortKey
from tests.unit.agents.dhcp.environment import NET, SUBNET, port
from tests.unit.agents.l2.environment import learn

ONE, TWO = port(11, NET), port(12, NET)
A, B = PortKey(ONE.id), PortKey(TWO.id)


def job(serial, spec=None, put=(), drop=()):
    values = {PortKey(each.id): make_dhcp_port(each) for each in put}
    keys = {*values, *drop} | ({NetworkKey(NET.id)} if spec is not None else set())
    return Job(
        network=NET.id, spec=spec, put=values, drop=frozenset(drop),
        serials=dict.fromkeys(keys, serial),
    )  # fmt: skip


@pytest.mark.spec("DHCP-06")
def test_of_each_key_the_newer_word_counts_and_the_rest_stays():
    joined = job(1, put=[ONE], drop=[B]).then(job(2, put=[TWO]))
    assert set(joined.put) == {A, B}
    assert joined.drop == frozenset()
    assert joined.serials == {A: 1, B: 2}
    joined = joined.then(job(3, drop=[A]))
    assert (set(joined.put), joined.drop) == ({B}, {A})
    assert set(joined) == {A, B}
    moved = evolve(TWO, mac="fa:16:3e:00:00:99")
    newest = joined.then(job(4, put=[moved]))
    assert (newest.put, newest.serials[B]) == ({B: make_dhcp_port(moved)}, 4)


def test_a_network_that_is_left_and_taken_up_again_is_as_it_was_last_wanted():
    desired = Desired(DhcpHostContext(host="here"), DhcpResourceIndex())
    learn(desired, [NET, SUBNET])
    spec = desired.networks[NET.id]
    joined = job(1, spec=RemoveNetwork(), drop=[A]).then(job(2, spec=spec, put=[ONE]))
    assert (joined.spec, set(joined.put), joined.drop) == (spec, {A}, frozenset())
    assert joined.then(job(3, put=[TWO])).spec == spec
    assert joined.then(job(4, spec=RemoveNetwork())).spec == RemoveNetwork()
