"""Ebtables: the chains of one owner in the bridge tables of one namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from netfw.errors import BackendBroken, OperationRefused
from netfw.linux.ebtables.chains import (
    FoundChain,
    FrameOperation,
    PutFrameChain,
    check_owner,
    parse_save,
    render_frames,
)
from netfw.linux.netns import Namespace
from netfw.linux.process.command import Finished, run_command


class Ebtables:
    """The chains of *owner* in the ``nat`` table for bridges of *namespace*.

    Only chains called ``<owner>-...`` and jumps to them are touched.  The machine is read once and
    when `observe` is called; changes are executed by one restore, all of it or nothing.  Not
    thread-safe: used by one thread at a time.
    """

    def __init__(self, owner: str, *, namespace: Namespace = None) -> None:
        check_owner(owner)
        self.owner, self.namespace = owner, namespace
        self._chains: dict[str, FoundChain] | None = None

    @property
    def chains(self) -> Mapping[str, FoundChain]:
        """Return the chains, as last read and changed since."""
        return MappingProxyType(self._chains) if self._chains is not None else self.observe()

    def observe(self) -> Mapping[str, FoundChain]:
        """Read the machine.

        :raises BackendBroken: ebtables is not installed, or lacks a privilege.
        """
        done = run_command(["ebtables-nft-save"], namespace=self.namespace)
        if not done.ok:
            raise _broken(done)
        self._chains = parse_save(done.output, self.owner)
        return MappingProxyType(self._chains)

    def apply(self, operations: Iterable[FrameOperation]) -> None:
        """Execute *operations* by one restore.

        :raises OperationRefused: nothing was done.
        """
        every = tuple(operations)
        chains = dict(self.chains)
        self._chains = None  # unknown until it is done
        text = render_frames(every, self.owner)
        argv = ["ebtables-nft-restore", "--noflush"]
        done = run_command(argv, feed=text, namespace=self.namespace)
        # ebtables may print an error and yet exit with 0.
        if not done.ok or done.errors.strip():
            if "ermi" in done.errors:
                raise _broken(done)
            raise OperationRefused(dict.fromkeys(every, done.message))
        for operation in every:
            if isinstance(operation, PutFrameChain):
                chains[operation.name] = operation.wanted
            else:
                chains.pop(operation.name, None)
        self._chains = chains


def _broken(done: Finished) -> BackendBroken:
    return BackendBroken(f"{done.argv[0]}: {done.message}; run as root, or with CAP_NET_ADMIN")
