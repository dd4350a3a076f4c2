"""Start a program so that it outlives the agent, and end it again."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import evolve, frozen

from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    ConfigError,
    NetfwError,
    OperationRefused,
)
from netfw.linux import netns
from netfw.linux.process.command import not_runnable
from netfw.linux.process.identity import (
    MARK,
    Handle,
    ProcessIdentity,
    boot,
    hold,
    mark_of,
    matches_command,
    observe,
    stat,
)
from netfw.linux.process.machine_errors import raise_if_full
from netfw.linux.process.supervised_program import ProcessKey, Program, Timeouts

_TAIL = 2000
_POLL_INTERVAL = 0.01
"""Interval of the readiness check of a program, in seconds."""
_LOAD_INTERVAL = 0.001
"""Interval of the check whether a program is loaded, in seconds."""
_DEFAULTS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}


@frozen(kw_only=True)
class Launch:
    """A program to start: its key, its mark, and the file for its output."""

    key: ProcessKey
    program: Program
    mark: str
    log: Path
    timeouts: Timeouts

    def start(self) -> Handle:
        """Start it and return once it runs.

        :raises BackendBroken: there is no such command.
        :raises ConfigError: there is no such user.
        :raises OperationRefused: it ended at once; the message has the end of its output.
        :raises NotFound: there is no such namespace.
        """
        program = self.program
        if program.pid_file is not None:
            program.pid_file.unlink(missing_ok=True)
        argv = [*_as_user(program.user), *program.argv]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        if program.log is None:
            flags |= os.O_TRUNC
        offset = _size(self.log) if program.log else 0
        environment = {**os.environ, **program.environment, MARK: self.mark}
        child = netns.run_in(program.namespace, _spawn, argv, environment, self.log, flags)
        if program.pid_file is None:
            return self._await_start(child, offset)
        return self._daemon(child, offset, program.pid_file)

    def _await_start(self, child: Handle, offset: int) -> Handle:
        """Return the foreground child, if it ends neither at once nor before it is ready."""
        ready = self.program.ready
        self._await_program(child)
        if child.wait(self.timeouts.settle if ready is None else 0):
            raise self._failed(child, offset)
        deadline = time.monotonic() + self.timeouts.launch
        while ready is not None and not self._is_ready(ready, child):
            if child.wait(_POLL_INTERVAL):
                raise self._failed(child, offset)
            if time.monotonic() > deadline:
                self._give_up(child)
                raise self._failed(
                    child, offset, f"was not ready in {self.timeouts.launch:g} s and "
                )
        return Handle(_named(child.identity, self.program.argv, self.mark), child.descriptor)

    def _await_program(self, child: Handle) -> None:
        """Wait until the kernel has loaded the program: before, the process has no mark."""
        deadline = time.monotonic() + self.timeouts.launch
        while not _has_mark(child.pid) and time.monotonic() < deadline:
            if child.wait(_LOAD_INTERVAL):
                return

    def _is_ready(self, ready: Callable[[int], bool], child: Handle) -> bool:
        try:
            return ready(child.pid)
        except BaseException:
            self._give_up(child)  # it would not be on record
            child.reap()
            child.close()
            raise

    def _give_up(self, child: Handle) -> None:
        child.signal(signal.SIGKILL)
        child.wait(self.timeouts.kill)

    def _daemon(self, child: Handle, offset: int, pid_file: Path) -> Handle:
        """Return the daemon that *child* started, by the pid file that it wrote."""
        deadline = time.monotonic() + self.timeouts.launch
        if not child.wait(self.timeouts.launch):
            self._give_up(child)
            raise self._failed(child, offset, "did not go into the background and ")
        ended = child.reap()
        child.close()
        if not ended.endswith(" status 0"):
            raise OperationRefused({self.key: f"{ended}: {tail(self.log, offset)}"})
        while (daemon := self._by_file(pid_file, child.identity)) is None:
            if time.monotonic() > deadline:
                why = f"no running process of ours is in {pid_file}"
                raise OperationRefused({self.key: f"{why}: {tail(self.log, offset)}"})
            time.sleep(0.005)
        return daemon

    def _by_file(self, pid_file: Path, launcher: ProcessIdentity) -> Handle | None:
        try:
            now = by_pid_file(pid_file, self.program.argv)
            if now is None or now.started < launcher.started or now.namespace != launcher.namespace:
                return None
            return hold(_named(now, self.program.argv, self.mark))
        except (OSError, BackendUnavailable):
            return None  # no descriptor is free now; it runs, and is looked for again

    def _failed(self, child: Handle, offset: int, how: str = "") -> NetfwError:
        ended = child.reap()
        child.close()
        last = tail(self.log, offset)
        return OperationRefused({self.key: f"{how}{ended}: {last or 'it wrote no message'}"})


def _has_mark(pid: int) -> bool:
    try:
        return mark_of(pid) is not None
    except OSError:
        return False  # no descriptor is free now


def by_pid_file(pid_file: Path, argv: Sequence[str]) -> ProcessIdentity | None:
    """Return the process in a program's own pid file, if it runs *argv*."""
    try:
        pid = int(pid_file.read_text())
    except OSError as error:
        raise_if_full(error)
        return None
    except ValueError:
        return None
    now = observe(pid) if pid > 0 else None
    return now if now is not None and matches_command(now.argv, argv) else None


