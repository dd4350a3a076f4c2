"""The firewall of Linux bridges: many ports at once, one member more, one rule more.

The driver alone, as an agent calls it.  The raw limit is the restores of what it made, into a host
that has nothing yet.  CPU is that of the process and of the tools that it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

from benchmarks.figure import Figure, milliseconds, ratio
from benchmarks.firewall.rig import DEFAULT_RULES, GROUP, port, rule
from benchmarks.l2.rig import run_alone, seconds
from netfw.agents.l2.desired_firewall import make_filtered_port
from netfw.drivers.firewall import FirewallDriver, Member, Rules
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.plan import Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.lab import Lab

PORTS = 200
SIZES = (10, 200, 2000)
REPEATS = 15
AT_ONCE, FLAT, MILLISECONDS = 5.0, 1.5, 10.0
KEY = GroupKey(GROUP.id)
_TCP = 6
_SAVES = {
    ("ipset", "save"): ("ipset", "restore"),
    ("iptables-save",): ("iptables-restore",),
    ("ip6tables-save",): ("ip6tables-restore",),
}


def figures() -> Iterator[Figure]:
    """Return the figures of this file."""
    return bridge_figures("iptables", "the restores", _raw)


def bridge_figures(
    name: str, limit: str, measure_raw: Callable[[Host], float], flat: float = FLAT
) -> Iterator[Figure]:
    """Yield the figures of the driver *name*; *limit* is the name of its raw limit."""
    members: dict[int, float] = {}
    rules: dict[int, float] = {}
    for size in SIZES:
        with _bridge(name, min(size, PORTS)) as (host, driver):
            update = Update(put=_policy(min(size, PORTS), size), complete=True)
            own = seconds(partial(_converge, host, driver, update))
            if size == PORTS:
                yield ratio(
                    f"firewall: {name}, filters of {PORTS} ports over {limit}",
                    own=own, raw=measure_raw(host), target=AT_ONCE,
                )  # fmt: skip
            more = range(size + 1, size + 1 + REPEATS)
            members[size] = _many(host, driver, map(_member, more))
            rules[size] = _many(host, driver, _more_rules())
    few, some, many = SIZES
    for what, cost, large in (("member", members, many), ("rule", rules, some)):
        yield Figure(
            name=f"firewall: {name}, CPU for one {what} more, {large} over {few}",
            measured=cost[large] / cost[few], target=flat,
            raw_seconds=cost[few], own_seconds=cost[large],
        )  # fmt: skip
    text = f"firewall: {name}, CPU for one member more, group of {many}"
    yield milliseconds(text, members[many], MILLISECONDS)


@contextmanager
def _bridge(name: str, ports: int) -> Iterator[tuple[Host, FirewallDriver]]:
    """Yield a host with that many devices on a Linux bridge, and the driver."""
    with Lab(hosts=1) as lab, LocalHostResources() as local:
        (host,) = lab.hosts.values()
        host.namespaces.ip(
            "link add br0 type bridge",
            *(f"link add tap{n} master br0 type veth" for n in range(1, ports + 1)),
        )
        driver = host.call(create, FirewallDriver, name, {}, local)
        yield host, driver
        driver.close()


def _policy(here: int, members: int) -> Mapping[Any, Any]:
    ports = {
        PortKey(each.id): make_filtered_port(each, SwitchDevice(name=f"tap{number}"))
        for number in range(1, here + 1)
        for each in (port(number, "here"),)
    }
    found = {member: member for n in range(1, members + 1) for member in _member(n)}
    return {**ports, KEY: Rules(frozenset(DEFAULT_RULES)), **found}


def _member(number: int) -> Mapping[Any, Any]:
    member = Member(KEY, IPv4Network(IPv4Address("10.0.0.0") + number))
    return {member: member}


def _more_rules() -> Iterator[Mapping[Any, Any]]:
    rules: set[SecurityGroupRule] = set(DEFAULT_RULES)
    for number in range(REPEATS):
        ports = {"protocol": _TCP, "port_min": 80 + number, "port_max": 80 + number}
        rules.add(rule(100 + number, direction=Direction.INGRESS, **ports))
        yield {KEY: Rules(frozenset(rules))}


def _many(host: Host, driver: FirewallDriver, changes: Iterator[Mapping[Any, Any]]) -> float:
    """Return the median CPU seconds of one of these changes."""
    return median(_cost(host, driver, Update(put=change)) for change in changes)


def _cost(host: Host, driver: FirewallDriver, update: Update[Any, Any]) -> float:
    before = _cpu()
    _converge(host, driver, update)
    return _cpu() - before


def _cpu() -> float:
    used = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in used)


def _converge(host: Host, driver: FirewallDriver, update: Update[Any, Any]) -> None:
    host.call(driver.converge, update).raise_failed()


def _raw(host: Host) -> float:
    """Return the seconds to restore the tables of the host into an empty one."""
    texts = {restore: host.run(list(save)) for save, restore in _SAVES.items()}
    with Lab(hosts=1) as lab:
        (other,) = lab.hosts.values()
        return sum(
            seconds(partial(other.run, list(restore), input=text))
            for restore, text in texts.items()
        )


if __name__ == "__main__":
    run_alone("benchmarks.firewall.iptables", figures)
