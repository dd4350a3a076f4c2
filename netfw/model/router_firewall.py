"""Router firewalls: the rules of firewall groups, for the interfaces of one router."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from attrs import field, frozen

from netfw.model.values.address import IpNetwork, maybe_network
from netfw.model.values.ids import FirewallGroupId, FirewallRuleId, PortId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import PORTED, UDPLITE
from netfw.model.values.validation import Problem, Validated, repeated

MAX_FIREWALL_RULES: Final = 100
"""Rules of one firewall policy."""
MAX_FIREWALL_PORTS: Final = 64
"""Ports of one firewall group."""

FILTERED_PORTS: Final = PORTED - {UDPLITE}
"""Protocols whose ports rules can name."""


class FirewallAction(enum.StrEnum):
    """What happens to packets that match a rule."""

    ALLOW = "allow"
    DENY = "deny"
    REJECT = "reject"
    """The sender is told."""


@frozen(kw_only=True)
class FirewallRule(Validated):
    """One rule of a policy; the first that matches a packet decides."""

    id: FirewallRuleId
    action: FirewallAction = FirewallAction.DENY
    ip_version: int = 4
    protocol: int | None = None
    """``ICMP`` is that of the IP version."""
    source: IpNetwork | None = field(default=None, converter=maybe_network)
    destination: IpNetwork | None = field(default=None, converter=maybe_network)
    source_ports: PortRange | None = None
    destination_ports: PortRange | None = None

    def _problems(self) -> Iterator[Problem]:
        if self.ip_version not in (4, 6):
            yield "ip_version", f"{self.ip_version} is neither 4 nor 6"
        for name, prefix in (("source", self.source), ("destination", self.destination)):
            if prefix is not None and prefix.version != self.ip_version:
                yield name, f"{prefix} is not of IPv{self.ip_version}"
        for name, ports in (
            ("source_ports", self.source_ports),
            ("destination_ports", self.destination_ports),
        ):
            if ports is not None and self.protocol not in FILTERED_PORTS:
                yield name, "only tcp, udp, sctp and dccp have ports"


@frozen(kw_only=True)
class FirewallGroup(Validated):
    """The interfaces of one router that are in a firewall group, and the rules of the group.

    What no rule allows is denied.  Directions are those of the network behind an interface.
    """

    id: FirewallGroupId
    ports: tuple[PortId, ...] = field(converter=tuple[PortId, ...])
    ingress: tuple[FirewallRule, ...] = field(default=(), converter=tuple[FirewallRule, ...])
    """Rules for what leaves the router by one of the ports."""
    egress: tuple[FirewallRule, ...] = field(default=(), converter=tuple[FirewallRule, ...])
    """Rules for what enters the router by one of the ports."""

    def _problems(self) -> Iterator[Problem]:
        for name in ("ingress", "egress"):
            if len(getattr(self, name)) > MAX_FIREWALL_RULES:
                yield name, f"more than {MAX_FIREWALL_RULES} rules"
        if not self.ports:
            yield "ports", "a group of a router has at least one port"
        for at in repeated(self.ports):
            yield f"ports[{at}]", "is there twice"
