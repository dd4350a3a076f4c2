"""IpSets: converges the sets of one owner in one namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from netfw.errors import (
    BackendBroken,
    Conflict,
    NetfwError,
    NotFound,
    OperationRefused,
)
from netfw.linux.ipset.operations import Operation, render_restore
from netfw.linux.ipset.plan import KernelSet, parse_save, plan_members, plan_sets, record
from netfw.linux.ipset.values import IpSet, Member, check_owner, elements
from netfw.linux.netns import Namespace
from netfw.linux.process.command import Finished, run_command
from netfw.plan import Update

_ERROR_LINE = re.compile(r"^ipset v[\d.]+: (?:Error in line (\d+): )?(.*)", re.DOTALL)


class IpSets:
    """The sets of *owner* in *namespace*.

    1. Only sets called ``<owner>-...`` are ever touched.
    2. The machine is read once and when `observe` is called; after that, a change of members costs
       what changed, whatever the set holds.
    3. A set that is replaced is swapped in one step; changes of members add before they remove.
    4. A refused change is planned once more on a fresh mirror; after any other error the machine
       is read again, because the change may have been executed all the same.

    Not thread-safe: used by one thread at a time.
    """

    def __init__(self, owner: str, *, namespace: Namespace = None) -> None:
        check_owner(owner)
        self.owner, self.namespace = owner, namespace
        self._sets: dict[str, KernelSet] | None = None

    def observe(self) -> Mapping[str, KernelSet]:
        """Read the owner's sets from the machine, with their members as ipset writes them.

        Shadow sets that a killed process left are removed.

        :raises BackendBroken: ipset is not installed, or lacks a privilege.
        :raises NotFound: there is no such namespace.
        """
        done = run_command(["ipset", "save"], namespace=self.namespace)
        if not done.ok:
            raise BackendBroken(f"ipset cannot read the sets: {done.message}")
        self._sets, leftovers = parse_save(done.output, self.owner)
        if leftovers:
            self._restore([f"destroy {name}" for name in sorted(leftovers)])
        return MappingProxyType(self._sets)

    def plan(self, update: Update[str, IpSet]) -> tuple[Operation, ...]:
        """Return what `converge` would do, at most one operation for each set; changes nothing.

        :raises InvalidInput: a name or member that ipset cannot have.
        :raises Conflict: a set of that name is of another kind.
        """
        return plan_sets(update, self._known(), self.owner)

    def converge(self, update: Update[str, IpSet]) -> None:
        """Make the sets of *update* as desired.

        :raises InvalidInput: a name or member that ipset cannot have.
        :raises Conflict: a set of that name is of another kind, or a set to remove is in use.
        :raises OperationRefused: ipset refused; the message names the set and the member.
        """
        fresh = self._sets is None
        try:
            self._apply(self.plan(update))
        except (OperationRefused, NotFound):
            if fresh:
                raise
            self.observe()
            self._apply(self.plan(update))

    def change(
        self, name: str, *, add: Iterable[Member] = (), remove: Iterable[Member] = ()
    ) -> None:
        """Add and remove members of a set; those already present, or absent, do not matter.

        A member that is everything (/0) is its two halves: removing it removes the halves.

        :raises NotFound: there is no such set.
        :raises InvalidInput: a member that ipset cannot have.
        :raises OperationRefused: ipset refused; the message names the set and the member.
        """
        add, remove = tuple(add), tuple(remove)
        fresh = self._sets is None
        try:
            self._change(name, add, remove)
        except (OperationRefused, NotFound):
            if fresh:
                raise
            self.observe()
            self._change(name, add, remove)

    def _change(self, name: str, add: tuple[Member, ...], remove: tuple[Member, ...]) -> None:
        have = self._known().get(name)
        if have is None:
            raise NotFound(f"there is no set {self.owner}-{name}; make it by converge() first")
        new = list(elements(have.kind, add))
        old = [element for element in elements(have.kind, remove) if element not in new]
        operation = plan_members(name, have, new, old)
        if operation is not None:
            self._apply((operation,))

    @property
    def sets(self) -> Mapping[str, KernelSet]:
        """Return the sets, as last read and changed since."""
        return self._known()

    def apply(self, operations: Iterable[Operation]) -> None:
        """Execute *operations*, planned on what `sets` returns, by one restore.

        :raises Conflict: a set to remove is in use.
        :raises OperationRefused: ipset refused; the message names the set and the member.
        """
        self._known()
        self._apply(tuple(operations))

    def _apply(self, operations: tuple[Operation, ...]) -> None:
        """Execute *operations* by one restore."""
        if not operations:
            return
        sets = self._sets if self._sets is not None else {}
        self._sets = None  # unknown until it is done
        self._restore([line for each in operations for line in render_restore(each, self.owner)])
        for operation in operations:
            record(operation, sets)
        self._sets = sets

    def _known(self) -> Mapping[str, KernelSet]:
        return self._sets if self._sets is not None else self.observe()

    def _restore(self, lines: list[str]) -> None:
        text = "\n".join(lines) + "\n"
        done = run_command(["ipset", "-exist", "restore"], feed=text, namespace=self.namespace)
        if not done.ok:
            raise _refusal(done, lines)


def _refusal(done: Finished, lines: list[str]) -> NetfwError:
    found = _ERROR_LINE.match(done.message)
    number, why = (found[1], found[2].strip()) if found else (None, done.message)
    line = lines[int(number) - 1] if number and int(number) <= len(lines) else "restore"
    if "in use" in why:
        return Conflict(f"ipset {line}: {why}; remove the rules that name it first")
    if "permission" in why.lower() or "not permitted" in why:
        return BackendBroken(f"ipset: {why}; run as root, or with CAP_NET_ADMIN")
    return OperationRefused({f"ipset {line}": why})
