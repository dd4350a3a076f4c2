"""Firewall rules of the API as values for routers.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from netfw.errors import InvalidInput
from netfw.errors.firewalls import (
    FirewallIpAddressConflict,
    FirewallRuleInvalidICMPParameter,
    FirewallRuleWithPortWithoutProtocolInvalid,
)
from netfw.model.router_firewall import FILTERED_PORTS, FirewallAction, FirewallRule
from netfw.model.values.address import IpNetwork, as_network
from netfw.model.values.ids import FirewallRuleId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP, ICMPV6
from netfw.model.wire.scalars import PROTOCOL

_PORTS = ("source_port", "destination_port")
_ADDRESSES = ("source_ip_address", "destination_ip_address")


def make_rule(body: Mapping[str, Any]) -> FirewallRule:
    """Return the rule of a validated *body*."""
    source, destination = (_network(body[name]) for name in _ADDRESSES)
    source_ports, destination_ports = (_ports(body[name]) for name in _PORTS)
    return FirewallRule(
        id=FirewallRuleId(UUID(body["id"])),
        action=FirewallAction(body["action"]),
        ip_version=body["ip_version"],
        protocol=PROTOCOL.parse(body["protocol"]),
        source=source,
        destination=destination,
        source_ports=source_ports,
        destination_ports=destination_ports,
    )


def validate_rule(body: Mapping[str, Any]) -> None:
    """Refuse a rule that could match no packet.

    :raises InvalidInput: ports without a protocol that has some, or addresses of another version.
    """
    ports = [name for name in _PORTS if body[name] is not None]
    protocol = PROTOCOL.parse(body["protocol"])
    if ports and protocol is None:
        raise FirewallRuleWithPortWithoutProtocolInvalid(
            {ports[0]: "needs a protocol that has ports, such as tcp"}
        )
    if ports and protocol in (ICMP, ICMPV6):
        raise FirewallRuleInvalidICMPParameter({ports[0]: "ICMP has no ports"})
    if ports and protocol not in FILTERED_PORTS:
        raise InvalidInput({ports[0]: f"rules cannot name ports of {body['protocol']}"})
    for name in _ADDRESSES:
        prefix = _network(body[name])
        if prefix is not None and prefix.version != body["ip_version"]:
            raise FirewallIpAddressConflict(
                {name: f"{prefix} is not of IPv{body['ip_version']}; correct ip_version"}
            )


def _network(text: str | None) -> IpNetwork | None:
    return None if text is None else as_network(text)


def _ports(text: str | None) -> PortRange | None:
    if text is None:
        return None
    first, _, last = text.partition(":")
    return PortRange(int(first), int(last or first))
