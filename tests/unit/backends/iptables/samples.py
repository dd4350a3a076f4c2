"""A kernel of the mind: what iptables, ipset and ebtables hold, by the toolboxes' own books."""

from __future__ import annotations

from ipaddress import ip_network
from uuid import UUID

from attrs import define, field

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.linux.bridge_firewall.denied_connections import FlushConnections
from netfw.linux.bridge_firewall.values import BridgePorts
from netfw.linux.ebtables.chains import FoundChain, PutFrameChain
from netfw.linux.ipset.plan import KernelSet, record
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.plan import plan_chains
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SecurityGroupRuleId
from netfw.plan import Plan, Update
from netfw_drivers.iptables.plan.names import OWNER
from netfw_drivers.iptables.plan.plan import Observed, plan_firewall
from netfw_drivers.iptables.plan.ruleset_index import IptablesRulesetIndex

IN, OUT = Direction.INGRESS, Direction.EGRESS
V4, V6 = Ethertype.IPV4, Ethertype.IPV6

NETWORK = NetworkId(UUID(int=0xA0 << 120))
OTHER = NetworkId(UUID(int=0xB0 << 120))
GROUP = SecurityGroupId(UUID(int=0xC0 << 120))
FRIENDS = SecurityGroupId(UUID(int=0xD0 << 120))


def port_id(number: int) -> PortId:
    return PortId(UUID(int=(0xE0 << 120) + number))


def a_port(
    number: int = 1,
    *groups: SecurityGroupId,
    network: NetworkId = NETWORK,
    device: str = "",
    trusted: bool = False,
) -> dict[FirewallKey, FirewallValue]:
    mac = f"fa:16:3e:00:00:{number:02x}"
    addresses = (f"10.0.0.{number}/32", f"fd00::{number:x}/128")
    sources = frozenset(AllowedSource(mac, ip_network(address)) for address in addresses)
    value = FilteredPort(
        network=network,
        device=device or f"tap{number}",
        mac=mac,
        sources=sources,
        groups=frozenset(groups),
        trusted=trusted,
    )
    return {PortKey(port_id(number)): value}


def a_rule(direction: Direction, ethertype: Ethertype = V4, **more: object) -> SecurityGroupRule:
    values = {"id": SecurityGroupRuleId(UUID(int=1)), "security_group_id": GROUP, **more}
    return SecurityGroupRule(direction=direction, ethertype=ethertype, **values)  # type: ignore[arg-type]


def a_group(
    *rules: SecurityGroupRule, id: SecurityGroupId = GROUP, stateful: bool = True
) -> dict[FirewallKey, FirewallValue]:
    return {GroupKey(id): Rules(frozenset(rules), stateful)}


def a_member(prefix: str, group: SecurityGroupId = FRIENDS) -> dict[FirewallKey, FirewallValue]:
    member = Member(GroupKey(group), ip_network(prefix))
    return {member: member}


@define
class Kernel:
    """What is there, and how a plan changes it."""

    bridges: dict[str, str | None] = field(factory=dict)
    mirror: ChainMirror = field(factory=ChainMirror)
    sets: dict[str, KernelSet] = field(factory=dict)
    frames: dict[str, FoundChain] = field(factory=dict)
    cuts: list[FlushConnections] = field(factory=list)
    private: bool = False

    def observe(self, *, fresh: bool = False) -> Observed:
        index = IptablesRulesetIndex()
        index.update_all(self.mirror.chains)
        return Observed(
            index=index,
            chains=self.mirror.chains,
            sets=self.sets,
            frames=self.frames,
            bridge_ports=BridgePorts(self.bridges, lambda device: device, OWNER, self.private),
            tables=lambda update: plan_chains(update, self.mirror, OWNER, {}),
            fresh=fresh,
        )

    def plan(self, update: Update[FirewallKey, FirewallValue], *, fresh: bool = False) -> Plan:
        return plan_firewall(update, self.observe(fresh=fresh))

    def carry_out(self, plan: Plan) -> None:
        for stage in plan.stages:
            for operation in stage.operations:
                self._do(stage.backend, operation.payload)

    def converge(self, update: Update[FirewallKey, FirewallValue]) -> Plan:
        plan = self.plan(update)
        self.carry_out(plan)
        return plan

    def lines(self, name: str, family: int = 4) -> tuple[str, ...]:
        (found,) = [
            lines
            for key, lines in self.mirror.chains.items()
            if key.name == name and key.family == family
        ]
        return found

    def _do(self, backend: str, payload: object) -> None:
        if backend == "ipset":
            record(payload, self.sets)  # type: ignore[arg-type]
        elif isinstance(payload, FlushConnections):
            self.cuts.append(payload)
        elif backend == "ebtables":
            if isinstance(payload, PutFrameChain):
                self.frames[payload.name] = payload.wanted
            else:
                self.frames.pop(payload.name, None)  # type: ignore[attr-defined]
        else:
            self.mirror.record([payload])  # type: ignore[list-item]
