"""Rules that limit addresses of a router."""

from __future__ import annotations

from ipaddress import ip_address
from uuid import UUID

import pytest

from netfw.drivers.values.router_contribution import AddressQos, RouterContribution
from netfw.linux.iptables.rule import Family, render_rule
from netfw.model.qos import BandwidthLimit
from netfw.model.security_group import Direction
from netfw.model.values.ids import QosRuleId
from netfw_drivers.linux_router.plan.bandwidth_limits import AddressLimits, limited_addresses

pytestmark = pytest.mark.spec("L3-80")

GATEWAY, FLOATING, FORWARDING = (ip_address(f"203.0.113.{n}") for n in (10, 50, 60))
FIXED = ip_address("10.0.0.5")


def rules(kbps: int) -> tuple[BandwidthLimit, ...]:
    return tuple(
        BandwidthLimit(id=QosRuleId(UUID(int=n)), max_kbps=kbps, direction=direction)
        for n, direction in enumerate((Direction.INGRESS, Direction.EGRESS))
    )


def limits(*qos: AddressQos, snat: bool = True) -> AddressLimits:
    contributions = [RouterContribution(owner="a", qos=(each,)) for each in qos]
    addresses = limited_addresses(contributions, Family.IPV4)
    return AddressLimits(addresses=addresses, gateway=GATEWAY, snat=snat)


def lines(made: AddressLimits) -> tuple[list[str], list[str]]:
    texts = [[render_rule(rule, "x") for rule in way] for way in (made.incoming(), made.outgoing())]
    return texts[0], texts[1]


def test_a_floating_ip_is_limited_by_its_outside_and_its_inside_address() -> None:
    made = limits(AddressQos(address=FLOATING, fixed_address=FIXED, rules=rules(8)))
    text = "-m hashlimit --hashlimit-above 1000b/s --hashlimit-name {}-cb007132-8 -j DROP"
    assert lines(made) == (
        [f"-d 203.0.113.50/32 {text.format('in')}"],
        [f"-s 10.0.0.5/32 {text.format('out')}"],
    )


def test_forwarded_ports_are_limited_by_their_replies() -> None:
    _, (sent,) = lines(limits(AddressQos(address=FORWARDING, rules=rules(8))))
    assert sent.startswith("-m conntrack --ctorigdst 203.0.113.60 --ctdir REPLY -m hashlimit")


def test_floating_ips_are_no_part_of_the_gateways_limit_which_comes_last() -> None:
    own = AddressQos(address=GATEWAY, rules=rules(8))
    unlimited = AddressQos(address=FLOATING, fixed_address=FIXED)
    both = AddressQos(address=FLOATING, fixed_address=FIXED, rules=rules(16))
    _, sent = lines(limits(own, unlimited))
    assert sent[0] == "-s 10.0.0.5/32 -j RETURN"
    assert sent[1].startswith("-m hashlimit --hashlimit-above 1000b/s")
    _, sent = lines(limits(own, unlimited, both))
    assert [line.rpartition(" ")[2] for line in sent] == ["DROP", "RETURN", "DROP"]
    _, sent = lines(limits(own, snat=False))
    assert sent[0].startswith("-s 203.0.113.10/32 -m hashlimit")


def test_no_limit_is_no_rule() -> None:
    assert not limits(AddressQos(address=FLOATING, fixed_address=FIXED, rules=rules(0)))
    assert lines(limits(AddressQos(address=FLOATING, fixed_address=FIXED))) == ([], [])
    assert not limits(AddressQos(address=ip_address("2001:db8::1"), rules=rules(8)))


def test_another_rate_has_another_name() -> None:
    before, after = (
        lines(limits(AddressQos(address=FLOATING, fixed_address=FIXED, rules=rules(kbps))))
        for kbps in (8, 9)
    )
    names = [line[0].split("--hashlimit-name ")[1].split()[0] for line in (before[0], after[0])]
    assert len(set(names)) == 2
