"""Hosts of a trace: this one, or several that a command reaches."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Protocol, Self

from netfw.cli.trace.trace_host import TraceHost, trace_host
from netfw.errors import BackendUnavailable, ConfigError, NotFound, NotSupported

_TIMEOUT = 120.0
_END_TIMEOUT = 10.0
_MOST_BYTES = 32 << 20
_CHUNK = 1 << 16
Request = Mapping[str, Any]


class TraceHosts(Protocol):
    """The hosts that a trace can ask."""

    @property
    def names(self) -> Sequence[str]:
        """Hosts that are searched for ports."""

    def ask(self, host: str, request: Request) -> Any:
        """Return the answer of a host.

        :raises NotSupported: the host cannot be asked from here; the text says what to do.
        :raises NetfwError: the host cannot answer.
        """


class ThisHost:
    """The host of this process; no other can be asked."""

    def __init__(self, files: Sequence[str], host: str) -> None:
        self._files, self._host = files, host
        self._stack = ExitStack()
        self._answers: TraceHost | None = None

    def __enter__(self) -> Self:
        self._answers = self._stack.enter_context(trace_host(self._files))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def names(self) -> Sequence[str]:
        return (self._host,)

    def ask(self, host: str, request: Request) -> Any:
        if host != self._host or self._answers is None:
            raise NotSupported(
                f"{host} cannot be asked from {self._host}: repeat with --host and a command that "
                "reaches hosts, such as --via 'ssh {host}'"
            )
        return self._answers.answer(request)


class HostsByCommand:
    """Hosts on which a command runs ``netfw trace-host``, once for each host that is asked.

    :param names: the hosts that may be asked.
    :param via: the command, in which ``{host}`` stands for the name of the host.
    :param files: arguments with the files of the L2 agent there; ``{host}`` likewise.
    :param timeout: seconds for an answer.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        via: str,
        files: Sequence[str],
        netfw: str = "netfw",
        timeout: float = _TIMEOUT,
    ) -> None:
        self._names, self._timeout = tuple(names), timeout
        self._words = [*shlex.split(via), netfw, "trace-host", *files]
        self._hosts: dict[str, RemoteHost] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def ask(self, host: str, request: Request) -> Any:
        if host not in self._names:
            raise NotSupported(f"{host} is not among the hosts of --host, and is not asked")
        if host not in self._hosts:
            argv = [word.replace("{host}", host) for word in self._words]
            self._hosts[host] = RemoteHost(host, argv, self._timeout)
            self._stack.callback(self._hosts[host].close)
        return self._hosts[host].ask(request)


class RemoteHost:
    """A process that answers the requests of a trace, one line of JSON for each.

    :raises BackendUnavailable: it cannot be started.
    """

    def __init__(self, name: str, argv: Sequence[str], timeout: float) -> None:
        self._name, self._argv, self._timeout = name, argv, timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as exc:
            self._errors.close()
            raise BackendUnavailable(f"{name} cannot be asked: {exc}") from exc

    def ask(self, request: Request) -> Any:
        """Return the answer to *request*.

        :raises NotFound: the host does not have it.
        :raises BackendUnavailable: it does not answer, or cannot.
        """
        try:
            reply = json.loads(self._exchange(json.dumps(request).encode() + b"\n"))
        except (OSError, ValueError) as exc:
            self._errors.seek(0)
            text = self._errors.read(_MOST_BYTES)[-500:].decode(errors="replace").strip()
            command = shlex.join(self._argv)
            raise BackendUnavailable(f"{self._name}: {command}: {text or exc}") from exc
        if not isinstance(reply, dict) or ("answer" not in reply and "error" not in reply):
            raise BackendUnavailable(f"{self._name} answers something else than netfw trace-host")
        if "error" in reply:
            kind = NotFound if reply.get("missing") else BackendUnavailable
            raise kind(str(reply["error"]))
        return reply["answer"]

    def _exchange(self, line: bytes) -> bytes:
        source, sink = self._process.stdin, self._process.stdout
        if source is None or sink is None:
            raise BrokenPipeError("it has ended")
        until = time.monotonic() + self._timeout
        source.write(line)
        source.flush()
        answer = bytearray()
        while not answer.endswith(b"\n"):
            if not select.select([sink], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError(f"no whole answer within {self._timeout:g} s")
            if not (received := os.read(sink.fileno(), _CHUNK)):
                raise BrokenPipeError("it has ended")
            answer += received
            if len(answer) > _MOST_BYTES:
                raise ValueError(f"its answer is larger than {_MOST_BYTES >> 20} MiB")
            if b"\n" in received[:-1]:
                raise ValueError("its answer has more than one line")
        return bytes(answer)

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def check_via(via: str) -> None:
    """Refuse a command that cannot be run.

    :raises ConfigError: its quotes do not match, or it is empty.
    """
    try:
        words = shlex.split(via)
    except ValueError as exc:
        raise ConfigError(f"--via: {via!r}: {exc}") from exc
    if not words:
        raise ConfigError("--via: name a command, such as 'ssh {host}'")
