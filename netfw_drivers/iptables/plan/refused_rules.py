"""Rules that iptables of this host refused, such as for lack of a match.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, field, frozen

from netfw.drivers.firewall import FirewallKey, FirewallValue, Rules
from netfw.drivers.support.firewall_capabilities import left_out_error
from netfw.errors import NetfwError, OperationRefused
from netfw.linux.iptables.rule import ACCEPT, IptablesRule
from netfw.model.security_group import SecurityGroupRule
from netfw.plan import Outcome, Update
from netfw_drivers.iptables.plan.group_chains import KINDS, render, render_answers

_Shape = tuple[object, tuple[str, ...]]
"""Protocol and matches of a line: iptables has them or lacks them, whatever their values."""


@frozen
class RefusedRules:
    """Rules of one group that iptables refused, as long as the group stays the same."""

    group: Rules
    reasons: Mapping[str, str]
    """By rule."""

    def accepted(self) -> Rules:
        """Return the group without them."""
        rules = (rule for rule in self.group.rules if f"rule {rule.id}" not in self.reasons)
        return evolve(self.group, rules=frozenset(rules))


Refusals = Mapping[FirewallKey, RefusedRules]


@frozen(kw_only=True)
class EnforceableUpdate:
    """An update without the rules that iptables refused."""

    update: Update[FirewallKey, FirewallValue]
    owner: str
    """Prefix of the driver's chains and sets."""
    left_out: Mapping[FirewallKey, Mapping[str, str]] = field(factory=dict)
    """By group and by rule: why it is left out."""

    @classmethod
    def of(
        cls, update: Update[FirewallKey, FirewallValue], owner: str, known: Refusals
    ) -> EnforceableUpdate:
        """Leave out the rules that are *known* to be refused, unless their group has changed.

        A complete update tries all rules again: an operator may have installed what they need.
        """
        if update.complete:
            return cls(update=update, owner=owner)
        same = {key: each for key, each in known.items() if update.put.get(key) == each.group}
        put = {**update.put, **{key: each.accepted() for key, each in same.items()}}
        left_out = {key: each.reasons for key, each in same.items()}
        return cls(update=evolve(update, put=put), owner=owner, left_out=left_out)

    def refusals(self, update: Update[FirewallKey, FirewallValue], known: Refusals) -> Refusals:
        """Return the refusals that are known after this update, which was made of *update*."""
        kept = {} if update.complete else {k: v for k, v in known.items() if k not in {*update}}
        for key, reasons in self.left_out.items():
            if isinstance(group := update.put.get(key), Rules):
                kept[key] = RefusedRules(group, reasons)
        return kept

    def without_refused(
        self, failed: Mapping[FirewallKey, NetfwError], lines: Mapping[object, IptablesRule]
    ) -> EnforceableUpdate:
        """Leave out the rules that made their groups fail; the same if there are none.

        :param lines: the line that iptables refused, by payload of its operation.
        """
        if not lines:
            return self
        put, left_out = dict(self.update.put), dict(self.left_out)
        for key, error in failed.items():
            group = put.get(key)
            if not isinstance(error, OperationRefused) or not isinstance(group, Rules):
                continue
            for operation, reason in error.reasons.items():
                line = lines.get(getattr(operation, "payload", None))
                if line is None or line.target != ACCEPT:
                    continue
                gone = frozenset(rule for rule in group.rules if self._has(rule, _shape(line)))
                group = evolve(group, rules=group.rules - gone)
                named = {f"rule {rule.id}": reason for rule in gone}
                left_out[key] = {**left_out.get(key, {}), **named}
            put[key] = group
        if put == self.update.put:
            return self
        return evolve(self, update=evolve(self.update, put=put), left_out=left_out)

    def report(self, outcome: Outcome[FirewallKey]) -> Outcome[FirewallKey]:
        """Return *outcome* with the rules that are left out."""
        partly = {
            key: left_out_error(rules)
            for key, rules in self.left_out.items()
            if key in outcome.done
        }
        return evolve(
            outcome, done=outcome.done - partly.keys(), failed={**outcome.failed, **partly}
        )

    def _has(self, rule: SecurityGroupRule, shape: _Shape) -> bool:
        return any(_shape(line) == shape for line in self._lines(rule))

    def _lines(self, rule: SecurityGroupRule) -> Iterator[IptablesRule]:
        inward = KINDS[rule.direction].inward
        yield from render(rule, self.owner, inward=inward)
        yield from render_answers(rule, self.owner, inward=inward)


def _shape(line: IptablesRule) -> _Shape:
    return line.protocol, tuple(match.name for match in line.matches)
