"""A switch that is only a book, and policies to try on it."""

from ipaddress import ip_network
from typing import Any
from uuid import UUID

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.security_group import Direction, Ethertype, SecurityGroupRule
from netfw.model.values.ids import (
    AddressGroupId,
    NetworkId,
    PortId,
    SecurityGroupId,
    SecurityGroupRuleId,
)
from netfw.ovs.openflow import FlowCache, encode_flows
from netfw.ovs.openflow.encode import Key
from netfw.ovs.openflow.encode import State as Bytes
from netfw.ovs.openflow.flow_cache import digest
from netfw.ovs.ovsdb.values import Interface, OvsdbPort
from netfw.plan import Plan, Update
from netfw_drivers.ovs.firewall.plan.plan import FirewallPlan, Observed, plan_firewall
from netfw_drivers.ovs.firewall.plan.recovery import RecoveredState
from netfw_drivers.ovs.firewall.plan.state import FirewallState

IN, OUT = Direction.INGRESS, Direction.EGRESS
V4, V6 = Ethertype.IPV4, Ethertype.IPV6
BRIDGE = "br-int"


def group_id(number: int) -> SecurityGroupId:
    return SecurityGroupId(UUID(int=number << 32))


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:{number:02x}"


def rule(direction: Direction, family: Ethertype = V4, **more: Any) -> SecurityGroupRule:
    content = direction, family, tuple(sorted((name, str(value)) for name, value in more.items()))
    number = hash(str(content)) & (1 << 64) - 1
    return SecurityGroupRule(
        id=SecurityGroupRuleId(UUID(int=number)),
        security_group_id=group_id(0),
        direction=direction,
        ethertype=family,
        **more,
    )


def group(number: int, *rules: SecurityGroupRule, stateful: bool = True) -> dict[GroupKey, Rules]:
    return {GroupKey(group_id(number)): Rules(frozenset(rules), stateful)}


def port(number: int, *groups: int, **more: Any) -> dict[PortKey, FilteredPort]:
    sources = frozenset(
        AllowedSource(mac(number), ip_network(prefix))
        for prefix in (f"10.0.0.{number}", f"fe80::f816:3eff:fe00:{number:x}")
    )
    value = FilteredPort(
        network=NetworkId(UUID(int=1)),
        device=f"tap{number}",
        mac=mac(number),
        groups=frozenset(map(group_id, groups)),
        **{"sources": sources, **more},
    )
    return {PortKey(PortId(UUID(int=number))): value}


def member(number: int, prefix: str, mac: str | None = None) -> dict[Member, Member]:
    found = Member(GroupKey(group_id(number)), ip_network(prefix), mac)
    return {found: found}


def listed(number: int, prefix: str) -> dict[Member, Member]:
    """Return an entry of an address group."""
    key = AddressGroupKey(AddressGroupId(UUID(int=number << 48)))
    found = Member(key, ip_network(prefix))
    return {found: found}


class Bench:
    """A switch with numbered devices, and the firewall's state beside it."""

    def __init__(self, devices: int = 8) -> None:
        self.ports = {f"tap{n}": _device(n) for n in range(1, devices + 1)}
        self.cache, self.state = FlowCache(), FirewallState()
        self.flows: dict[Key, Bytes] = {}
        self.revision = 0

    def plan(
        self,
        put: dict[Any, Any] | None = None,
        drop: Any = (),
        *,
        complete: bool = False,
        keep: Any = (),
        **more: Any,
    ) -> Plan:
        update: Update[FirewallKey, FirewallValue]
        update = Update(
            put=put or {}, drop=frozenset(drop), complete=complete, keep=frozenset(keep)
        )
        return plan_firewall(update, self.observed(**more))

    def observed(self, **more: Any) -> Observed:
        return Observed(bridge=BRIDGE, ports=self.ports, state=self.state, flows=self.cache, **more)

    def apply(self, *args: Any, **more: Any) -> Plan:
        """Plan, and have it so."""
        plan = self.plan(*args, **more)
        assert isinstance(plan, FirewallPlan)
        assert plan.flows is not None
        assert plan.draft is not None
        for key in plan.flows.changes.removed:
            del self.flows[key]
        for encoded in (*plan.flows.changes.added, *plan.flows.changes.changed):
            self.flows[encoded.key] = encoded.state
        self.cache.confirm(plan.flows)
        plan.draft.state.commit()
        assert {key: digest(state) for key, state in self.flows.items()} == self.cache.observed
        return plan

    def restart(self) -> None:
        """Forget everything but the flows."""
        self.cache = FlowCache()
        self.cache.load({key: digest(state) for key, state in self.flows.items()})
        found = RecoveredState(self.flows.items())
        self.cache.adopt(found.owned_flows())
        self.state = found.state

    @property
    def present(self) -> set[FirewallKey]:
        return set(RecoveredState(self.flows.items()).state.present())


def _device(number: int) -> OvsdbPort:
    interface = Interface(uuid=UUID(int=number), name=f"tap{number}", ofport=number)
    return OvsdbPort(
        uuid=UUID(int=number), name=f"tap{number}", bridge=BRIDGE, interfaces=(interface,)
    )


def keys(flows: Any) -> set[Key]:
    return set(encode_flows(flows))
