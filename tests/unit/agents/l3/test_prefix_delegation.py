"""Delegated prefixes: what the driver is given, and what the source is asked."""

import threading
from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.agent_requests import SetPrefix
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import PrefixDelegated, RoleChanged
from netfw.model.port import FixedIp
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.ids import PortId
from tests.unit.agents.l3.distributed import CENTRAL, DVR_BLUE, SG_HERE, desired
from tests.unit.agents.l3.environment import (
    BLUE,
    EDGE,
    EDGE_BLUE,
    EDGE_OUT,
    OUTSIDE_SUBNET,
    environments,
    gateway_port,
    subnet,
)

FIRST, SECOND = ip_network("2001:db8:1::/64"), ip_network("2001:db8:2::/64")
DELEGATED = subnet(
    BLUE,
    21,
    cidr="::/64",
    gateway="::1",
    ipv6_ra_mode=Ipv6Mode.SLAAC,
    ipv6_address_mode=Ipv6Mode.SLAAC,
    subnet_pool_id="prefix_delegation",
)
OWN = FixedIp(subnet_id=DELEGATED.id, address=ip_address("::1"))
PORT = evolve(EDGE_BLUE, fixed_ips=(*EDGE_BLUE.fixed_ips, OWN))


@pytest.fixture
def found():
    with environments() as make:
        made = make(DELEGATED, PORT)
        made.ready()
        yield made


def interface(found):
    (port,) = found.router.routers()[EDGE.id].full.interfaces
    return port


def delegate(found, prefix):
    found.machine.notify(PrefixDelegated("came", EDGE.id, DELEGATED.id, prefix))


def asked(found):
    return [each.prefix for each in found.source.asked if isinstance(each, SetPrefix)]


@pytest.mark.spec("L3-27")
def test_a_provisional_subnet_is_delegated_and_has_no_address(found):
    port = interface(found)
    assert port.delegated == {DELEGATED.id}
    assert [each.version for each in port.addresses] == [4]
    assert DELEGATED.id not in {each.id for each in port.subnets}


@pytest.mark.spec("L3-27")
def test_a_prefix_is_not_delegated_to_a_second_router_on_the_subnet():
    second = evolve(OWN, address=ip_address("::5054:ff:fe00:1"))
    with environments() as make:
        found = make(DELEGATED, evolve(EDGE_BLUE, fixed_ips=(*EDGE_BLUE.fixed_ips, second)))
        found.ready()
        assert interface(found).delegated == frozenset()
        delegate(found, FIRST)
        found.ready()
        assert asked(found) == []


@pytest.mark.spec("L3-27")
@pytest.mark.parametrize(
    ("address", "delegated"), [("::1", {DELEGATED.id}), ("::5054:ff:fe00:1", set())]
)
def test_a_prefix_is_delegated_to_the_central_part_if_the_router_has_the_gateway_address(
    address, delegated
):
    central = evolve(OWN, address=ip_address("::9"))
    own = evolve(OWN, address=ip_address(address))
    state = desired(
        *CENTRAL,
        DELEGATED,
        evolve(DVR_BLUE, fixed_ips=(*DVR_BLUE.fixed_ips, own)),
        evolve(SG_HERE, fixed_ips=(*SG_HERE.fixed_ips, central)),
        agent_mode="dvr_snat",
    ).value(RouterKey(EDGE.id))
    (port,) = state.central.ports
    assert port.delegated == delegated


@pytest.mark.spec("L3-32")
@pytest.mark.spec("L3-34")
def test_a_delegated_prefix_reaches_the_source_and_then_the_interface(found):
    for prefix in (FIRST, SECOND):
        delegate(found, prefix)
        found.until(lambda status, prefix=prefix: ip_interface(f"{prefix[1]}/64")
                    in interface(found).addresses)  # fmt: skip
        assert {each.cidr for each in interface(found).subnets if each.ip_version == 6} == {prefix}
    found.ready()
    assert asked(found) == [FIRST, SECOND], "one request for each"


@pytest.mark.spec("L3-33")
def test_a_withdrawn_prefix_leaves_a_provisional_subnet(found):
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    delegate(found, None)
    found.until(lambda status: len(interface(found).addresses) == 1)
    assert interface(found).delegated == {DELEGATED.id}


@pytest.mark.spec("L3-32")
def test_a_report_is_retried_while_the_source_is_away(found):
    found.source.away = True
    delegate(found, FIRST)
    found.until(lambda status: any("prefix" in str(key) for key in status.degraded))
    found.source.away = False
    found.until(lambda status: len(interface(found).addresses) == 2, pace=1.0)
    found.ready(pace=1.0)


