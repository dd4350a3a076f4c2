"""The two processes around a command in a sandbox.

``python -m netfw.testing.lab.launcher COMMAND...`` becomes::

    launcher    the process that was started; outside of the new process namespace
    └── init    process 1 inside: reaps, and is killed by the kernel when the launcher dies
        └── COMMAND

1. When the command ends, the launcher ends in the same way: same status, or same signal.
2. A signal for the launcher reaches the command once, also when it went to the whole process group
   (Ctrl-C, ``timeout``): what init receives itself, the command has received too.
3. When any of the three dies, whatever kills it, nothing of the sandbox remains: process 1 takes
   every process with it, and namespaces, devices and mounts go with the last process.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Sequence
from typing import NoReturn

from netfw.linux import syscalls
from netfw.linux.netns import raise_loopback
from netfw.testing.lab import lab_syscalls, sandbox

NO_SANDBOX = 125
"""Exit status when this machine cannot have a sandbox."""

_PASSED_ON = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
# The launcher asks init to pass a signal on by another one that no process sends to a whole group.
# Real-time signals are delivered after all others: init has then received what the group received.
_ORDERS: dict[int, signal.Signals] = {
    signal.SIGRTMIN + index: number for index, number in enumerate(_PASSED_ON)
}
_WAITED_FOR = {signal.SIGCHLD, *_PASSED_ON, *_ORDERS}
_STATUS = struct.Struct("i")


def main(argv: Sequence[str]) -> NoReturn:
    """Run *argv* in new namespaces and end as it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    uid = os.geteuid()
    try:
        _unshare(uid)
    except OSError as error:
        _refuse(error, uid)
    reader, writer = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(reader)
        _be_init(argv, writer, mask, uid)
    os.close(writer)
    status = _pass_signals_until_end(init)
    reported = os.read(reader, _STATUS.size)
    _end_like(_STATUS.unpack(reported)[0] if reported else status)


def _unshare(uid: int) -> None:
    """Leave the machine's namespaces; an ordinary user becomes root in a user namespace."""
    gid = os.getegid()
    if uid != 0:
        syscalls.unshare(lab_syscalls.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS | lab_syscalls.CLONE_NEWPID)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _pass_signals_until_end(init: int) -> int:
    """Pass signals on to *init* until it ends; return its wait status."""
    orders: dict[int, int] = {number: order for order, number in _ORDERS.items()}
    while True:
        number = signal.sigwait(_WAITED_FOR)
        if number in orders:
            os.kill(init, orders[number])
        ended, status = os.waitpid(init, os.WNOHANG)
        if ended:
            return status


def _end_like(status: int) -> NoReturn:
    """End this process as the process with this wait *status* ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _be_init(
    argv: Sequence[str], parent: int, mask: set[signal.Signals | int], uid: int
) -> NoReturn:
    lab_syscalls.die_with_parent()
    try:
        _settle()
    except OSError as error:
        _refuse(error, uid)
    if _is_gone(parent):
        os._exit(NO_SANDBOX)
    command = os.fork()
    if command == 0:
        _become(argv, mask)
    status = _reap_until_end(command)
    os.write(parent, _STATUS.pack(status))
    os._exit(0)


def _settle() -> None:
    """Create the mounts that hide the machine, and set the loopback up."""
    directory = os.getcwd()
    syscalls.mount("", "/", syscalls.MS_REC | syscalls.MS_PRIVATE)
    lab_syscalls.mount("proc", "/proc")
    lab_syscalls.show_own_devices()
    lab_syscalls.mount("tmpfs", "/run", "mode=755")
    raise_loopback()
    os.chdir(directory if os.path.isdir(directory) else "/")


def _is_gone(parent: int) -> bool:
    """Return whether the other end is closed: the launcher died before its death was watched."""
    poller = select.poll()
    poller.register(parent, 0)
    return bool(poller.poll(0))


def _become(argv: Sequence[str], mask: set[signal.Signals | int]) -> NoReturn:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execvpe(argv[0], list(argv), sandbox.environment())
    except OSError as error:
        _say(f"{argv[0]}: {error.strerror}")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _reap_until_end(command: int) -> int:
    """Reap processes until *command* ends; return its wait status."""
    seen: set[int] = set()
    while True:
        number = signal.sigwait(_WAITED_FOR)
        if number in _ORDERS:
            if _ORDERS[number] not in seen:
                os.kill(command, _ORDERS[number])
            seen.discard(_ORDERS[number])
        elif number != signal.SIGCHLD:
            seen.add(number)
        status = _reap(command)
        if status is not None:
            return status


def _reap(command: int) -> int | None:
    """Reap all ended processes; return the wait status of *command* if it was among them."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == command:
            return status
        if not ended:
            return None


def _refuse(error: OSError, uid: int) -> NoReturn:
    """Exit with the reason, worded for the user *uid* who started the launcher."""
    from netfw.testing.lab import prerequisites

    _say(prerequisites.why_no_sandbox(error, uid))
    os._exit(NO_SANDBOX)


def _say(sentence: str) -> None:
    os.write(sys.stderr.fileno(), f"netfw: {sentence}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
