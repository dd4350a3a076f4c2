"""Text of addresses, routes, rules and neighbours, in the syntax of ``ip``.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.linux.ip.values import (
    Address,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    RouteKind,
    RuleAction,
)


def address_text(address: Address) -> str:
    return " ".join(_address_words(address))


def _address_words(address: Address) -> Iterator[str]:
    if address.peer is None:
        yield f"{address.interface} dev {address.device}"
    else:
        peer = f"{address.peer}/{address.interface.network.prefixlen}"
        yield f"{address.interface.ip} peer {peer} dev {address.device}"
    if address.scope is not None:
        yield f"scope {address.scope.name.lower()}"
    if address.noprefixroute:
        yield "noprefixroute"
    if address.nodad:
        yield "nodad"


def route_text(route: IpRoute) -> str:
    return " ".join(_route_words(route))


def _route_words(route: IpRoute) -> Iterator[str]:
    if route.kind != RouteKind.UNICAST:
        yield route.kind.name.lower()
    yield str(route.destination)
    if route.selector:
        yield route.selector
    if len(route.hops) == 1:
        yield from _hop_words(route.hops[0])
    if route.metric:
        yield f"metric {route.metric}"
    yield f"table {route.table}"
    if route.scope is not None:
        yield f"scope {route.scope.name.lower()}"
    if route.source is not None:
        yield f"src {route.source}"
    if len(route.hops) > 1:
        for hop in route.hops:
            yield from ("nexthop", *_hop_words(hop), f"weight {hop.weight}")
    yield from _other_words(route.other)


def _hop_words(hop: NextHop) -> Iterator[str]:
    if hop.via is not None:
        yield f"via {hop.via}"
    if hop.device is not None:
        yield f"dev {hop.device}"
    if hop.onlink:
        yield "onlink"


def rule_text(rule: IpRule) -> str:
    return " ".join(_rule_words(rule))


def _rule_words(rule: IpRule) -> Iterator[str]:
    yield f"priority {rule.priority} from {rule.source or 'all'}"
    if rule.destination is not None:
        yield f"to {rule.destination}"
    if rule.mark is not None:
        yield f"fwmark {rule.mark:#x}/{rule.mask:#x}"
    if rule.iif is not None:
        yield f"iif {rule.iif}"
    if rule.oif is not None:
        yield f"oif {rule.oif}"
    action = rule.action
    yield f"lookup {rule.table}" if action == RuleAction.LOOKUP else action.name.lower()
    yield from _other_words(rule.other)


def _other_words(other: frozenset[str]) -> Iterator[str]:
    """Yield what ``ip`` spells in ways that netfw does not model."""
    if other:
        yield f"({', '.join(sorted(other))})"


def neighbour_text(neighbour: Neighbour) -> str:
    if neighbour.proxy:
        return f"proxy {neighbour.address} dev {neighbour.device}"
    return f"{neighbour.address} lladdr {neighbour.mac} dev {neighbour.device} nud permanent"
