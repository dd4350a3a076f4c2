"""Broken firewalls that meet policies and packets by chance; `test_broken_firewalls` runs it."""

from broken_firewall_changes import NeverRevokes
from broken_firewall_rules import (
    ForgetsLastPorts,
    IgnoresFamilies,
    IgnoresPrefixes,
    KeepsStateForAll,
    KnowsNoState,
    LetsAllMembersIn,
    MergesGroups,
    RoundsRanges,
)
from broken_firewall_sources import ForgetsPairs, GuardsNothing
from imaginary_firewall import GoodFirewall
from imaginary_firewall_suites import suite

from netfw.testing.conformance.firewall_chance import FirewallChanceConformance

BROKEN = (
    ForgetsLastPorts, IgnoresFamilies, IgnoresPrefixes, KeepsStateForAll, KnowsNoState,
    LetsAllMembersIn, MergesGroups, RoundsRanges, ForgetsPairs, GuardsNothing, NeverRevokes,
)  # fmt: skip
SUITES = {
    f"Test{kind.__name__}": suite(kind, FirewallChanceConformance)
    for kind in (GoodFirewall, *BROKEN)
}
globals().update(SUITES)
