"""What dnsmasq cannot serve of a network or a port is left out alone, and named."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TypeVar

import pytest
from attrs import evolve

from netfw.errors import InvalidInput, PartlyInvalid
from netfw.model.subnet import Subnet
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Plan
from netfw.testing.conformance.dhcp.factories import ServedNetwork, Tenant, a_subnet, make_network
from netfw_drivers.dnsmasq.plan.observed import Observed
from netfw_drivers.dnsmasq.plan.steps import PutNetwork, PutPort, RunServer
from tests.unit.backends.dnsmasq.plan.samples import found_network, planned, stages

T = TypeVar("T")

GOOD = DhcpOption(name="bootfile-name", value="kernel")
BAD = DhcpOption(name="mtu", value="-5")
EMPTY = tuple(DhcpOption(name=str(n), value="", ip_version=6) for n in range(100, 164))
SUBNETS = {
    "subnets[1]": {"cidr": "::ffff:10.0.0.0/120"},
    "subnets[1].gateway": {"cidr": "fd77::/64", "gateway": "::1"},
}


def fields(plan: Plan, thing: ServedNetwork | Tenant) -> list[str]:
    error = plan.refused[thing.key]
    assert isinstance(error, PartlyInvalid)
    return list(error.problems)


def payload(plan: Plan, kind: type[T]) -> T:
    (found,) = (o.payload for o in plan if isinstance(o.payload, kind))
    return found


def a_bad_subnet(cidr: str, gateway: str | None = None) -> Subnet:
    plain = a_subnet(gateway=None, dns_nameservers=())
    return evolve(plain, cidr=ip_network(cidr), gateway=gateway)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"options": (BAD,)}, "options[0].value"),
        ({"options": (DhcpOption(name="nonsense", value="x"),)}, "options[0].name"),
        ({"options": (DhcpOption(name="client-id", value="a b"),)}, "options[0].value"),
        ({"hostname": "ab--C"}, "hostname"),
        ({"domain": "ab--C"}, "domain"),
        ({"hostname": "x" * 63 + ".y" * 96}, "hostname"),
    ],
)
def test_a_port_is_served_without_it(options: dict, field: str) -> None:
    net = make_network()
    tenant = net.tenant(20, **options)
    plan = planned(found_network(net), tenant)
    assert fields(plan, tenant) == [field]
    text = payload(plan, PutPort).wanted
    assert str(tenant.ip) in text.host
    assert "--C" not in text.host + text.names + text.opts


def test_other_options_of_the_port_and_the_network_are_sent() -> None:
    net = make_network(options=(BAD, GOOD))
    tenant = net.tenant(20, options=(GOOD, BAD))
    plan = planned(Observed(), net, tenant)
    assert fields(plan, net) == ["options[0].value"]
    assert fields(plan, tenant) == ["options[1].value"]
    assert "67,kernel" in payload(plan, PutNetwork).wanted.opts
    assert "67,kernel" in payload(plan, PutPort).wanted.opts


def test_as_many_options_are_left_out_of_answers_as_fit_into_a_line() -> None:
    net = make_network()
    tenant = net.tenant(20, options=EMPTY)
    plan = planned(found_network(net), tenant)
    assert 0 < len(fields(plan, tenant)) < len(EMPTY)
    assert "set:without6-100" in payload(plan, PutPort).wanted.host


@pytest.mark.parametrize("field", SUBNETS)
def test_a_network_is_served_without_a_subnet_or_a_gateway(field: str) -> None:
    bad = a_bad_subnet(**SUBNETS[field])
    net = make_network(a_subnet(), bad)
    plan = planned(Observed(), net, net.tenant(20))
    assert fields(plan, net) == [field]
    assert stages(plan)[-1] is RunServer
    argv = " ".join(payload(plan, RunServer).program.argv)
    assert ("ffff" in argv, "::1" in argv) == (False, False)
    assert "via ::1" not in str(plan)


def test_it_is_named_again_and_nothing_is_done_for_it() -> None:
    net = make_network(a_subnet(), options=(BAD,))
    tenant = net.tenant(20, options=(BAD,))
    served = net.but(options=())
    plan = planned(found_network(served, tenant.but(options=())), net, tenant)
    assert plan.refused.keys() == {net.key, tenant.key}
    assert not plan.stages


def test_a_port_that_waits_is_not_served_in_part() -> None:
    net = make_network()
    holder = net.tenant(20)
    rival = net.tenant(20, options=(BAD,))
    plan = planned(found_network(net, holder), rival)
    assert plan.waiting.keys() == {rival.key}
    assert not plan.refused


def test_text_that_the_model_refuses_refuses_the_whole_port() -> None:
    hostile = DhcpOption(name="bootfile-name", value="x")
    object.__setattr__(hostile, "value", "a\nb")
    net = make_network()
    tenant = net.tenant(20, options=(BAD, hostile))
    plan = planned(found_network(net), tenant)
    assert isinstance(plan.refused[tenant.key], InvalidInput)
    assert not isinstance(plan.refused[tenant.key], PartlyInvalid)
    assert not plan.stages
