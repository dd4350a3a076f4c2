"""All combinations of protocols and ports that the API accepts in rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import cast

from netfw.errors import InvalidInput
from netfw.model.resource import Kind
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.protocol import NUMBERS
from netfw.server.security_groups.rules import parse_rule

_PROTOCOLS = (None, *NUMBERS, *map(str, range(256)))
_RANGES = (
    (None, None), (0, None), (0, 0), (1, 1), (8, None), (8, 0), (80, 80), (80, 90), (255, None),
    (255, 255), (1, 65535), (1024, 65535), (65535, 65535),
)  # fmt: skip
"""Ports, and ICMP types and codes."""


@cache
def accepted_rules() -> tuple[SecurityGroupRule, ...]:
    """Return each of them once."""
    found: dict[tuple[object, ...], SecurityGroupRule] = {}
    for way, family, protocol, ports in itertools.product(
        Direction, Ethertype, _PROTOCOLS, _RANGES
    ):
        for rule in _parse(way, family, protocol, *ports):
            found.setdefault((way, family, rule.protocol, rule.port_min, rule.port_max), rule)
    return tuple(found.values())


def _parse(
    direction: str, ethertype: str, protocol: str | None, low: int | None, high: int | None
) -> Iterator[SecurityGroupRule]:
    try:
        body = {
            "project_id": "anna",
            "security_group_id": "00000000-0000-0000-0000-000000000001",
            "direction": direction,
            "ethertype": ethertype,
            "protocol": protocol,
            "port_range_min": low,
            "port_range_max": high,
        }
        yield cast(SecurityGroupRule, parse_rule(Kind.SECURITY_GROUP_RULE, body))
    except InvalidInput:
        return
