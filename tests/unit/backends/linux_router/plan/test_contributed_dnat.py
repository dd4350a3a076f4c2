"""Ports that rules translate, as values."""

from ipaddress import ip_address

import pytest

from netfw.model.values.port_range import PortRange
from netfw_drivers.linux_router.plan.contributed_dnat import TranslatedPorts, parse_dnat_rule

ADDRESS = "203.0.113.60"
RANGE = (
    f"-d {ADDRESS}/32 -p tcp -m tcp --dport 5000:5002"
    " -j DNAT --to-destination 10.0.0.2:6000-6002/5000"
)


@pytest.mark.parametrize(
    "line",
    [
        "-j ACCEPT",
        f"-d {ADDRESS}/32 -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p tcp -m tcp --dport http -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p tcp -m tcp --dport 0 -j DNAT --to-destination 10.0.0.2",
        f"-d {ADDRESS}/32 -p dccp -m dccp --dport 80 -j DNAT --to-destination 10.0.0.2",
    ],
)
def test_other_rules_translate_no_ports(line):
    assert list(parse_dnat_rule(line.split())) == []


def test_rule_of_a_range_is_parsed():
    (found,) = parse_dnat_rule(RANGE.split())
    assert found == TranslatedPorts(
        ip_address(ADDRESS), "tcp", PortRange(5000, 5002), "10.0.0.2:6000-6002/5000"
    )
