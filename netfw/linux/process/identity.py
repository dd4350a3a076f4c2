"""Who a process is, so that a pid that was given to somebody else is never taken for ours."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from netfw.errors import NetfwError
from netfw.linux import netns

MARK = "NETFW_PROCESS"
"""Environment variable by which a process that nobody recorded yet is found again."""


@frozen(kw_only=True)
class Identity:
    """A process, told from every other one that has or will have its pid."""

    pid: int
    started: int
    """In clock ticks since the machine was booted."""
    boot: str
    namespace: netns.Identity
    argv: tuple[str, ...]
    mark: str = ""
    """What it carries in its environment; a wrapper that executes another program keeps it."""


@frozen
class Handle:
    """A living process that is held by a descriptor: signals cannot reach another one."""

    identity: Identity
    descriptor: int = field(repr=False)

    @property
    def pid(self) -> int:
        return self.identity.pid

    def alive(self) -> bool:
        return not self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Whether it ended within so many seconds."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(max(0, int(seconds * 1000))))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; to who has ended, none."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return

    def reap(self) -> str:
        """How it ended, in words; if it is our child, it is no zombie any more."""
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


def observe(pid: int) -> Identity | None:
    """Who has *pid* now; None when nobody has, or a zombie."""
    try:
        state, started = stat(pid)
        if state in "ZX":
            return None
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        where = netns.identity(netns.of_process(pid))
    except (OSError, NetfwError):
        return None
    argv = tuple(word.decode(errors="surrogateescape") for word in command.split(b"\0")[:-1])
    return Identity(pid=pid, started=started, boot=boot(), namespace=where, argv=argv)


def hold(expected: Identity) -> Handle | None:
    """Take hold of the process, if it still is who it was.

    The descriptor is opened first: whoever has the pid after the check, it refers to the checked.
    """
    try:
        descriptor = os.pidfd_open(expected.pid)
    except OSError:
        return None
    now = observe(expected.pid)
    handle = Handle(expected, descriptor)
    if now is not None and is_same(now, expected) and _looks_like(now, expected):
        return handle
    if _is_remains(expected):
        handle.reap()
    handle.close()
    return None


def hold_marked(pid: int, mark: str) -> Handle | None:
    """Take hold of whoever has *pid*, if it carries exactly this mark."""
    now = observe(pid)
    if now is None:
        return None
    handle = hold(evolve(now, mark=mark))
    if handle is None or mark_of(pid) == mark:
        return handle
    handle.close()
    return None


def _looks_like(now: Identity, expected: Identity) -> bool:
    """Whether it runs the command line, or carries the mark, that it was started with."""
    if runs(now.argv, expected.argv):
        return True
    return bool(expected.mark) and mark_of(now.pid) == expected.mark


def is_same(now: Identity, expected: Identity) -> bool:
    """Whether boot, start time and namespace say so."""
    return (now.pid, now.started, now.boot, now.namespace) == (
        expected.pid,
        expected.started,
        expected.boot,
        expected.namespace,
    )


def runs(actual: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether a command line is that of *wanted*, which may be a script behind its interpreter."""
    tail = actual[len(actual) - len(wanted) :]
    return (
        len(actual) >= len(wanted)
        and list(tail[1:]) == list(wanted[1:])
        and os.path.basename(tail[0]) == os.path.basename(wanted[0])
    )


def marked() -> Iterator[tuple[str, int]]:
    """All processes that carry a mark: the mark, and the pid."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (mark := mark_of(int(name))) is not None:
            yield mark, int(name)


def mark_of(pid: int) -> str | None:
    """The mark that a process carries in its environment."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        name, _, value = variable.partition(b"=")
        if name == MARK.encode():
            return value.decode(errors="replace")
    return None


def session(pid: int) -> int | None:
    """The session of a process: the pid of who leads it, as those do that we start."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _is_remains(expected: Identity) -> bool:
    """Whether it is a zombie by now."""
    try:
        return stat(expected.pid) == ("Z", expected.started) and boot() == expected.boot
    except OSError:
        return False


def is_asleep(pid: int) -> bool:
    """Whether a process waits for something to happen; one that is not there does, too."""
    try:
        return stat(pid)[0] not in "RD"
    except OSError:
        return True


def boot() -> str:
    """Which run of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> tuple[str, int]:
    """The state of a process and when it started.

    :raises OSError: there is none.
    """
    # The second field is the name in parentheses, which may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[19])