def end(handle: Handle, timeouts: Timeouts, released: Callable[[], bool] | None = None) -> None:
    """End a process: by TERM, else KILL.

    :param released: returns whether it has released all that it had: KILL follows at once.
    :raises BackendUnavailable: not even KILL ended it in time.
    """
    if handle.alive():
        handle.signal(signal.SIGTERM)
    if not _wait(handle, timeouts.stop, released):
        handle.signal(signal.SIGKILL)
    if not handle.wait(timeouts.kill):
        raise BackendUnavailable(
            f"process {handle.pid} ({handle.identity.argv[0]}) did not end within "
            f"{timeouts.kill:g} s of KILL: it hangs in the kernel"
        )
    handle.reap()


def _wait(handle: Handle, seconds: float, released: Callable[[], bool] | None) -> bool:
    """Wait until a process has ended, or has released what it had; return whether it ended."""
    if released is None:
        return handle.wait(seconds)
    deadline = time.monotonic() + seconds
    while not released() and time.monotonic() < deadline:
        if handle.wait(_POLL_INTERVAL):
            return True
    return handle.wait(0)


def tail(log: Path, start: int = 0) -> str:
    """Return the end of *log*, at most back to the offset *start*."""
    try:
        with log.open("rb") as file:
            file.seek(max(start, _size(log) - _TAIL))
            return file.read(_TAIL).decode(errors="replace").strip()
    except OSError:
        return ""


def _named(identity: ProcessIdentity, argv: Sequence[str], mark: str) -> ProcessIdentity:
    """Return the same process, identified by the command it was started with."""
    return evolve(identity, argv=tuple(argv), mark=mark)


def _spawn(argv: list[str], environment: dict[str, str], log: Path, flags: int) -> Handle:
    """Start a child in a session of its own, in the namespace of the calling thread."""
    try:
        output = os.open(log, flags, 0o640)
    except OSError as error:
        raise BackendBroken(f"cannot write what {argv[0]} says: {error}") from error
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULTS,
        )
    except OSError as error:
        raise not_runnable(argv[0], error) from error
    finally:
        os.close(output)
    try:
        return _hold_child(pid, argv)
    except (OSError, NetfwError):
        os.kill(pid, signal.SIGKILL)  # without a pidfd it could not be ended later
        os.waitpid(pid, 0)
        raise


def _hold_child(pid: int, argv: list[str]) -> Handle:
    """Open a handle of a child, dead or alive: it keeps its pid until it is reaped."""
    _, started = stat(pid)
    where = netns.identity(None)
    identity = ProcessIdentity(
        pid=pid, started=started, boot=boot(), namespace=where, argv=tuple(argv)
    )
    return Handle(identity, os.pidfd_open(pid))


def _inheritable() -> list[int]:
    """Return the inheritable descriptors, which children must not inherit from our parent."""
    descriptors = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                descriptors.append(int(name))
        except OSError:
            continue  # closed meanwhile
    return descriptors


def _as_user(user: str | None) -> list[str]:
    if user is None:
        return []
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise ConfigError(f"there is no user {user!r} to run the program as") from error
    ids = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
    return ["setpriv", *ids, "--init-groups", "--"]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
