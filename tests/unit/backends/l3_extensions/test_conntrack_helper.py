"""Rules of conntrack helpers."""

from __future__ import annotations

from uuid import UUID

import pytest

from netfw.drivers.values.router_contribution import RuleChain, RuleTable
from netfw.model.router import ConntrackHelper, HelperProtocol
from netfw.model.values.ids import ConntrackHelperId
from netfw_drivers.l3_extensions.conntrack_helper import make_rules

pytestmark = pytest.mark.spec("L3-80")


def helper(name: str, protocol: HelperProtocol = HelperProtocol.TCP) -> ConntrackHelper:
    return ConntrackHelper(
        id=ConntrackHelperId(UUID(int=7)), protocol=protocol, port=2121, helper=name
    )


@pytest.mark.parametrize(
    ("name", "protocol", "kernel", "versions"),
    [
        ("ftp", HelperProtocol.TCP, "ftp", [4, 6]),
        ("h323", HelperProtocol.TCP, "Q.931", [4, 6]),
        ("h323", HelperProtocol.UDP, "RAS", [4, 6]),
        ("irc", HelperProtocol.TCP, "irc", [4]),
        ("netbios-ns", HelperProtocol.UDP, "netbios-ns", [4]),
    ],
)
def test_rules_name_the_helper_of_the_kernel(
    name: str, protocol: HelperProtocol, kernel: str, versions: list[int]
) -> None:
    rules = list(make_rules(helper(name, protocol)))
    assert [rule.ip_version for rule in rules] == versions
    for rule in rules:
        assert (rule.table, rule.chain) == (RuleTable.RAW, RuleChain.PREROUTING)
        assert " ".join(rule.words) == (
            f"-p {protocol} -m {protocol} --dport 2121 -m comment "
            f"--comment cth-{UUID(int=7)} -j CT --helper {kernel}"
        )
        assert name in rule.subject
        assert rule.local, "local parts translate floating IPs"