@pytest.fixture
def slow():
    """Yield an agent that waits for no request, and an event that its source waits for."""
    gate = threading.Event()
    with environments() as make:
        found = make(DELEGATED, PORT, wait_timeout=0.01)
        found.ready()
        answer = found.source.request

        def request_slowly(request):
            if isinstance(request, SetPrefix):
                gate.wait(60)
            return answer(request)

        found.source.request = request_slowly
        try:
            yield found, gate
        finally:
            gate.set()


@pytest.mark.spec("L3-32")
def test_a_slow_source_delays_nothing_else(slow):
    found, gate = slow
    delegate(found, FIRST)
    found.turn()
    found.source.put(evolve(EDGE, routes=(), name="other", admin_up=False, revision=5))
    found.until(lambda status: EDGE.id not in found.router.routers())
    found.source.put(evolve(EDGE, revision=6))
    found.until(lambda status: EDGE.id in found.router.routers())
    gate.set()
    found.until(lambda status: len(interface(found).addresses) == 2)


@pytest.mark.spec("L3-32")
def test_a_prefix_that_comes_during_a_request_is_sent_after_it(slow):
    found, gate = slow
    gate.set()
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    found.ready()
    gate.clear()
    delegate(found, FIRST)  # the source has it already, and delivers nothing
    found.turn()
    delegate(found, SECOND)
    found.turn()
    gate.set()
    found.ready()
    assert asked(found) == [FIRST, FIRST, SECOND]


@pytest.mark.spec("L3-33")
def test_a_prefix_that_the_source_lost_is_sent_once_more(found):
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    found.ready()
    found.source.request(SetPrefix(router=EDGE.id, subnet=DELEGATED.id, prefix=None))
    found.until(lambda status: asked(found) == [FIRST, None, FIRST])
    found.until(lambda status: len(interface(found).addresses) == 2)


@pytest.mark.spec("L3-33")
def test_two_routers_on_a_subnet_do_not_renumber_it_in_turns_for_ever(found):
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    found.ready()
    other = SetPrefix(router=EDGE.id, subnet=DELEGATED.id, prefix=SECOND)
    for _ in range(4):  # the agent of the other router, which has another prefix
        found.source.request(other)
        found.ready()
    assert asked(found) == [FIRST, SECOND, FIRST, SECOND, SECOND, SECOND]


@pytest.mark.spec("L3-33")
def test_a_host_that_is_no_longer_active_does_not_defend_its_prefix(found):
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    found.ready()
    found.machine.notify(RoleChanged("lost", EDGE.id, HaRole.STANDBY))
    for prefix in (SECOND, None):  # of the host that is active now
        found.source.request(SetPrefix(router=EDGE.id, subnet=DELEGATED.id, prefix=prefix))
        found.ready()
    assert asked(found) == [FIRST, SECOND, None]


@pytest.mark.spec("L3-33")
def test_the_prefix_of_another_gateway_is_not_defended(found):
    delegate(found, FIRST)
    found.until(lambda status: len(interface(found).addresses) == 2)
    found.source.remove(ref(EDGE_OUT))
    found.source.put(evolve(gateway_port(EDGE, OUTSIDE_SUBNET, 77), id=PortId(UUID(int=77))))
    found.ready()
    found.source.request(SetPrefix(router=EDGE.id, subnet=DELEGATED.id, prefix=None))
    found.ready()
    assert asked(found) == [FIRST, None]
    delegate(found, SECOND)
    found.until(lambda status: len(interface(found).addresses) == 2)
    assert asked(found) == [FIRST, None, SECOND]


def test_the_prefix_of_a_subnet_that_is_gone_is_not_reported(found):
    found.source.put(evolve(PORT, fixed_ips=EDGE_BLUE.fixed_ips, revision=9))
    found.source.remove(ref(DELEGATED))
    found.ready()
    delegate(found, FIRST)
    found.ready()
    assert asked(found) == []


@pytest.mark.spec("L3-32")
def test_a_report_is_retried_after_an_internal_error_of_the_source(found, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(found.source, "request", lambda request: {}["a defect"])
        delegate(found, FIRST)
        found.until(lambda status: any("prefix" in str(key) for key in status.degraded))
    found.until(lambda status: len(interface(found).addresses) == 2, pace=1.0)
    found.ready(pace=1.0)
