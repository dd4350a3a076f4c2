"""Explanation of a refused restore: the operations and the rules at fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from netfw.errors import OperationRefused
from netfw.linux.iptables.binaries import IptablesBinaries
from netfw.linux.iptables.operations import Operation, PutChain, TableChange
from netfw.linux.iptables.restore import Script, parse_restore_errors
from netfw.linux.iptables.rule import IptablesRule, render_rule
from netfw.linux.iptables.rule_normalizer import RuleNormalizer

Refused = dict[Operation, tuple[str, IptablesRule | None]]


class RulesRefused(OperationRefused):
    """iptables refused rules; nothing of the restore is in force.

    ``rules`` maps each operation to the rule that was refused, as far as iptables says which.
    """

    def __init__(self, reasons: Mapping[object, str], rules: Mapping[object, IptablesRule]) -> None:
        super().__init__(reasons)
        self.rules = dict(rules)

    def of(self, changes: Iterable[TableChange]) -> RulesRefused:
        """Return the same refusal in terms of *changes*, which were executed in other steps."""
        original = {
            each.key: each
            for change in changes
            for each in change.operations
            if isinstance(each, PutChain)
        }

        def original_of(operation: object) -> object:
            return original[operation.key] if isinstance(operation, PutChain) else operation

        return RulesRefused(
            {original_of(operation): why for operation, why in self.reasons.items()},
            {original_of(operation): rule for operation, rule in self.rules.items()},
        )


def explain_refusal(
    script: Script, errors: str, tool: IptablesBinaries, owner: str
) -> RulesRefused:
    """Return what iptables refused of *script*; *errors* is its output.

    When it names no rule, those of the table are tried in a scratch namespace.
    """
    refused: Refused = {}
    for error in parse_restore_errors(errors):
        operation = script.operation(error.line or 0)
        if operation is not None and error.line is not None:
            line = script.lines[error.line - 1]
            rule = _rule_of(operation, line, owner)
            refused[operation] = f"{error.why} (`{line}`)", rule
        else:
            refused |= _search(script.changes(error.line), error.why, tool, owner)
    return RulesRefused(
        {operation: why for operation, (why, _) in refused.items()},
        {operation: rule for operation, (_, rule) in refused.items() if rule is not None},
    )


def _rule_of(operation: Operation, line: str, owner: str) -> IptablesRule | None:
    words = {"-A": 2, "-I": 3}.get(line[:2])
    if not isinstance(operation, PutChain) or words is None:
        return None
    text = f"{line} ".split(" ", words)[-1][:-1]
    return next((rule for rule in operation.chain.rules if render_rule(rule, owner) == text), None)


def _search(
    changes: Sequence[TableChange], why: str, tool: IptablesBinaries, owner: str
) -> Refused:
    """Find the rules at fault when a table was refused as a whole; else blame all of it."""
    with RuleNormalizer(tool, owner) as scratch:
        for change in changes:
            for operation in change.operations:
                if not isinstance(operation, PutChain):
                    continue
                rule = scratch.refused(change.family, change.table, _written(operation, owner))
                if rule is not None:
                    return {operation: (f"{why} (`{render_rule(rule, owner)}`)", rule)}
    whole = (
        f"{why}; each rule alone is taken, so that the change as a whole is at fault "
        "(a loop of chains, or a chain that is still in use?)"
    )
    return {operation: (whole, None) for change in changes for operation in change.operations}


def _written(put: PutChain, owner: str) -> Sequence[IptablesRule]:
    """Return the rules that the operation writes."""
    if put.edits is None:
        return put.chain.rules
    inserted = frozenset(line for _, line in put.edits.inserted)
    return [rule for rule in put.chain.rules if render_rule(rule, owner) in inserted]
