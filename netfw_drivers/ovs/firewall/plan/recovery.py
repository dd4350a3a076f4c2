"""Recovery of the firewall's state from the flows of an earlier run.  Pure.

Everything is read from the flows: numbers and ports from their notes, rules and members from where
their clauses are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping

from attrs import frozen

from netfw import flows as of
from netfw.flows.field import FIELD
from netfw.ovs.openflow.encode import (
    Key,
    canonical,
    cookie_of,
    decode_field,
    decode_match,
    encode_flows,
)
from netfw.ovs.openflow.encode import State as Bytes
from netfw.ovs.openflow.flow_inspection import conjunctions, note_of
from netfw_drivers.ovs.firewall.plan.changes import MAX_POLICIES, STATIC, FlowOwner, Owner
from netfw_drivers.ovs.firewall.plan.conjunction_notes import (
    GroupPresent,
    MemberSet,
    Noted,
    Permit,
    PortNote,
    read,
)
from netfw_drivers.ovs.firewall.plan.flows import COOKIE, static_flows
from netfw_drivers.ovs.firewall.plan.matches import ClauseMatch, RuleStage, address_at
from netfw_drivers.ovs.firewall.plan.state import ConjunctionOwner, FirewallState, PolicyOwner
from netfw_drivers.ovs.pipeline.tables import (
    BASE_EGRESS,
    BASE_INGRESS,
    POLICY,
    PORT,
    RULES_EGRESS,
    RULES_INGRESS,
    TARGET,
)

_RULES = RULES_EGRESS.number, RULES_INGRESS.number
_BASES = BASE_EGRESS.number, BASE_INGRESS.number
_NOTED = BASE_INGRESS.number, *_RULES
"""Tables with notes."""
_MAX_MEANINGS = 1 << 24
_RULE_STAGES = {(stage.table.number, stage.priority): stage for stage in RuleStage}


@frozen
class ParsedFlow:
    """One flow of the firewall."""

    key: Key
    actions: Bytes

    @property
    def table(self) -> int:
        return self.key[0]

    @property
    def priority(self) -> int:
        return int.from_bytes(self.key[1:3])

    @property
    def match(self) -> of.Match:
        return decode_match(self.key[3:])

    @property
    def conj_id(self) -> int | None:
        """The number of the conjunction that the flow is for."""
        found = decode_field(self.key, FIELD["conj_id"])
        return None if found is None else found[0]

    def value(self, where: of.RegisterField) -> int | None:
        """Return the value of a register's bits that the flow matches, or ``None`` for any."""
        found = decode_field(self.key, where.bits.field)
        if found is None or found[1] & where.mask != where.mask:
            return None
        return (found[0] & where.mask) >> where.first


class RecoveredState:
    """The state that an earlier run has left, and the owners of its flows."""

    def __init__(self, flows: Iterable[tuple[Key, Bytes]]) -> None:
        self.state = FirewallState()
        self._parts: dict[FlowOwner, list[Key]] = defaultdict(list)
        found = [
            ParsedFlow(canonical(key), state) for key, state in flows if cookie_of(state) == COOKIE
        ]
        ports = self._note_all(found)
        for flow in found:
            part = self._part(flow, ports)
            if part is not None:
                self._parts[part].append(flow.key)
        self._parts[STATIC] = list(encode_flows(static_flows()))

    def owned_flows(self) -> Mapping[Hashable, Collection[Key]]:
        """Return the keys of the flows of each owner."""
        return {Owner(part): keys for part, keys in self._parts.items()}

    def _note_all(self, found: Collection[ParsedFlow]) -> dict[int, PortNote]:
        """Read the notes; return the ports by their numbers."""
        ports: dict[int, PortNote] = {}
        for flow in found:
            data = note_of(flow.actions) if flow.table in _NOTED else None
            noted = None if data is None else read(data)
            if noted is not None:
                self._note(flow, noted, ports)
        policies = self.state.policies.thing
        for port in ports.values():
            self.state.note_port(port.port)
            if port.policy in policies:
                self.state.policy_ports.add(port.policy, port.port)
        return ports

    def _note(self, flow: ParsedFlow, noted: Noted, ports: dict[int, PortNote]) -> None:
        id, policy, target = flow.conj_id, flow.value(POLICY), flow.value(TARGET)
        state = self.state
        match noted:
            case PortNote():
                if target is not None:
                    ports[target] = noted
            case Permit() | GroupPresent() | MemberSet():
                if id is not None and id < _MAX_MEANINGS and noted not in state.meanings.number:
                    state.note_meaning(noted, id)
            case groups:
                number = policy or 0
                if 0 < number <= MAX_POLICIES and groups not in state.policies.number:
                    state.note_policy(groups, number)

    def _part(self, flow: ParsedFlow, ports: Mapping[int, PortNote]) -> FlowOwner | None:
        """Return the owner of a flow; record its clauses."""
        number = flow.value(TARGET if flow.table == BASE_INGRESS.number else PORT)
        rules = flow.table in _RULES
        if number is not None and (rules or flow.table in _BASES):
            return ports[number].port if number in ports else None
        if not rules:
            return None
        id, policy = flow.conj_id, flow.value(POLICY)
        if id is not None:
            return ConjunctionOwner(id)
        if policy is not None:
            return PolicyOwner(policy)
        stage = _RULE_STAGES.get((flow.table, flow.priority))
        clauses = conjunctions(flow.actions)
        if stage is None or not clauses:
            return None
        clause_match = ClauseMatch(stage, flow.match)
        for clause in clauses:
            self._clause(clause_match, clause)
        return clause_match

    def _clause(self, clause_match: ClauseMatch, clause: of.Conjunction) -> None:
        meaning = self.state.meanings.thing.get(clause.id)
        if isinstance(meaning, Permit) and clause.clause == clause.clauses == meaning.clauses:
            self.state.rules.add(clause.id, clause_match)
        elif isinstance(meaning, MemberSet):
            address = address_at(clause_match)
            if address is not None:
                self.state.members.add(meaning.remote, address)
