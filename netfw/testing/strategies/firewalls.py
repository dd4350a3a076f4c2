"""Strategies that draw firewall groups of routers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model.router_firewall import (
    FILTERED_PORTS,
    FirewallAction,
    FirewallGroup,
    FirewallRule,
)
from netfw.model.values.ids import FirewallGroupId, FirewallRuleId, PortId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import NAMES
from netfw.testing.strategies.basic import ids, maybe, prefixes


@st.composite
def firewall_rules(draw: st.DrawFn) -> FirewallRule:
    """Draw rules of both IP versions, with and without a protocol."""
    version, protocol = draw(st.sampled_from((4, 6))), draw(maybe(st.sampled_from(sorted(NAMES))))
    ports = maybe(_port_ranges()) if protocol in FILTERED_PORTS else st.none()
    return FirewallRule(
        id=FirewallRuleId(draw(ids)),
        action=draw(st.sampled_from(FirewallAction)),
        ip_version=version,
        protocol=protocol,
        source=draw(maybe(prefixes(version))),
        destination=draw(maybe(prefixes(version))),
        source_ports=draw(ports),
        destination_ports=draw(ports),
    )


def firewall_groups() -> SearchStrategy[tuple[FirewallGroup, ...]]:
    """Draw the groups of one router: no port is in two of them."""
    ports = st.lists(ids, unique=True, max_size=3)
    return st.tuples(ports, st.lists(firewall_rules(), max_size=2)).map(_groups)


def _groups(drawn: tuple[list[PortId], list[FirewallRule]]) -> tuple[FirewallGroup, ...]:
    ports, rules = drawn
    return tuple(
        FirewallGroup(id=FirewallGroupId(port), ports=(port,), ingress=rules, egress=rules[:1])
        for port in ports
    )


def _port_ranges() -> SearchStrategy[PortRange]:
    ends = st.tuples(st.integers(1, 65535), st.integers(1, 65535))
    return ends.map(lambda pair: PortRange(min(pair), max(pair)))
