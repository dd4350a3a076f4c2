"""Cache of how iptables prints rules that netfw spells otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from netfw.linux.iptables.binaries import IptablesBinaries
from netfw.linux.iptables.plan import Spelling, UndecidedRule
from netfw.linux.iptables.rule import Family, IptablesRule
from netfw.linux.iptables.rule_normalizer import RuleNormalizer

_LIMIT = 20_000
"""Limit of rules; beyond it the cache is emptied, and what is needed is normalised again."""


class SpellingCache:
    """Printed rules of one owner by their text; may be shared by several namespaces.

    Entries are only added or all dropped, so that threads may share it.
    """

    def __init__(self, tool: IptablesBinaries, owner: str) -> None:
        self._tool, self._owner = tool, owner
        self.known: Spelling = {}

    def add(self, unsure: Iterable[UndecidedRule]) -> None:
        """Let iptables print the rules whose present text differs from ours."""
        rules: dict[tuple[Family, str], dict[str, IptablesRule]] = {}
        for each in unsure:
            rules.setdefault((each.key.family, each.key.table), {})[each.line] = each.rule
        if not rules:
            return
        known = {} if sum(map(len, self.known.values())) > _LIMIT else dict(self.known)
        with RuleNormalizer(self._tool, self._owner) as scratch:
            for place, by_line in rules.items():
                printed = scratch.normalize(*place, list(by_line.values()))
                known[place] = {**known.get(place, {}), **printed}
        self.known = known
