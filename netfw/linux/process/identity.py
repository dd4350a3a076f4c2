"""Process identity: identifies a process across pid reuse.

A process that cannot be looked at, since this one has no descriptor left, is not taken for one that
has ended: functions that look at processes raise `OSError` then.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from attrs import evolve, field, frozen

from netfw.errors import BackendUnavailable, NetfwError
from netfw.linux import netns
from netfw.linux.process.machine_errors import raise_if_full

MARK = "NETFW_PROCESS"
"""Environment variable by which a process without a record is found again."""


@frozen(kw_only=True)
class ProcessIdentity:
    """Identifies a process across pid reuse."""

    pid: int
    started: int
    """Start time in clock ticks since boot."""
    boot: str
    namespace: netns.NamespaceIdentity
    argv: tuple[str, ...]
    mark: str = ""
    """The value of `MARK` in its environment; it stays when a wrapper executes another program."""


@frozen
class Handle:
    """A pidfd of a process: signals cannot reach another one."""

    identity: ProcessIdentity
    descriptor: int = field(repr=False)

    @property
    def pid(self) -> int:
        return self.identity.pid

    def alive(self) -> bool:
        return not self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait; return whether it ended within so many seconds."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(max(0, int(seconds * 1000))))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return

    def reap(self) -> str:
        """Reap it if it is a child; return how it ended, as text."""
        try:
            ended = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return "ended (not a child of this process, so that its status is not known)"
        if ended is None:
            return "has not ended"
        if ended.si_code == os.CLD_EXITED:
            return f"ended with status {ended.si_status}"
        return f"was ended by signal {ended.si_status} ({signal.strsignal(ended.si_status)})"

    def close(self) -> None:
        os.close(self.descriptor)


def observe(pid: int) -> ProcessIdentity | None:
    """Return the process that has *pid* now; None if there is none, or a zombie."""
    try:
        state, started = stat(pid)
        if state in "ZX":
            return None
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        where = netns.identity(netns.of_process(pid))
    except OSError as error:
        raise_if_full(error)
        return None
    except BackendUnavailable:
        raise
    except NetfwError:
        return None
    argv = tuple(word.decode(errors="surrogateescape") for word in command.split(b"\0")[:-1])
    return ProcessIdentity(pid=pid, started=started, boot=boot(), namespace=where, argv=argv)


def hold(expected: ProcessIdentity) -> Handle | None:
    """Open a handle of the process, if it is still the expected one.

    The descriptor is opened before the check, so that it refers to the checked process.
    """
    try:
        descriptor = os.pidfd_open(expected.pid)
    except OSError as error:
        raise_if_full(error)
        return None
    handle = Handle(expected, descriptor)
    try:
        now = observe(expected.pid)
        if now is not None and is_same(now, expected) and _looks_like(now, expected):
            return handle
    except BaseException:
        handle.close()
        raise
    if _is_zombie(expected):
        handle.reap()
    handle.close()
    return None


def hold_marked(pid: int, mark: str) -> Handle | None:
    """Open a handle of the process that has *pid*, if it has exactly this mark."""
    now = observe(pid)
    if now is None:
        return None
    handle = hold(evolve(now, mark=mark))
    if handle is None:
        return None
    try:
        is_ours = trusted_mark(pid) == mark
    except BaseException:
        handle.close()
        raise
    if is_ours:
        return handle
    handle.close()
    return None


def _looks_like(now: ProcessIdentity, expected: ProcessIdentity) -> bool:
    """Return whether it has the mark that it was started with; without one, the command line.

    A command line can be read and copied by all users; only the process that starts another one
    sets its mark.
    """
    if expected.mark:
        return mark_of(now.pid) == expected.mark
    return matches_command(now.argv, expected.argv)


def is_same(now: ProcessIdentity, expected: ProcessIdentity) -> bool:
    """Return whether pid, boot, start time and namespace are equal."""
    return (now.pid, now.started, now.boot, now.namespace) == (
        expected.pid,
        expected.started,
        expected.boot,
        expected.namespace,
    )


def matches_command(actual: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a command line is *wanted*, perhaps a script after its interpreter.

    A process that is about to end has none, and runs nothing.
    """
    tail = actual[len(actual) - len(wanted) :]
    return (
        0 < len(wanted) <= len(actual)
        and list(tail[1:]) == list(wanted[1:])
        and os.path.basename(tail[0]) == os.path.basename(wanted[0])
    )


def marked() -> Iterator[tuple[str, int]]:
    """Yield mark and pid of all processes that have a mark, and have it from root or from us."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (mark := trusted_mark(int(name))) is not None:
            yield mark, int(name)


def read_marked(pid_files: Iterable[Path]) -> Iterator[tuple[int, str]]:
    """Yield pid and mark of the processes that are named in files and have a mark."""
    for path in pid_files:
        try:
            pid = int(path.read_text())
        except OSError as error:
            raise_if_full(error)
            continue
        except ValueError:
            continue
        if pid > 0 and (mark := trusted_mark(pid)) is not None:
            yield pid, mark


def trusted_mark(pid: int) -> str | None:
    """Return the mark of a process that root, or the user of this process, started.

    A process of another user is one that gave up its privileges, if it is in a network namespace
    that only root can enter.
    """
    mark = mark_of(pid)
    if mark is None:
        return None
    return mark if user_ids(pid) <= {0, os.geteuid()} or _is_in_root_namespace(pid) else None


def user_ids(pid: int) -> frozenset[int]:
    """Return the real, effective and saved user id of a process; -1 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError as error:
        raise_if_full(error)
        return frozenset({-1})
    return frozenset(int(id) for id in _status_fields(lines)["Uid"].split())


def _is_in_root_namespace(pid: int) -> bool:
    """Return whether a process is in a network namespace that root made, not in the host's own."""
    try:
        found = netns.of_process(pid)
        hosts = (os.stat(netns.of_process(host)).st_ino for host in (1, os.getpid()))
        return os.stat(found).st_ino not in hosts and netns.is_of_own_users(found)
    except OSError as error:
        raise_if_full(error)
        return False  # it ended
    except BackendUnavailable:
        raise
    except NetfwError:
        return False


def mark_of(pid: int) -> str | None:
    """Return the mark in the environment of a process."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise_if_full(error)
        return None
    for variable in environment.split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == MARK.encode():
            return value.decode(errors="replace")
    return None


def session(pid: int) -> int | None:
    """Return the session id of a process: the pid of its leader, as started processes are."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _is_zombie(expected: ProcessIdentity) -> bool:
    """Return whether it is a zombie by now."""
    try:
        return stat(expected.pid) == ("Z", expected.started) and boot() == expected.boot
    except OSError:
        return False


def is_asleep(pid: int) -> bool:
    """Return whether a process sleeps; True for one that does not exist."""
    try:
        return stat(pid)[0] not in "RD"
    except OSError:
        return True


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal by itself, so that it does not end by it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    fields = _status_fields(lines)
    masks = (int(fields[name], 16) for name in ("SigBlk", "SigCgt"))
    return any(mask >> (number - 1) & 1 for mask in masks)


def _status_fields(lines: Sequence[str]) -> dict[str, str]:
    return dict(line.split(":", 1) for line in lines if ":" in line)


@cache
def boot() -> str:
    """Return the boot id; it stays while this process runs."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> tuple[str, int]:
    """Return the state and the start time of a process.

    :raises OSError: there is no such process.
    """
    # The second field is the name in parentheses, which may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[19])
