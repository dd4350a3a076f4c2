"""Namespace contexts: namespaces in which commands and functions run.

A context holds its namespaces by open descriptors, so they need no process inside, and they vanish
when it is closed or this process dies.  Threads enter them, the process never does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from attrs import evolve, frozen

from netfw.errors import BackendError
from netfw.linux import syscalls
from netfw.linux.netns import raise_loopback
from netfw.linux.netns_thread import NetnsThread
from netfw.testing.lab import lab_syscalls

P = ParamSpec("P")
T = TypeVar("T")

KINDS = {
    "mnt": syscalls.CLONE_NEWNS,
    "uts": lab_syscalls.CLONE_NEWUTS,
    "net": syscalls.CLONE_NEWNET,
}
"""The kinds of namespaces of a context, in the order in which they are entered."""


@frozen(kw_only=True)
class Completed:
    """The exit status of a command, and its output."""

    argv: tuple[str, ...]
    status: int
    output: str
    error: str


class CommandFailed(BackendError):
    """A command in the lab ended with a status other than 0; ``completed`` has all of it."""

    def __init__(self, completed: Completed) -> None:
        self.completed = completed
        output = (completed.error or completed.output).strip() or "no output"
        super().__init__(f"{' '.join(completed.argv)}: status {completed.status}: {output}")


class NamespaceContext:
    """Namespaces to run things in; without any, those of the caller."""

    def __init__(self, spaces: Mapping[str, int] | None = None) -> None:
        self.spaces: dict[str, int] = dict(spaces or {})
        self._spawned: list[subprocess.Popen[bytes]] = []

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call *function* in a thread in these namespaces; return its result, or raise its error.

        Sockets it opens, processes and threads it starts stay there.  In there,
        ``/proc/self`` is still the main thread: read ``/proc/thread-self`` instead.
        """
        if not self.spaces:
            return function(*args, **kwargs)
        directory = os.getcwd()
        with NetnsThread(lambda: self.enter(directory), name="netfw-lab") as thread:
            return thread.run(function, *args, **kwargs)

    def enter(self, directory: str = "/") -> None:
        """Move the calling thread into these namespaces for good; only for dedicated threads."""
        if "mnt" in self.spaces:
            # The kernel refuses while the thread shares its working directory with others.
            syscalls.unshare(syscalls.CLONE_FS)
        for kind, flag in KINDS.items():
            if kind in self.spaces:
                syscalls.setns(self.spaces[kind], flag)
        with contextlib.suppress(FileNotFoundError):
            os.chdir(directory)

    def run(self, argv: Sequence[str], *, input: str = "", timeout: float = 60) -> str:
        """Run a command; return its standard output.

        :raises CommandFailed: it ended with a status other than 0.
        """
        completed = self.attempt(argv, input=input, timeout=timeout)
        if completed.status:
            raise CommandFailed(completed)
        return completed.output

    def attempt(
        self,
        argv: Sequence[str],
        *,
        input: str = "",
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command that may fail; return its status and output.

        :raises CommandFailed: it did not end within *timeout* seconds.
        """
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with self.call(_start, argv, {**pipes, "env": env}) as process:
            try:
                output, error = process.communicate(input.encode(), timeout)
            except BaseException as failure:
                process.kill()
                if not isinstance(failure, subprocess.TimeoutExpired):
                    raise
                late = Completed(argv=tuple(argv), status=-1, output="", error=str(failure))
                raise CommandFailed(late) from failure
        return Completed(
            argv=tuple(argv),
            status=process.returncode,
            output=output.decode(errors="replace"),
            error=error.decode(errors="replace"),
        )

    def spawn(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command and return at once; *options* are those of :class:`subprocess.Popen`."""
        process = self.call(_start, argv, options)
        self._spawned = [one for one in self._spawned if one.poll() is None] + [process]
        return process

    def ip(self, *lines: str) -> None:
        """Run commands of ``ip`` in one batch, each without the leading ``ip``.

        :raises CommandFailed: one of them was refused; those before it are in effect.
        """
        completed = self.attempt(["ip", "-batch", "-"], input="\n".join(lines))
        if completed.status:
            number = re.search(r"Command failed -:(\d+)", completed.error)
            line = lines[int(number[1]) - 1] if number else "; ".join(lines)
            first_line = completed.error.splitlines()[0]
            raise CommandFailed(evolve(completed, argv=("ip", *line.split()), error=first_line))

    def space(self, kind: str) -> str:
        """Return a path that refers to one of the namespaces, for this process and its children."""
        return f"/proc/{os.getpid()}/fd/{self.spaces[kind]}"

    def processes(self) -> frozenset[int]:
        """Return the processes in here, including mount namespaces of ``ip netns exec``."""
        kind = "uts" if "uts" in self.spaces else "net"
        here = os.fstat(self.spaces[kind])
        return frozenset(pid for pid in _all_processes() if _is_in(pid, kind, here))

    def kill_processes(self) -> None:
        """End every process in here, and wait until they are gone."""
        deadline = time.monotonic() + 60
        while running := self.processes():
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise BackendError(f"processes {sorted(running)} do not end")
            time.sleep(0.001)

    def close(self) -> None:
        """End spawned processes and release the namespaces; they vanish with the last process."""
        while self._spawned:
            process = self._spawned.pop()
            process.kill()
            process.wait()
        while self.spaces:
            os.close(self.spaces.popitem()[1])


class NamespaceOwner:
    """An object with its own namespaces, in which its commands and functions run."""

    namespaces: NamespaceContext

    def run(self, argv: Sequence[str], *, input: str = "", timeout: float = 60) -> str:
        """Run a command there; return its standard output.

        :raises CommandFailed: it ended with a status other than 0.
        """
        return self.namespaces.run(argv, input=input, timeout=timeout)

    def attempt(self, argv: Sequence[str], *, input: str = "", timeout: float = 60) -> Completed:
        """Run a command there that may fail; return its status and output."""
        return self.namespaces.attempt(argv, input=input, timeout=timeout)

    def spawn(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command there; it is killed with the lab."""
        return self.namespaces.spawn(argv, **options)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function there, in a thread made for it; see :meth:`NamespaceContext.call`."""
        return self.namespaces.call(function, *args, **kwargs)


def make_namespaces(
    kinds: Sequence[str], prepare: Callable[[], None] = lambda: None
) -> NamespaceContext:
    """Create namespaces of these *kinds*, loopback up; *prepare* is called in there.

    :raises OSError: the kernel refused.
    """
    flags = 0
    for kind in kinds:
        flags |= KINDS[kind]
    with NetnsThread(lambda: syscalls.unshare(flags), name="netfw-lab-new") as thread:
        thread.run(raise_loopback)
        thread.run(prepare)
        return thread.run(current_namespaces, kinds)


def current_namespaces(kinds: Iterable[str] = KINDS) -> NamespaceContext:
    """Return the namespaces of the calling thread, which functions can be called in."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    return NamespaceContext(
        {kind: os.open(f"/proc/thread-self/ns/{kind}", flags) for kind in kinds}
    )


def _start(argv: Sequence[str], options: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(list(argv), **options)


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_in(pid: int, kind: str, here: os.stat_result) -> bool:
    try:
        there = os.stat(f"/proc/{pid}/ns/{kind}")
    except OSError:  # it ended, or is a zombie
        return False
    return os.path.samestat(there, here)
