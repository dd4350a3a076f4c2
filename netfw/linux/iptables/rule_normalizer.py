"""Rule normalizer: loads rules in a scratch namespace and reads how iptables prints them.

How iptables prints a rule depends on its version and backend.  Instead of modelling that, netfw
loads its rules where they affect no traffic, and reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from netfw.linux import syscalls
from netfw.linux.iptables.binaries import IptablesBinaries
from netfw.linux.iptables.rule import Family, IptablesRule, Jump, render_rule
from netfw.linux.netns_thread import NetnsThread
from netfw.linux.process.command import run_command

_CHAIN = "netfw-scratch"


class RuleNormalizer:
    """A scratch network namespace that is destroyed on close."""

    def __init__(self, tool: IptablesBinaries, owner: str) -> None:
        self._tool, self._owner = tool, owner
        self._worker = NetnsThread(
            lambda: syscalls.unshare(syscalls.CLONE_NEWNET),
            "iptables",
            "creating a namespace to normalize rules failed",
        )

    def normalize(
        self, family: Family, table: str, rules: Sequence[IptablesRule]
    ) -> Mapping[str, str]:
        """Return how iptables prints each rule, by our text; empty if it refuses them."""
        if not self.takes(family, table, rules):
            return {}
        text = self._worker.run(self._tool.save, family, None, table)
        head = f"-A {_CHAIN} "
        printed = [line.removeprefix(head) for line in text.splitlines() if line.startswith(head)]
        written = [render_rule(rule, self._owner) for rule in rules]
        return dict(zip(written, printed, strict=True)) if len(printed) == len(written) else {}

    def takes(self, family: Family, table: str, rules: Sequence[IptablesRule]) -> bool:
        """Return whether iptables and the kernel accept *rules*, each by itself."""
        chains = {rule.target.chain for rule in rules if isinstance(rule.target, Jump)}
        lines = [f":{self._owner}-{name} - [0:0]" for name in sorted(chains)]
        lines += [f"-A {_CHAIN} {render_rule(rule, self._owner)}" for rule in rules]
        text = "\n".join([f"*{table}", f":{_CHAIN} - [0:0]", *lines, "COMMIT", ""])
        self._make_sets(rules)
        return self._worker.run(self._tool.restore, family, text, None).ok

    def refused(
        self, family: Family, table: str, rules: Sequence[IptablesRule]
    ) -> IptablesRule | None:
        """Find a rule that is refused by itself, by bisection; None if each is accepted alone."""
        if not rules or self.takes(family, table, rules):
            return None
        if len(rules) == 1:
            return rules[0]
        half = len(rules) // 2
        return self.refused(family, table, rules[:half]) or self.refused(
            family, table, rules[half:]
        )

    def _make_sets(self, rules: Sequence[IptablesRule]) -> None:
        """Create the sets that the rules name: they have to exist, of any kind."""
        names = {
            words[at + 1]
            for rule in rules
            for words in (extension.text.split() for extension in rule.matches)
            for at, word in enumerate(words)
            if word == "--match-set"
        }
        if names:
            text = "".join(f"create {name} hash:net\n" for name in sorted(names))
            self._worker.run(run_command, ["ipset", "-exist", "restore"], feed=text)

    def close(self) -> None:
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
