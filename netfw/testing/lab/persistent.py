"""Labs that stay up after the command that brought them up has ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from netfw.errors import BackendBroken, BackendError, Conflict, NotFound
from netfw.linux import syscalls
from netfw.testing.lab import lab_syscalls, sandbox
from netfw.testing.lab.namespaces import KINDS
from netfw.testing.lab.registry import LabRecord, LabRegistry, end_process, identify
from netfw.testing.lab.supervisor import KEEP, PACKET

_TIMEOUT = 10.0
_ENTERED = {"user": lab_syscalls.CLONE_NEWUSER, "pid": lab_syscalls.CLONE_NEWPID, **KINDS}


def up(directory: LabRegistry, name: str, document: Mapping[str, Any]) -> None:
    """Start the lab that *document* (see ``topology.read``) describes.

    :raises Conflict: a lab of that name is up.
    :raises BackendBroken: this machine cannot have one, or it did not come up; with the reason.
    """
    with directory.locked():
        if directory.find(name) is not None:
            raise Conflict(
                f"lab {name!r} is up already; take it down (netfw lab down --name {name}), "
                "or give this one another --name"
            )
        directory.remove(name)
        try:
            _start(directory, name, document)
        except BaseException:
            directory.remove(name)
            raise


def _start(directory: LabRegistry, name: str, document: Mapping[str, Any]) -> None:
    path = directory.socket(name)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen()
        process = _spawn(directory, name, document, listening, theirs)
        theirs.close()
        try:
            _await_ready(directory, name, ours)
            directory.write(identify(name, process.pid))
            ours.send(KEEP)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = 0  # no one waits for it from here on


def _spawn(
    directory: LabRegistry,
    name: str,
    document: Mapping[str, Any],
    listening: socket.socket,
    starter: socket.socket,
) -> subprocess.Popen[bytes]:
    descriptors = (listening.fileno(), starter.fileno())
    module = [sys.executable, "-P", "-m", "netfw.testing.lab.supervisor"]
    argv = sandbox.command([*module, *map(str, descriptors), json.dumps(document)])
    with directory.log(name).open("wb") as log:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            start_new_session=True, pass_fds=descriptors,
        )  # fmt: skip


def _await_ready(directory: LabRegistry, name: str, starter: socket.socket) -> None:
    answer = starter.recv(PACKET)
    if not answer:
        log = directory.log(name).read_text(errors="replace").strip()
        raise BackendBroken(log.removeprefix("netfw: ") or f"lab {name!r} did not come up")
    error = json.loads(answer)["error"]
    if error is not None:
        raise BackendBroken(error)


def down(directory: LabRegistry, name: str) -> None:
    """Stop a lab; when this returns, nothing of it is left.

    :raises NotFound: no such lab is up.
    """
    with directory.locked():
        record = require(directory, name)
        process = record.open_process()
        if process is not None:
            try:
                _end(process, name)
            finally:
                os.close(process)
        directory.remove(name)


def _end(process: int, name: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        end_process(process, number)
        if select.select([process], [], [], _TIMEOUT)[0]:
            return
    raise BackendError(f"the processes of lab {name!r} do not end")


def show(directory: LabRegistry, name: str) -> dict[str, Any]:
    """Return the present state of the lab.

    :raises NotFound: no such lab is up.
    """
    answer, _ = _request(directory, name, {"ask": "show"})
    return {"name": name, **answer}


def enter(directory: LabRegistry, name: str, host: str, namespace: str | None) -> None:
    """Move this process onto a host of a lab, for good.

    Only children of this process are wholly there.  The process must have no other threads.

    :raises NotFound: no such lab, host or namespace.
    """
    request = {"ask": "enter", "host": host, "namespace": namespace}
    answer, descriptors = _request(directory, name, request)
    spaces = dict(zip(answer["kinds"], descriptors, strict=True))
    where = os.getcwd()
    if os.path.samestat(os.fstat(spaces["user"]), os.stat("/proc/self/ns/user")):
        del spaces["user"]  # the lab is root's; the kernel refuses to enter where one is
    for kind in (kind for kind in _ENTERED if kind in spaces):
        syscalls.setns(spaces[kind], _ENTERED[kind])
    with contextlib.suppress(FileNotFoundError):
        os.chdir(where)


def require(directory: LabRegistry, name: str) -> LabRecord:
    """Return the record of a lab.

    :raises NotFound: no such lab is up.
    """
    record = directory.find(name)
    if record is None:
        names = [one.name for one in directory.all()]
        raise NotFound(
            f"no lab {name!r} is up; up: {', '.join(names)}" if names
            else f"no lab is up; bring one up with: netfw lab up --name {name}"
        )  # fmt: skip
    return record


def _request(
    directory: LabRegistry, name: str, request: Mapping[str, Any]
) -> tuple[dict[str, Any], list[int]]:
    require(directory, name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(str(directory.socket(name)))
            connection.send(json.dumps(request).encode())
            text, descriptors, _, _ = socket.recv_fds(connection, PACKET, 8)
        except OSError as error:
            raise BackendError(f"lab {name!r} does not answer: {error}") from error
    answer = json.loads(text or b'{"error": "it ended"}')
    if answer.get("error"):
        raise NotFound(f"lab {name!r}: {answer['error']}")
    return answer, descriptors


def run_inside(argv: list[str]) -> int:
    """Run *argv* where :func:`enter` moved this process, as its child; return its exit status."""
    passed = {signal.SIGTERM, signal.SIGHUP}
    waited = {signal.SIGCHLD, signal.SIGINT, signal.SIGQUIT, *passed}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    child = os.fork()
    if child == 0:
        lab_syscalls.die_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _become(argv)
    while True:
        number = signal.sigwait(waited)
        if number in passed:
            os.kill(child, number)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _become(argv: list[str]) -> NoReturn:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, sandbox.environment())
    except OSError as error:
        os.write(sys.stderr.fileno(), f"netfw: {argv[0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
