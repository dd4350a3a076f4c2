"""The commands of iptables and their arguments."""

from __future__ import annotations

import enum

from attrs import frozen

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.linux.iptables.rule import Family
from netfw.linux.netns import Namespace
from netfw.linux.process.command import Finished, run_command

_RESOURCE_PROBLEM = 4
_RIGHTS = ("Permission denied", "Operation not permitted")


class Backend(enum.Enum):
    """Backend of iptables: the system's default, or one of the two by name."""

    SYSTEM = ""
    NFT = "-nft"
    LEGACY = "-legacy"


@frozen
class IptablesBinaries:
    """``iptables-save`` and ``iptables-restore`` of one backend.

    Their output is returned as it is; the caller explains a refused restore.
    """

    backend: Backend = Backend.SYSTEM
    lock_wait: int = 5
    """Timeout in seconds for the lock of iptables (xtables lock)."""

    def save(self, family: Family, namespace: Namespace, table: str = "") -> str:
        """Return the tables as text.

        :raises BackendBroken: iptables is not installed, or lacks a privilege.
        """
        argv = [self._command(family, "save"), *(["-t", table] if table else [])]
        done = run_command(argv, namespace=namespace)
        _refuse_busy_or_broken(done)
        if not done.ok:
            raise BackendBroken(f"{argv[0]} cannot read the tables: {done.message}")
        return done.output

    def restore(self, family: Family, text: str, namespace: Namespace) -> Finished:
        """Restore *text*; chains that it does not name stay as they are.

        :raises BackendUnavailable: another process held the lock until the timeout.
        :raises BackendBroken: iptables is not installed, or lacks a privilege.
        """
        argv = [self._command(family, "restore"), "--noflush", "-w", str(self.lock_wait)]
        done = run_command(argv, feed=text, namespace=namespace, timeout=self.lock_wait + 60)
        _refuse_busy_or_broken(done)
        return done

    def _command(self, family: Family, verb: str) -> str:
        name = "iptables" if family is Family.IPV4 else "ip6tables"
        return f"{name}{self.backend.value}-{verb}"


def _refuse_busy_or_broken(done: Finished) -> None:
    if done.ok:
        return
    if done.status == _RESOURCE_PROBLEM and "xtables lock" in done.errors:
        raise BackendUnavailable(f"{done.argv[0]}: another process holds its lock: {done.message}")
    if any(words in done.errors for words in _RIGHTS) or "you must be root" in done.errors:
        raise BackendBroken(
            f"{done.argv[0]}: {done.message}; run as root, or with CAP_NET_ADMIN and CAP_NET_RAW"
        )
