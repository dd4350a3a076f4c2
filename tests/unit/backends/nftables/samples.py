"""A ruleset that plans change by the toolbox's own mirror."""

from __future__ import annotations

from attrs import define, field

from netfw.drivers.firewall import FirewallKey, FirewallValue
from netfw.linux.bridge_firewall.denied_connections import FlushConnections
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.nftables.operations import record_operations
from netfw.linux.nftables.values import NftRuleset
from netfw.plan import Plan, Update
from netfw_drivers.nftables.plan.names import OWNER, Tables
from netfw_drivers.nftables.plan.plan import Observed, plan_firewall
from netfw_drivers.nftables.plan.ruleset_index import NftRulesetIndex

TABLES = Tables(OWNER)


@define
class MirroredHost:
    """What is there, and how a plan changes it."""

    bridges: dict[str, str | None] = field(factory=dict)
    ruleset: NftRuleset = field(factory=NftRuleset)
    flushes: list[FlushConnections] = field(factory=list)
    private: bool = False

    def observe(self, *, fresh: bool = False) -> Observed:
        return Observed(
            index=NftRulesetIndex.of(self.ruleset),
            bridge_ports=BridgePorts(self.bridges, lambda device: device, OWNER, self.private),
            fresh=fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], *, fresh: bool = False) -> Plan:
        return plan_firewall(update, self.observe(fresh=fresh))

    def converge(self, update: Update[FirewallKey, FirewallValue]) -> Plan:
        plan = self.plan(update)
        for stage in plan.stages:
            payloads = [operation.payload for operation in stage.operations]
            if stage.backend == "nftables":
                record_operations(self.ruleset, payloads)  # type: ignore[arg-type]
            else:
                self.flushes += payloads  # type: ignore[arg-type]
        return plan

    def put(self, *states: dict[FirewallKey, FirewallValue]) -> Plan:
        return self.converge(Update(put={k: v for state in states for k, v in state.items()}))

    def rules(self, name: str) -> list[str]:
        """Return the text of the rules of a chain."""
        return [rule.text for rule in self.ruleset.chains[TABLES.filter(name)].rules]


def texts(plan: Plan) -> list[str]:
    """Return the lines that a dry run shows."""
    return [operation.text for stage in plan.stages for operation in stage.operations]
