"""LogSubject: what a flow of the packet log tells about its packets.  Pure.

It travels with each packet, so that the agent explains the packet by the rules that were in force
when the switch decided, and stores nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_network
from typing import Any, Final

from attrs import frozen

from netfw.model.packet_log import LogEvent, PacketLog
from netfw.model.port import Port
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import IpNetwork

MAX_OCTETS: Final = 16384
"""Limit of what a flow carries; a message of OpenFlow has at most 65,535 octets."""
MAX_TEXT: Final = 1 << 20
"""Characters after decompression."""


@frozen(kw_only=True)
class LoggedRule:
    """A rule of the port's groups, for explanations."""

    id: str
    group: str
    version: int
    protocol: int | None = None
    port_min: int | None = None
    port_max: int | None = None
    prefix: IpNetwork | None = None
    remote: str = ""
    """The group or address group that the far end must be in; empty: none."""


@frozen(kw_only=True)
class LogSubject:
    """The port, the decision and the rules of one flow."""

    action: LogEvent
    direction: Direction
    port: str
    project: str
    logs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rules: tuple[LoggedRule, ...] | None = None
    """``None``: there are too many to travel with a packet."""


def make_subject(
    port: Port,
    logs: Iterable[PacketLog],
    rules: Iterable[SecurityGroupRule],
    action: LogEvent,
    direction: Direction,
) -> LogSubject:
    """Return the subject of the packets of *port* with the decision *action*."""
    known = (_logged_rule(rule) for rule in rules if rule.direction is direction)
    return LogSubject(
        action=action,
        direction=direction,
        port=str(port.id),
        project=port.project_id,
        logs=tuple(sorted(str(log.id) for log in logs if log.event.includes(action))),
        groups=tuple(sorted(map(str, port.security_groups))),
        rules=tuple(sorted(known, key=lambda rule: (rule.group, rule.id))),
    )


def _logged_rule(rule: SecurityGroupRule) -> LoggedRule:
    remote = ""
    if rule.remote_group_id is not None:
        remote = f"security group {rule.remote_group_id}"
    elif rule.remote_address_group_id is not None:
        remote = f"address group {rule.remote_address_group_id}"
    return LoggedRule(
        id=str(rule.id),
        group=str(rule.security_group_id),
        version=rule.ethertype.ip_version,
        protocol=rule.ip_protocol,
        port_min=rule.port_min,
        port_max=rule.port_max,
        prefix=rule.remote_prefix,
        remote=remote,
    )


def encode_subject(subject: LogSubject) -> bytes:
    """Return *subject* as octets of a flow; rules that do not fit are left out."""
    rules = None if subject.rules is None else [_rule_fields(rule) for rule in subject.rules]
    head = [
        subject.action.value, subject.direction.value, subject.port, subject.project,
        subject.logs, subject.groups,
    ]  # fmt: skip
    data = _compress([*head, rules])
    return data if len(data) <= MAX_OCTETS else _compress([*head, None])


def _rule_fields(rule: LoggedRule) -> list[Any]:
    prefix = None if rule.prefix is None else str(rule.prefix)
    ports = rule.port_min, rule.port_max
    return [rule.id, rule.group, rule.version, rule.protocol, *ports, prefix, rule.remote]


def _compress(content: list[Any]) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode())


@lru_cache(maxsize=256)
def decode_subject(data: bytes) -> LogSubject | None:
    """Return the subject in the octets of a flow; ``None``: another program wrote them."""
    try:
        text = zlib.decompressobj().decompress(data, MAX_TEXT)
        action, direction, port, project, logs, groups, rules = json.loads(text)
        return LogSubject(
            action=LogEvent(action),
            direction=Direction(direction),
            port=port,
            project=project,
            logs=tuple(logs),
            groups=tuple(groups),
            rules=None if rules is None else tuple(_read_rule(each) for each in rules),
        )
    except (ValueError, TypeError, zlib.error):
        return None


def _read_rule(fields: list[Any]) -> LoggedRule:
    id, group, version, protocol, low, high, prefix, remote = fields
    return LoggedRule(
        id=id,
        group=group,
        version=version,
        protocol=protocol,
        port_min=low,
        port_max=high,
        prefix=None if prefix is None else ip_network(prefix),
        remote=remote,
    )
