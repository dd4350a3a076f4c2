"""Plans of the radvd of a router."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.linux.ip.values import Link
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import as_address, link_local
from netfw_drivers.linux_router.plan.daemons.daemon_steps import DaemonStep, RunDaemon, StopDaemon
from netfw_drivers.linux_router.plan.daemons.radvd_plan import (
    SERVICE,
    left_out_advertisements,
    make_program,
    plan_radvd,
    plan_withdrawals,
)
from netfw_drivers.linux_router.plan.observed import FoundDaemon, FoundRouter
from tests.unit.backends.linux_router.samples import (
    CONTEXT,
    INSIDE,
    PORTS,
    QR,
    ROUTER,
    state,
    subnet,
)


def plan(found: FoundDaemon, *subnets: Subnet) -> list[DaemonStep]:
    router = CONTEXT.desired(ROUTER, state(evolve(INSIDE, subnets=subnets)))
    return list(plan_radvd(router, found, CONTEXT.settings))


def run(found: FoundDaemon, *subnets: Subnet) -> FoundDaemon:
    (step,) = plan(found, *subnets)
    assert isinstance(step, RunDaemon)
    assert step.program is not None
    return FoundDaemon(text=step.text_of_file, digest=step.program.digest())


ONE = subnet("fd00::/64", Ipv6Mode.SLAAC)
TWO = subnet("fd01::/64", Ipv6Mode.STATEFUL)


def test_a_router_without_advertised_subnets_has_none() -> None:
    assert plan(FoundDaemon(), subnet("fd00::/64"), subnet("10.0.0.0/24")) == []


@pytest.mark.spec("L3-26")
def test_subnets_are_advertised_and_then_nothing_is_left_to_do() -> None:
    servers = (as_address("fd00::53"),)
    both = (evolve(ONE, dns_nameservers=servers), TWO)
    found = run(FoundDaemon(), *both)
    assert f"interface {QR}" in str(found.text)
    assert "fe80::f816:3eff:fe00:0;" in str(found.text), "its own link-local address"
    assert "RDNSS fd00::53" in str(found.text)
    assert "AdvManagedFlag on" in str(found.text)
    assert plan(found, *both) == []


@pytest.mark.spec("L3-26")
def test_a_removed_prefix_is_withdrawn_as_long_as_the_interface_exists() -> None:
    first = run(FoundDaemon(), ONE, TWO)
    found = run(first, ONE)
    text = str(found.text)
    assert text.index("fd01::/64") < text.index("AdvPreferredLifetime 0")
    assert plan(found, ONE) == []
    last = run(found)
    assert "AdvDefaultLifetime 0" in str(last.text)
    assert run(last, ONE, TWO).text == first.text


@pytest.mark.spec("L3-26")
def test_the_last_removed_prefixes_stay_withdrawn() -> None:
    # The order of the prefixes as addresses does not matter.
    early = [subnet(f"fd00:{number:x}::/64", Ipv6Mode.SLAAC) for number in range(100, 110)]
    late = [subnet(f"fd00:{number:x}::/64", Ipv6Mode.SLAAC) for number in range(1, 13)]
    found = run(run(run(FoundDaemon(), *early, *late, ONE), *late, ONE), ONE)
    text = str(found.text)
    withdrawn = [str(each.cidr) for each in (*early, *late) if f"prefix {each.cidr}\n" in text]
    assert withdrawn == [str(each.cidr) for each in (*early[-4:], *late)]
    assert text.count("AdvPreferredLifetime 0") == len(withdrawn)
    assert plan(found, ONE) == []


def problems(mtu: int, *subnets: Subnet) -> dict[str, str]:
    port = evolve(INSIDE, subnets=subnets, mtu=mtu)
    return left_out_advertisements(CONTEXT.desired(ROUTER, state(port)))


@pytest.mark.spec("L3-26")
def test_more_name_servers_than_fit_are_left_out() -> None:
    servers = tuple(as_address(f"fd00::{number}") for number in range(1, 18))
    many = evolve(ONE, dns_nameservers=servers)
    text = str(run(FoundDaemon(), many).text)
    assert text.count("RDNSS fd00::") == 6
    assert f"RDNSS {servers[15]}\n" in text
    assert str(servers[16]) not in text
    assert [*problems(1500, many)] == [f"name servers of port {PORTS[0]}"]
    assert problems(1500, ONE, TWO) == {}


@pytest.mark.spec("L3-26")
def test_a_network_too_narrow_for_ipv6_is_not_advertised() -> None:
    port = evolve(INSIDE, subnets=(ONE,), mtu=1279)
    router = CONTEXT.desired(ROUTER, state(port))
    assert [*plan_radvd(router, FoundDaemon(), CONTEXT.settings)] == []
    assert problems(1279, ONE) == problems(1280, ONE) == {}, "the plan names the port"


@pytest.mark.spec("L3-26")
def test_more_prefixes_than_fit_are_left_out() -> None:
    many = [subnet(f"fd00:{number:x}::/64", Ipv6Mode.SLAAC) for number in range(65)]
    full = run(run(FoundDaemon(), TWO), *many)
    assert str(full.text).count("    prefix ") == 64
    assert len(problems(1500, *many)) == 1


def test_a_process_that_does_not_run_is_started() -> None:
    found = run(FoundDaemon(), ONE)
    (step,) = plan(evolve(found, digest=None), ONE)
    assert isinstance(step, RunDaemon)
    assert len({step, step}) == 1, "a refused operation is a key of its refusal"


def test_without_interfaces_it_is_stopped() -> None:
    router = CONTEXT.desired(ROUTER, state())
    found = run(FoundDaemon(), ONE)
    assert list(plan_radvd(router, found, CONTEXT.settings)) == [StopDaemon(SERVICE, ROUTER)]
    assert list(plan_radvd(router, FoundDaemon(remains=True), CONTEXT.settings))


def test_prefixes_are_withdrawn_before_their_device_is_removed() -> None:
    radvd = run(FoundDaemon(), ONE)
    link = Link(name=QR, index=2, mtu=1500, up=True, state="unknown", mac=INSIDE.mac)
    netns = ObservedNetns(netns="qrouter-1", exists=True, links={QR: link})
    there = FoundRouter(netns=netns, radvd=radvd)
    (step,) = plan_withdrawals(ROUTER, (), there)
    assert (step.device, list(map(str, step.prefixes))) == (QR, ["fd00::/64"])
    assert step.source == link_local(INSIDE.mac)
    assert not list(plan_withdrawals(ROUTER, {QR}, there))
    assert not list(plan_withdrawals(ROUTER, (), evolve(there, netns=evolve(netns, links={}))))


def test_the_user_of_the_process_is_an_option() -> None:
    settings = evolve(CONTEXT.settings, radvd_user="radvd")
    assert make_program(ROUTER, settings).argv[-2:] == ("-u", "radvd")
