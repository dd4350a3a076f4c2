"""What is decided from what a host has."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.cli.diagnosis.host_checks import HostFacts, Level, Program, check_host

pytestmark = pytest.mark.spec("DRV-44")
ALL = (1 << 41) - 1
GOOD: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64",
    "capabilities": ALL,
    "switch": "ovs-vswitchd (Open vSwitch) 3.3.0",
    "datapaths": "netdev@ovs-netdev\n",
    "programs": {"ipset": Program(version="ipset v7.17")},
    "conntrack": (10, 262144),
    "directories": {"/var/lib/netfw": ""},
    "configurations": {"l2": ()},
}


def test_good_host_has_neither_warnings_nor_things_to_do() -> None:
    checks = check_host(HostFacts(**GOOD))
    assert {check.level for check in checks} == {Level.OK}
    assert not any(check.todo for check in checks)


@pytest.mark.parametrize(
    ("is_synchronised", "text"), [(True, "synchronised"), (None, "the kernel does not say")]
)
def test_clock_that_is_right_differs_from_an_unknown_one(
    is_synchronised: bool | None, text: str
) -> None:
    checks = check_host(HostFacts(**{**GOOD, "is_synchronised": is_synchronised}))
    (clock,) = (check for check in checks if check.name == "clock")
    assert (clock.level, clock.text) == (Level.OK, text)


@pytest.mark.parametrize(
    ("name", "level", "change"),
    [
        ("kernel", Level.WARN, {"kernel": "3.10.0"}),
        ("privileges", Level.FAIL, {"capabilities": 0}),
        ("network namespaces", Level.FAIL, {"has_netns": False}),
        ("IPv6", Level.WARN, {"has_ipv6": False}),
        ("Open vSwitch", Level.FAIL, {"switch_problem": "no answer"}),
        ("Open vSwitch", Level.WARN, {"switch": "ovs-vswitchd (Open vSwitch) 2.5.0"}),
        ("datapath", Level.WARN, {"datapaths": ""}),
        ("datapath", Level.WARN, {"megaflows_outlive": True}),
        ("ipset", Level.WARN, {"programs": {"ipset": Program(problem="install it")}}),
        (
            "iptables variant",
            Level.WARN,
            {
                "programs": {
                    "iptables": Program(version="iptables v1.8.9 (nf_tables)"),
                    "ip6tables": Program(version="ip6tables v1.8.9 (legacy)"),
                }
            },
        ),
        ("connection tracking", Level.WARN, {"conntrack": None}),
        ("connection tracking", Level.WARN, {"conntrack": (90, 100)}),
        ("open files", Level.WARN, {"files": (1024, 1024)}),
        ("clock", Level.WARN, {"is_synchronised": False}),
        ("directory /x", Level.FAIL, {"directories": {"/x": "others could change it"}}),
        ("disk", Level.WARN, {"free_bytes": 1000}),
        ("configuration", Level.WARN, {"configurations": {}}),
        ("drivers of l2", Level.FAIL, {"configurations": {"l2": ("no bridge",)}}),
    ],
)
def test_each_deficiency_is_named_with_what_to_do(
    name: str, level: Level, change: dict[str, Any]
) -> None:
    checks = check_host(HostFacts(**{**GOOD, **change}))
    (found,) = [check for check in checks if check.level is not Level.OK]
    assert (found.name, found.level) == (name, level)
    assert found.todo
