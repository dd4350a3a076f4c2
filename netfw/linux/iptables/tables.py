"""Iptables: converges the chains of one owner in the tables of one namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from netfw.errors import BackendError, OperationRefused
from netfw.linux.iptables.binaries import IptablesBinaries
from netfw.linux.iptables.chain import Chain, ChainKey, check_owner
from netfw.linux.iptables.mirror import ChainMirror, parse_save
from netfw.linux.iptables.operations import PutChain, TableChange
from netfw.linux.iptables.plan import Spelling, find_unsure, plan_chains, plan_rollback
from netfw.linux.iptables.refusal import RulesRefused, explain_refusal
from netfw.linux.iptables.restore import render_restore
from netfw.linux.iptables.rule import Family, render_rule
from netfw.linux.iptables.spelling import SpellingCache
from netfw.linux.iptables.table_order import order_tables
from netfw.linux.netns import Namespace
from netfw.plan import Update


class Iptables:
    """The chains of *owner* in *namespace*, IPv4 and IPv6.

    1. Only chains called ``<owner>-...`` and jumps to them from built-in chains are ever touched;
       rules of other owners are neither changed nor reordered.  A plan for a sole owner also
       removes their rules from built-in chains; a rollback does not bring these back.
    2. The operations on one table are executed together or not at all.  Several tables are
       executed together by `restore`: when one is refused, those before it are rolled back; what
       the former rules and the new ones deny is denied all the while.
    3. The machine is read once and when `observe` is called; after that, converging costs what
       changed: of a long chain only the rules that differ are written.  A refused change is planned
       once more on a fresh mirror, and after one that ended in any other error the machine is read
       again: it may have been executed all the same.
    4. Drift found by `observe` (rules that another program removed, added, changed or moved) is
       repaired by the next `converge` of those chains.

    Not thread-safe: used by one thread at a time.

    :param spelling: a cache of the same owner and backend, to share; its own by default.
    """

    def __init__(
        self,
        owner: str,
        *,
        namespace: Namespace = None,
        tool: IptablesBinaries | None = None,
        spelling: SpellingCache | None = None,
    ) -> None:
        check_owner(owner)
        self.owner, self.namespace = owner, namespace
        self._tool = tool or IptablesBinaries()
        self._mirror = ChainMirror()
        self._known: set[Family] = set()
        self._spelling = spelling or SpellingCache(self._tool, owner)

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

    def assume_empty(self) -> None:
        """Take the tables for empty without reading them: those of a namespace that is new."""
        self._mirror = ChainMirror()
        self._known = set(Family)

    @property
    def chains(self) -> Mapping[ChainKey, tuple[str, ...]]:
        """Return the owner's chains as lines, as last read and changed since."""
        self.observe(frozenset(Family) - self._known)
        return MappingProxyType(self._mirror.chains)

    def mirror(self, update: Update[ChainKey, Chain]) -> tuple[ChainMirror, Spelling]:
        """Return what a pure plan for *update* needs; reads only what is not known."""
        self._read_unknown(update)
        self._spelling.add(find_unsure(update, self._mirror, self.owner, self._spelling.known))
        return self._mirror.copy(), self._spelling.known

    def plan(self, update: Update[ChainKey, Chain]) -> tuple[TableChange, ...]:
        """Return what `converge` would do, table by table; changes nothing.

        :raises InvalidInput: a chain that its table or family cannot have.
        :raises Conflict: a jump to a chain that will not exist.
        """
        self._read_unknown(update)
        self._spelling.add(find_unsure(update, self._mirror, self.owner, self._spelling.known))
        changes = plan_chains(update, self._mirror, self.owner, self._spelling.known)
        self._confirm(update, changes)
        return changes

    def apply(self, change: TableChange) -> None:
        """Execute one change, all of it or nothing.

        :raises RulesRefused: the former rules stay in force; each refused operation is named.
        :raises BackendUnavailable: another process held the lock of iptables.
        """
        self._load(change.family, [change])

    def restore(self, changes: Iterable[TableChange]) -> None:
        """Execute changes of several tables, one process for each family, all or nothing.

        :raises RulesRefused: the former rules are in force again; each refused operation and rule
            is named.
        :raises BackendUnavailable: another process held the lock of iptables.
        """
        families: dict[Family, list[TableChange]] = {}
        for change in changes:
            families.setdefault(change.family, []).append(change)
        self.observe(families.keys() - self._known)
        former = self._mirror.copy()
        begun: list[TableChange] = []
        for family, own in families.items():
            begun += own
            try:
                self._load(family, order_tables(own, self._mirror, self._spelling.known))
            except RulesRefused as error:
                refusal = error.of(own)
                self._roll_back(former, begun, refusal)
                raise refusal from error

    def converge(self, update: Update[ChainKey, Chain]) -> None:
        """Make the chains of *update* as desired.

        :raises InvalidInput: a chain that its table or family cannot have.
        :raises Conflict: a jump to a chain that will not exist.
        :raises RulesRefused: a table was refused; nothing was changed.
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
        self.restore(self.plan(update))

    def _read_unknown(self, update: Update[ChainKey, Chain]) -> bool:
        """Read families not read yet; return whether all that *update* needs was read just now."""
        needed = frozenset(Family) if update.complete else {key.family for key in update}
        missing = needed - self._known
        self.observe(missing)
        return missing == needed

    def _confirm(self, update: Update[ChainKey, Chain], changes: tuple[TableChange, ...]) -> None:
        """Mark chains that were read and are as desired, so that they are not compared again."""
        differing = {op.key for change in changes for op in change.operations
                     if isinstance(op, PutChain)}  # fmt: skip
        for key in (update.put.keys() & self._mirror.printed) - differing:
            rules = update.put[key].rules
            self._mirror.confirm(key, tuple([render_rule(rule, self.owner) for rule in rules]))

    def _load(self, family: Family, changes: Sequence[TableChange]) -> None:
        """Execute changes of one family in their order, by one process."""
        script = render_restore(changes, self.owner)
        known = family in self._known
        self._known.discard(family)  # unknown until it is done
        done = self._tool.restore(family, script.text, self.namespace)
        if not done.ok:
            raise explain_refusal(script, done.errors, self._tool, self.owner)
        if known:
            for change in changes:
                self._mirror.record(change.operations)
            self._known.add(family)

    def _roll_back(
        self, former: ChainMirror, begun: Sequence[TableChange], refusal: RulesRefused
    ) -> None:
        """Give the tables their former rules, whatever part of *begun* was executed."""
        try:
            families = {change.family for change in begun}
            self.observe(families)
            places = frozenset((change.family, change.table) for change in begun)
            back = plan_rollback(former, self._mirror, places, self._spelling.known)
            for family in families:
                own = [change for change in back if change.family is family]
                if own:
                    self._load(family, order_tables(own, self._mirror, {}))
        except BackendError as error:
            refusal.add_note(f"the former rules are not all in force: {error}")
