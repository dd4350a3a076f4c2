"""Nftables: the tables of one owner in one namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from netfw.errors import BackendBroken, BackendError, OperationRefused
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.nftables_generation import is_dormant
from netfw.linux.netns import Namespace, run_in
from netfw.linux.nftables.batch import parse_listing, render_batch, render_check, render_list
from netfw.linux.nftables.library import Answer, NftContext
from netfw.linux.nftables.operations import (
    MakeNftSet,
    NftOperation,
    PutNftChain,
    record_operations,
)
from netfw.linux.nftables.values import NftRuleset, NftSetKind, NftTable, ObjectKey

_ABSENT = "No such file or directory"
_DENIED = "Operation not permitted"


class Nftables:
    """The *tables* of one owner in *namespace*; no other table is read or changed.

    1. The operations of one `apply` are executed in one transaction of the kernel, over all tables
       and families: all of them or none.
    2. The machine is read once and when `observe` is called; after that the ruleset is mirrored.
       When an operation is refused, the machine is read again.

    Not thread-safe: used by one thread at a time.
    """

    def __init__(self, tables: Sequence[NftTable], *, namespace: Namespace = None) -> None:
        self.tables, self.namespace = tuple(tables), namespace
        self._context: NftContext | None = None
        self._ruleset: NftRuleset | None = None

    @property
    def ruleset(self) -> NftRuleset:
        """The contents of the tables, as last read and changed since."""
        return self.observe() if self._ruleset is None else self._ruleset

    def observe(self) -> NftRuleset:
        """Read the tables.

        :raises BackendBroken: libnftables is missing, or netfw lacks a privilege.
        :raises NotFound: there is no such namespace.
        """
        ruleset = NftRuleset()
        for table in self.tables:
            if self._is_dormant(table):
                ruleset.dormant.add(table)
                continue
            answer = self._run(render_list(table))
            if answer.ok:
                parse_listing(answer.output, ruleset)
            elif _ABSENT not in answer.errors:
                raise _failure(answer)
        self._ruleset = ruleset
        return ruleset

    def apply(self, operations: Sequence[NftOperation]) -> None:
        """Execute *operations*, all of them or none.

        :raises OperationRefused: each refused operation is named; the former rules are in force.
        """
        answer = self._run(render_batch(operations, self.ruleset))
        if answer.ok:
            record_operations(self.ruleset, operations)
            return
        kinds = {key: found.kind for key, found in self.ruleset.sets.items()}
        self._ruleset = None  # it may be stale
        _raise_denied(answer)
        refused = self._refused_chains(operations, kinds)
        everything: dict[object, str] = dict.fromkeys(operations, _first_line(answer))
        raise OperationRefused(refused or everything)

    def check(self, operations: Sequence[NftOperation]) -> None:
        """Have the kernel check *operations* without executing them.

        :raises BackendError: the kernel, or libnftables, refuses them.
        """
        answer = self._run(render_batch(operations, self.ruleset), dry=True)
        if not answer.ok:
            raise _failure(answer)

    def close(self) -> None:
        """Release the socket.  Idempotent."""
        if self._context is not None:
            self._context.close()
            self._context = None

    def _is_dormant(self, table: NftTable) -> bool:
        """Return whether a table is switched off; libnftables 1.0.6 crashes when it lists one."""
        try:
            return run_in(self.namespace, is_dormant, table.family, table.name)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "reading a table of nftables", str(error)
            ) from error

    def _run(self, commands: str, *, dry: bool = False) -> Answer:
        if self._context is None:
            self._context = NftContext(self.namespace)
        return self._context.run(commands, dry=dry)

    def _refused_chains(
        self, operations: Iterable[NftOperation], kinds: dict[ObjectKey, NftSetKind]
    ) -> dict[object, str]:
        """Return the chains that are refused on their own, each with the reason."""
        refused: dict[object, str] = {}
        made = {each.key: each.kind for each in operations if isinstance(each, MakeNftSet)}
        for operation in operations:
            if isinstance(operation, PutNftChain):
                answer = self._run(render_check(operation, {**kinds, **made}), dry=True)
                if not answer.ok:
                    refused[operation] = _first_line(answer)
        return refused


def _first_line(answer: Answer) -> str:
    lines = [line for line in answer.errors.splitlines() if "rror" in line]
    return lines[0] if lines else "libnftables gave no reason"


def _raise_denied(answer: Answer) -> None:
    if _DENIED in answer.errors:
        raise BackendBroken(f"nftables: {_first_line(answer)}: netfw has to run as root")


def _failure(answer: Answer) -> BackendError:
    _raise_denied(answer)
    return BackendBroken(f"nftables: {_first_line(answer)}")
