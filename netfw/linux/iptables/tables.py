"""Iptables: converges the chains of one owner in the tables of one namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from netfw.errors import OperationRefused
from netfw.linux.iptables.binaries import IptablesBinaries
from netfw.linux.iptables.chain import Chain, ChainKey, check_owner
from netfw.linux.iptables.mirror import Mirror, parse_save
from netfw.linux.iptables.operations import PutChain, TableChange
from netfw.linux.iptables.plan import Unsure, find_unsure, plan_chains
from netfw.linux.iptables.restore import RestoreError, Script, parse_restore_errors, render_restore
from netfw.linux.iptables.rule import Family, Rule, render_rule
from netfw.linux.iptables.rule_normalizer import RuleNormalizer
from netfw.linux.netns import Namespace
from netfw.plan import Update


class Iptables:
    """The chains of *owner* in *namespace*, IPv4 and IPv6.

    1. Only chains called ``<owner>-...`` and jumps to them from built-in chains are ever touched;
       rules of other owners are neither changed nor reordered.
    2. The operations on one table are executed together or not at all.
    3. The machine is read once and when `observe` is called; after that, converging costs what
       changed.  A refused change is planned once more on a fresh mirror, and after one that ended
       in any other error the machine is read again: it may have been executed all the same.
    4. Drift found by `observe` (rules that another program removed, added, changed or moved) is
       repaired by the next `converge` of those chains.

    Not thread-safe: used by one thread at a time.
    """

    def __init__(
        self, owner: str, *, namespace: Namespace = None, tool: IptablesBinaries | None = None
    ) -> None:
        check_owner(owner)
        self.owner, self.namespace = owner, namespace
        self._tool = tool or IptablesBinaries()
        self._mirror = Mirror()
        self._known: set[Family] = set()
        self._spelling: dict[tuple[Family, str], dict[str, str]] = {}

    def observe(self, families: Iterable[Family] = tuple(Family)) -> frozenset[ChainKey]:
        """Read the machine, and return the chains that the owner has there.

        :raises BackendBroken: iptables is not installed, or lacks a privilege.
        :raises NotFound: there is no such namespace.
        """
        wanted = frozenset(families)
        for family in wanted:
            text = self._tool.save(family, self.namespace)
            self._mirror.replace(family, parse_save(text, family, self.owner))
            self._known.add(family)
        return frozenset(key for key in self._mirror.chains if key.family in wanted)

    @property
    def chains(self) -> Mapping[ChainKey, tuple[str, ...]]:
        """Return the owner's chains as lines, as last read and changed since."""
        self.observe(frozenset(Family) - self._known)
        return MappingProxyType(self._mirror.chains)

    def plan(self, update: Update[ChainKey, Chain]) -> tuple[TableChange, ...]:
        """Return what `converge` would do, table by table; changes nothing.

        :raises InvalidInput: a chain that its table or family cannot have.
        :raises Conflict: a jump to a chain that will not exist.
        """
        self._read_unknown(update)
        self._learn(find_unsure(update, self._mirror, self.owner, self._spelling))
        changes = plan_chains(update, self._mirror, self.owner, self._spelling)
        self._confirm(update, changes)
        return changes

    def apply(self, change: TableChange) -> None:
        """Execute one change, all of it or nothing.

        :raises OperationRefused: the former rules stay in force; each refused operation is named.
        :raises BackendUnavailable: another process held the lock of iptables.
        """
        script = render_restore(change, self.owner)
        known = change.family in self._known
        self._known.discard(change.family)  # unknown until it is done
        done = self._tool.restore(change.family, script.text, self.namespace)
        if done.ok:
            if known:
                self._mirror.record(change.operations)
                self._known.add(change.family)
            return
        raise self._refusal(change, script, parse_restore_errors(done.errors))

    def converge(self, update: Update[ChainKey, Chain]) -> None:
        """Make the chains of *update* as desired.

        :raises InvalidInput: a chain that its table or family cannot have.
        :raises Conflict: a jump to a chain that will not exist.
        :raises OperationRefused: a table was refused; of it, nothing was changed.
        :raises BackendUnavailable: another process held the lock of iptables.
        """
        fresh = self._read_unknown(update)
        try:
            self._apply(update)
        except OperationRefused:
            if fresh:
                raise
            self._apply(update)

    def _apply(self, update: Update[ChainKey, Chain]) -> None:
        for change in self.plan(update):
            self.apply(change)

    def _read_unknown(self, update: Update[ChainKey, Chain]) -> bool:
        """Read families not read yet; return whether all that *update* needs was read just now."""
        needed = frozenset(Family) if update.complete else {key.family for key in update}
        missing = needed - self._known
        self.observe(missing)
        return missing == needed

    def _learn(self, unsure: Iterator[Unsure]) -> None:
        """Let iptables print the rules whose present text differs from ours."""
        rules: dict[tuple[Family, str], dict[str, Rule]] = {}
        for each in unsure:
            rules.setdefault((each.key.family, each.key.table), {})[each.line] = each.rule
        if not rules:
            return
        with RuleNormalizer(self._tool, self.owner) as scratch:
            for place, by_line in rules.items():
                spelled = scratch.normalize(*place, list(by_line.values()))
                self._spelling.setdefault(place, {}).update(spelled)

    def _confirm(self, update: Update[ChainKey, Chain], changes: tuple[TableChange, ...]) -> None:
        """Mark chains that were read and are as desired, so that they are not compared again."""
        differing = {op.key for change in changes for op in change.operations
                     if isinstance(op, PutChain)}  # fmt: skip
        for key in (update.put.keys() & self._mirror.printed) - differing:
            rules = update.put[key].rules
            self._mirror.confirm(key, tuple([render_rule(rule, self.owner) for rule in rules]))

    def _refusal(
        self, change: TableChange, script: Script, errors: tuple[RestoreError, ...]
    ) -> OperationRefused:
        reasons: dict[object, str] = {}
        for error in errors:
            line = error.line or 0
            operation = script.operation(line)
            if operation is not None:
                reasons[operation] = f"{error.why} (`{script.lines[line - 1]}`)"
            else:
                reasons |= self._search(change, error.why)
        return OperationRefused(reasons)

    def _search(self, change: TableChange, why: str) -> dict[object, str]:
        """Find the rules at fault when a table was refused as a whole; else blame all of them."""
        with RuleNormalizer(self._tool, self.owner) as scratch:
            for operation in change.operations:
                if not isinstance(operation, PutChain):
                    continue
                rule = scratch.refused(change.family, change.table, operation.chain.rules)
                if rule is not None:
                    return {operation: f"{why} (`{render_rule(rule, self.owner)}`)"}
        whole = (
            f"{why}; each rule alone is taken, so that the change as a whole is at fault "
            "(a loop of chains, or a chain that is still in use?)"
        )
        return dict.fromkeys(change.operations, whole)
