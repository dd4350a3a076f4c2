"""What is decided from what a host has."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.cli.diagnosis.host_checks import CheckLevel, HostFacts, RequiredProgram, check_host
from netfw.linux.clock_sync import ClockState

pytestmark = pytest.mark.spec("DRV-44")
ALL = (1 << 41) - 1
GOOD: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64",
    "capabilities": ALL,
    "switch": "ovs-vswitchd (Open vSwitch) 3.3.0",
    "datapaths": "netdev@ovs-netdev\n",
    "programs": {"ipset": RequiredProgram(version="ipset v7.17")},
    "conntrack": (10, 262144),
    "directories": {"/var/lib/netfw": ""},
    "configurations": {"l2": ()},
}


def test_good_host_has_neither_warnings_nor_things_to_do() -> None:
    checks = check_host(HostFacts(**GOOD))
    assert {check.level for check in checks} == {CheckLevel.OK}
    assert not any(check.todo for check in checks)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ClockState.SYNCHRONISED, "synchronised"),
        (ClockState.UNKNOWN, "the kernel does not say"),
    ],
)
def test_clock_that_is_right_differs_from_an_unknown_one(state: ClockState, text: str) -> None:
    checks = check_host(HostFacts(**{**GOOD, "clock": state}))
    (clock,) = (check for check in checks if check.name == "clock")
    assert (clock.level, clock.text) == (CheckLevel.OK, text)


@pytest.mark.parametrize(
    ("name", "level", "change"),
    [
        ("kernel", CheckLevel.WARN, {"kernel": "3.10.0"}),
        ("privileges", CheckLevel.FAIL, {"capabilities": 0}),
        ("network namespaces", CheckLevel.FAIL, {"has_netns": False}),
        ("IPv6", CheckLevel.WARN, {"has_ipv6": False}),
        ("Open vSwitch", CheckLevel.FAIL, {"switch_problem": "no answer"}),
        ("Open vSwitch", CheckLevel.WARN, {"switch": "ovs-vswitchd (Open vSwitch) 2.5.0"}),
        ("datapath", CheckLevel.WARN, {"datapaths": ""}),
        ("datapath", CheckLevel.WARN, {"megaflows_outlive": True}),
        ("ipset", CheckLevel.WARN, {"programs": {"ipset": RequiredProgram(problem="install it")}}),
        (
            "iptables variant",
            CheckLevel.WARN,
            {
                "programs": {
                    "iptables": RequiredProgram(version="iptables v1.8.9 (nf_tables)"),
                    "ip6tables": RequiredProgram(version="ip6tables v1.8.9 (legacy)"),
                }
            },
        ),
        ("connection tracking", CheckLevel.WARN, {"conntrack": None}),
        ("connection tracking", CheckLevel.WARN, {"conntrack": (90, 100)}),
        ("open files", CheckLevel.WARN, {"files": (1024, 1024)}),
        ("clock", CheckLevel.WARN, {"clock": ClockState.UNSYNCHRONISED}),
        ("directory /x", CheckLevel.FAIL, {"directories": {"/x": "others could change it"}}),
        ("disk", CheckLevel.WARN, {"free_bytes": 1000}),
        ("configuration", CheckLevel.WARN, {"configurations": {}}),
        ("drivers of l2", CheckLevel.FAIL, {"configurations": {"l2": ("no bridge",)}}),
    ],
)
def test_each_deficiency_is_named_with_what_to_do(
    name: str, level: CheckLevel, change: dict[str, Any]
) -> None:
    checks = check_host(HostFacts(**{**GOOD, **change}))
    (found,) = [check for check in checks if check.level is not CheckLevel.OK]
    assert (found.name, found.level) == (name, level)
    assert found.todo
