"""Policy routing of the local part of a distributed router.  Pure.

All rules follow that of the main table, so that destinations inside come first:

========  ==========================  ==============================================
priority  packets                     table
========  ==========================  ==============================================
32768     from the port of a          16: by the link to the agent gateway
          floating IP
40000     from a subnet               1000 and up, one each: by the central part
========  ==========================  ==============================================

The number of a subnet's table is the lowest free one.  The rules in force are the only record of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_network
from itertools import count

from attrs import field, frozen

from netfw.drivers.values.router_values import LocalRouter, RouterPort
from netfw.linux.ip.values import IpRoute, IpRule, route
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.ids import PortId

FLOATING_PRIORITY, SUBNET_PRIORITY = 32768, 40000
FLOATING_TABLE, FIRST_SUBNET_TABLE = 16, 1000

NEIGHBOUR_SETTINGS: Mapping[str, str] = {
    "ipv4/neigh/base_reachable_time_ms": "5000",
    "ipv4/neigh/delay_first_probe_time": "1",
    "ipv6/neigh/base_reachable_time_ms": "5000",
    "ipv6/neigh/delay_first_probe_time": "1",
    "ipv6/neigh/ucast_solicit": "0",
    "ipv6/neigh/mcast_resolicit": "3",
}
"""Parameters of an interface: an address that moved without an announcement is found soon; in IPv6
by multicast, as the answer to a unicast probe would go to the host of the instance alone."""


@frozen(kw_only=True)
class LocalRouting:
    """Routes and policy rules."""

    routes: tuple[IpRoute, ...] = ()
    rules: tuple[IpRule, ...] = ()


@frozen(kw_only=True)
class _Exit:
    """The way of a subnet to the central part."""

    subnet: IpNetwork
    via: IpAddress
    port: RouterPort = field(repr=False)


def subnet_tables(rules: Iterable[IpRule]) -> dict[IpNetwork, int]:
    """Return the tables that subnets have by the rules in force."""
    return {
        rule.source: rule.table
        for rule in rules
        if rule.priority == SUBNET_PRIORITY
        and rule.source is not None
        and rule.table >= FIRST_SUBNET_TABLE
    }


def is_local(rules: Iterable[IpRule]) -> bool:
    """Return whether rules in force are those of a local part."""
    return any(rule.priority in (FLOATING_PRIORITY, SUBNET_PRIORITY) for rule in rules)


def route_to_central(
    local: LocalRouter, device: Callable[[PortId], str], present: Mapping[IpNetwork, int]
) -> LocalRouting:
    """Return the way of each subnet to the central part; *present* tables are kept."""
    exits = {each.subnet: each for each in _exits(local)}
    tables = _allocate(exits, present)
    routes = (
        route(
            "default",
            via=each.via,
            device=device(each.port.id),
            onlink=not any(each.via in own.network for own in each.port.addresses),
            table=tables[subnet],
        )
        for subnet, each in exits.items()
    )
    rules = (
        IpRule(priority=SUBNET_PRIORITY, source=subnet, table=tables[subnet]) for subnet in exits
    )
    return LocalRouting(routes=tuple(routes), rules=tuple(rules))


def route_to_gateway(fixed: Iterable[IpAddress], via: IpAddress, device: str) -> LocalRouting:
    """Return the way of the ports of floating IPs to the agent gateway."""
    default = route("default", via=via, device=device, table=FLOATING_TABLE)
    return LocalRouting(routes=(default,), rules=floating_rules(fixed))


def floating_rules(fixed: Iterable[IpAddress]) -> tuple[IpRule, ...]:
    """Return the rules of the ports of floating IPs."""
    return tuple(
        IpRule(priority=FLOATING_PRIORITY, source=ip_network(each), table=FLOATING_TABLE)
        for each in dict.fromkeys(fixed)
    )


def _exits(local: LocalRouter) -> Iterator[_Exit]:
    for port in local.interfaces:
        for subnet in port.subnets:
            via = local.snat_addresses.get(subnet.id)
            if via is not None and via.version == subnet.cidr.version:
                yield _Exit(subnet=subnet.cidr, via=via, port=port)


def _allocate(
    subnets: Iterable[IpNetwork], present: Mapping[IpNetwork, int]
) -> dict[IpNetwork, int]:
    """Return a table of its own for each subnet; the lowest free one, unless it has one."""
    tables: dict[IpNetwork, int] = {}
    wanted = sorted(subnets, key=lambda each: (each.version, each))
    for subnet in wanted:
        if subnet in present and present[subnet] not in tables.values():
            tables[subnet] = present[subnet]
    taken = set(tables.values())
    free = (number for number in count(FIRST_SUBNET_TABLE) if number not in taken)
    return tables | {subnet: next(free) for subnet in wanted if subnet not in tables}
