"""What the L2 agent wants for a port that is on several hosts at once."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    MAX_ENDPOINTS,
    Admission,
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    Tunnel,
)
from netfw.model.binding import Binding
from netfw.model.segment import NetworkType
from tests.unit.agents.l2.environment import (
    AGENT_THERE,
    ELSEWHERE,
    HERE,
    NET,
    SEGMENT,
    THERE,
    VXLAN,
    agent,
    learn,
    port,
    segment,
)
from tests.unit.agents.l2.switch_samples import PORT, desired

AGENT_ELSEWHERE = agent(ELSEWHERE, "192.0.2.3", number=81)
AGENTS = AGENT_THERE, AGENT_ELSEWHERE
AT_THERE, AT_ELSEWHERE = (Endpoint(VXLAN, ip_address(f"192.0.2.{n}")) for n in (2, 3))
OWNER = {"device_owner": "network:ha_router_replicated_interface"}
SHARED = port(1, NET, HERE, (HERE, THERE, ELSEWHERE), **OWNER)
KEY = ForwardingKey(NET.id, SHARED.mac)
ADDRESS = ip_address("10.0.0.1")


def on(host, *hosts):
    """Return the port with another active host, or other hosts."""
    return evolve(SHARED, binding=Binding(host=host, hosts=hosts or SHARED.binding.hosts))


@pytest.mark.spec("L2-61")
@pytest.mark.parametrize("active", [HERE, THERE, ""])
def test_a_port_is_wired_on_every_host_that_has_it_whichever_is_active(active):
    wiring = desired(NET, SEGMENT, on(active)).values[PortKey(SHARED.id)]
    assert wiring.admission is Admission.LIVE
    assert wiring.shared_mac


@pytest.mark.spec("L2-61")
def test_a_failover_changes_nothing_in_the_switch():
    made = desired(NET, SEGMENT, on(HERE), *AGENTS, population=True, forwarding=True)
    before = dict(made.values)
    made.take_changed()
    learn(made, [on(THERE)])
    assert made.values == before
    assert not made.take_changed()


@pytest.mark.spec("L2-61")
def test_a_failed_binding_to_the_active_host_changes_nothing_on_any_host():
    made = desired(NET, SEGMENT, on(HERE))
    before = dict(made.values)
    failed = evolve(on(THERE).binding, vif_type="binding_failed")
    learn(made, [evolve(SHARED, binding=failed)])
    assert made.values == before
    assert made.values[PortKey(SHARED.id)].admission is Admission.LIVE


@pytest.mark.spec("L2-61")
def test_a_mac_is_shared_while_more_than_one_host_has_it():
    made = desired(NET, SEGMENT, on(HERE, HERE))
    assert not made.values[PortKey(SHARED.id)].shared_mac
    learn(made, [on(HERE, HERE, THERE)])
    assert made.values[PortKey(SHARED.id)].shared_mac
    assert not desired(NET, SEGMENT, PORT).values[PortKey(PORT.id)].shared_mac


@pytest.mark.spec("L2-61")
def test_a_port_that_left_this_host_is_dead():
    made = desired(NET, SEGMENT, SHARED)
    learn(made, [on(THERE, THERE, ELSEWHERE)])
    assert PortKey(SHARED.id) not in made.values
    assert made.unbound == {SHARED.id}


@pytest.mark.spec("L2-61", "L2-31")
def test_a_host_without_the_port_sends_to_all_hosts_that_have_it():
    away = port(2, NET, THERE, (THERE, ELSEWHERE), **OWNER)
    made = desired(
        NET, SEGMENT, PORT, away, *AGENTS, population=True, forwarding=True, arp_responder=True
    )
    expected = {
        AT_THERE: Tunnel(THERE),
        AT_ELSEWHERE: Tunnel(ELSEWHERE),
        FloodKey(NET.id, AT_THERE): Flood(),
        FloodKey(NET.id, AT_ELSEWHERE): Flood(),
        ForwardingKey(NET.id, away.mac): Forwarding(
            frozenset({AT_THERE, AT_ELSEWHERE}), frozenset({ip_address("10.0.0.2")})
        ),
    }
    local = {PortKey(PORT.id), NetworkKey(NET.id)}
    assert {key: value for key, value in made.values.items() if key not in local} == expected
    learn(made, [evolve(away, binding=Binding(host=THERE, hosts=(THERE,)))])
    assert made.values.keys() - local == {
        AT_THERE, FloodKey(NET.id, AT_THERE), ForwardingKey(NET.id, away.mac)
    }  # fmt: skip


@pytest.mark.spec("L2-61", "L2-31")
def test_a_host_with_the_port_sends_to_the_others_and_does_not_answer_for_it():
    # The responder would answer the announcements of the active router on its own host.
    options = {"population": True, "forwarding": True, "arp_responder": True}
    made = desired(NET, SEGMENT, SHARED, *AGENTS, **options)
    assert made.values[KEY] == Forwarding(frozenset({AT_THERE, AT_ELSEWHERE}))
    assert FloodKey(NET.id, AT_THERE) in made.values


@pytest.mark.spec("L2-61")
def test_a_host_with_the_port_sends_to_the_others_without_population_too():
    # On the host where a router is active, its MAC is never learnt: frames would be flooded.
    made = desired(NET, SEGMENT, SHARED, *AGENTS, forwarding=True)
    assert made.values[KEY] == Forwarding(frozenset({AT_THERE, AT_ELSEWHERE}))
    assert {key for key in made.values if isinstance(key, FloodKey)} == set()
    assert made.values[AT_THERE] == Tunnel(THERE, mesh=True)
    learn(made, [on(HERE, HERE)])
    assert KEY not in made.values


@pytest.mark.parametrize("away", [True, False])
def test_without_population_other_hosts_learn(away):
    port_elsewhere = port(1, NET, THERE, (THERE, ELSEWHERE), **OWNER)
    shared = port_elsewhere if away else SHARED
    options = {"forwarding": away}  # or the switch takes no entries
    made = desired(NET, SEGMENT, shared, PORT if away else SHARED, *AGENTS, **options)
    assert not [key for key in made.values if isinstance(key, ForwardingKey)]


def test_a_mac_on_too_many_hosts_is_flooded():
    hosts = [f"host{number}" for number in range(MAX_ENDPOINTS + 1)]
    agents = [
        agent(host, f"198.18.{number >> 8}.{number & 0xFF}", number=1000 + number)
        for number, host in enumerate(hosts, 1)
    ]
    made = desired(NET, SEGMENT, PORT, port(2, NET, "", hosts, **OWNER), *agents, population=True)
    assert not [key for key in made.values if isinstance(key, ForwardingKey)]
    assert len([key for key in made.values if isinstance(key, FloodKey)]) == len(hosts)


@pytest.mark.spec("L2-61")
def test_a_physical_network_needs_no_entries():
    vlan = segment(NET, NetworkType.VLAN, 7, "physnet1")
    made = desired(NET, vlan, SHARED, *AGENTS, population=True, forwarding=True)
    assert made.values.keys() == {PortKey(SHARED.id), NetworkKey(NET.id)}
    assert made.values[PortKey(SHARED.id)].shared_mac
