"""Local IPs of ports of this host: which port each leads to, and what that port may send."""

from ipaddress import ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l2.operator_warnings import local_ip_warnings
from netfw.agents.l2.port_wiring import sources
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.model.local_ip import LocalIpAssociation, LocalIpMode
from netfw.model.values.ids import LocalIpId
from tests.unit.agents.l2.environment import NET, OTHER, OTHER_SEGMENT, SEGMENT, THERE, learn, port
from tests.unit.agents.l2.switch_samples import desired

pytestmark = pytest.mark.spec("API-07")


def association(last=50, number=1, fixed=1, **more):
    return LocalIpAssociation(
        local_ip_id=LocalIpId(UUID(int=number)),
        address=f"10.0.0.{last}",
        mac="fa:16:3e:00:00:99",
        fixed_ip=f"10.0.0.{fixed}",
        **more,
    )


FIRST = port(1, NET, local_ips=(association(),))
SECOND = port(2, NET, local_ips=(association(fixed=2),))


def start(*ports):
    state = desired(NET, SEGMENT, OTHER, OTHER_SEGMENT, *ports, plugged=ports)
    state.take_touched()
    return state


def served(state, of):
    return state.extended(of.id).local_ips


def unserved(state, *extensions):
    return local_ip_warnings(state._index, extensions).get("local IPs", "")


def test_a_local_ip_leads_to_the_lowest_of_several_ports():
    state = start(FIRST, SECOND)
    assert served(state, FIRST) == FIRST.local_ips
    assert served(state, SECOND) == ()
    assert str(SECOND.id) in unserved(state, "local_ip")
    assert str(FIRST.id) not in unserved(state, "local_ip")


def test_the_other_port_takes_over_when_the_first_has_left():
    state = start(FIRST, SECOND)
    learn(state, [evolve(FIRST, revision=2, local_ips=())])
    assert SECOND.id in state.take_touched()
    assert served(state, SECOND) == SECOND.local_ips
    assert unserved(state, "local_ip") == ""
    learn(state, [evolve(FIRST, revision=3)])
    assert SECOND.id in state.take_touched()
    assert served(state, SECOND) == ()


def test_ports_of_other_hosts_and_networks_do_not_count():
    elsewhere = port(1, NET, THERE, local_ips=FIRST.local_ips)
    state = start(elsewhere, SECOND)
    assert served(state, SECOND) == SECOND.local_ips
    apart = port(1, OTHER, local_ips=FIRST.local_ips)
    state = start(apart, SECOND)
    assert (served(state, apart), served(state, SECOND)) == (apart.local_ips, SECOND.local_ips)


def test_two_local_ips_with_one_address_are_one():
    twice = port(1, NET, local_ips=(association(), association(number=2)))
    (found,) = served(start(twice), twice)
    assert found.address == twice.local_ips[0].address


def test_a_host_without_the_extension_warns():
    state = start(FIRST, SECOND)
    warning = unserved(state, "qos")
    assert all(text in warning for text in (str(FIRST.id), str(SECOND.id), "extensions = local_ip"))
    assert unserved(start(port(1, NET)), "qos") == ""


@pytest.mark.parametrize("mode", LocalIpMode)
def test_a_port_sends_from_a_local_ip_that_it_receives_unchanged(mode):
    own = port(1, NET, port_security=True, local_ips=(association(mode=mode),))
    allowed = AllowedSource(own.mac, ip_network("10.0.0.50/32")) in sources(own)
    assert allowed is (mode is LocalIpMode.PASSTHROUGH)
