"""Evaluation of the first packet of a connection against the installed rules.  Pure.

The statements of the rules themselves are interpreted, in the JSON of libnftables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

from attrs import frozen

from netfw.linux.conntrack.entry import ConntrackTuple
from netfw.linux.nftables.values import NftChain, NftRule, NftRuleset, NftSet
from netfw.model.security_group import Direction
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import ICMP, ICMPV6, NUMBERS
from netfw_drivers.nftables.plan.group_chains import KINDS
from netfw_drivers.nftables.plan.names import Tables, chain_name

_ECHO = {ICMP: 8, ICMPV6: 128}
"""ICMP type that a tracked connection almost always begins with; the entry lacks it."""
_PROTOCOLS = {**NUMBERS, "icmpv6": ICMPV6}


@lru_cache(maxsize=65536)
def _parse(text: str) -> list[dict[str, Any]]:
    statements: list[dict[str, Any]] = json.loads(text)
    return statements


@frozen(kw_only=True)
class RuleInterpreter:
    """Interprets the chains of groups."""

    ruleset: NftRuleset
    tables: Tables

    def allows(self, group: SecurityGroupId, flow: ConntrackTuple, direction: Direction) -> bool:
        """Return whether a rule of *group* allows a connection that began with *flow*."""
        return self._accepts(chain_name(KINDS[direction], flow.source.version, group), flow)

    def _accepts(self, name: str, flow: ConntrackTuple) -> bool:
        chain = self.ruleset.chains.get(self.tables.filter(name), NftChain())
        return any(self._rule_accepts(rule, flow) for rule in chain.rules)

    def _rule_accepts(self, rule: NftRule, flow: ConntrackTuple) -> bool:
        """Return whether *rule* accepts; a foreign one that cannot be interpreted does not."""
        try:
            return self._takes(_parse(rule.text), flow)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return False

    def _takes(self, statements: list[dict[str, Any]], flow: ConntrackTuple) -> bool:
        for statement in statements:
            match statement:
                case {"match": body}:
                    if not self._matches(body, flow):
                        return False
                case {"accept": _}:
                    return True
                case {"jump": {"target": target}}:
                    return self._accepts(target, flow)
                case _:
                    return False
        return False

    def _matches(self, body: Mapping[str, Any], flow: ConntrackTuple) -> bool:
        if body["op"] != "==":
            return False
        left, right = body["left"], body["right"]
        mask = None
        if "&" in left:
            left, mask = left["&"]
        match left:
            case {"meta": {"key": "l4proto"}}:
                return bool(flow.protocol == right)
            case {"payload": {"protocol": "ether"}}:
                return bool(self._set(right).elements)  # the entry lacks MAC addresses
            case {"payload": {"protocol": "ip" | "ip6", "field": field}}:
                end = flow.source if field == "saddr" else flow.destination
                return self._address_matches(end, mask, right)
            case {"payload": {"protocol": protocol, "field": field}}:
                own = _PROTOCOLS.get(protocol, flow.protocol) == flow.protocol
                return own and _header_matches(field, right, flow)
        return False

    def _set(self, reference: str) -> NftSet:
        return self.ruleset.sets[self.tables.filter(reference.removeprefix("@"))]

    def _address_matches(self, address: IpAddress, mask: str | None, right: Any) -> bool:
        if isinstance(right, str) and right.startswith("@"):
            masked = address
            if mask is not None:
                masked = ip_network(f"{address}/{_length(mask)}", strict=False).network_address
            return (str(masked),) in self._set(right).elements
        if isinstance(right, dict):
            return address in ip_network(f"{right['prefix']['addr']}/{right['prefix']['len']}")
        return address == ip_address(right)


def _length(mask: str) -> int:
    return int(ip_address(mask)).bit_count()


def _header_matches(field: str, right: Any, flow: ConntrackTuple) -> bool:
    """Match the transport header; ICMP is taken for an echo request."""
    values = {"type": _ECHO.get(flow.protocol), "code": 0, "dport": flow.destination_port}
    value = values.get(field)
    if value is None:
        return False
    first, last = right["range"] if isinstance(right, dict) else (right, right)
    return bool(first <= value <= last)
