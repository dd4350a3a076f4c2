"""Supervised programs, as values.  Pure."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2s
from pathlib import Path

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.model.values.device_names import check_namespace_name

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,127}")


@frozen
class ProcessKey:
    """Key of a process: a kind of service, and the id of the object it serves.

    :raises InvalidInput: a word that cannot be part of a file's name.
    """

    service: str
    id: str

    def __attrs_post_init__(self) -> None:
        for name, word in (("service", self.service), ("id", self.id)):
            if not _NAME.fullmatch(word):
                raise InvalidInput({name: f"{word!r} cannot be part of a file's name"})

    def __str__(self) -> str:
        return f"{self.service}/{self.id}"


class OnDeath(enum.Enum):
    """Reaction to the unexpected end of a program."""

    RESPAWN = "respawn"
    TELL = "exit"
    """Only report to the owner, which may end the agent."""


@frozen(kw_only=True)
class Program:
    """A program to run, with its environment.

    A program that daemonises is identified by the *pid_file* that it writes by itself; one without
    stays in the foreground.  *log* receives its output (appended); without one, the last run's
    output is kept beside the pid file.

    :raises InvalidInput: it could never be started.
    """

    argv: tuple[str, ...]
    namespace: str | Path | None = None
    environment: Mapping[str, str] = field(factory=dict, hash=False)
    """Environment variables in addition to those of the agent."""
    user: str | None = None
    log: Path | None = None
    pid_file: Path | None = None
    own_pid_files: tuple[Path, ...] = field(default=(), eq=False)
    """Pid files that a foreground program writes, of itself and of children without which it does
    not work.  Children that outlive it are ended before it is started again; those of a program
    that a former supervisor started, if the files are beside its record and are named ``ID.*``."""
    on_death: OnDeath = OnDeath.RESPAWN
    ready: Callable[[int], bool] | None = field(default=None, eq=False, repr=False)
    """Readiness check by pid.  A foreground program with one has started once it is ready;
    without one, it has started if it does not end at once."""

    def __attrs_post_init__(self) -> None:
        check_command("argv", self.argv)
        for name, value in self.environment.items():
            _check_text(f"environment {name!r}", name)
            _check_text(f"environment {name!r}", value)
            if not name or "=" in name:
                raise InvalidInput({f"environment {name!r}": "not the name of a variable"})
        if self.user is not None:
            _check_text("user", self.user)
            if not self.user:
                raise InvalidInput({"user": "is empty; leave it out to stay who we are"})
        for name, path in (("log", self.log), ("pid_file", self.pid_file)):
            _check_text(name, str(path))
        _check_namespace(self.namespace)

    def digest(self) -> str:
        """Return a digest of everything whose change needs a restart; equal digests need none."""
        what = [self.argv, str(self.namespace), sorted(self.environment.items()), self.user,
                str(self.log), str(self.pid_file)]  # fmt: skip
        return blake2s(json.dumps(what).encode(), digest_size=16).hexdigest()


def check_command(path: str, argv: Sequence[str]) -> None:
    """Refuse a command that no kernel can execute.

    :raises InvalidInput: no command, or a word that is not text without NUL.
    """
    if not argv or not argv[0]:
        raise InvalidInput({path: f"{argv!r} names no command"})
    if not _is_text("".join(argv)):
        for word in argv:
            _check_text(path, word)


def _check_text(path: str, text: str) -> None:
    if not _is_text(text):
        raise InvalidInput({path: f"{text!r} has a NUL in it, or half a character"})


def _is_text(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _check_namespace(namespace: str | Path | None) -> None:
    if not isinstance(namespace, str):
        _check_text("namespace", str(namespace))
        return
    try:
        check_namespace_name(namespace)
    except ValueError as error:
        raise InvalidInput({"namespace": str(error)}) from error


@frozen(kw_only=True)
class Backoff:
    """Back-off between restarts of a program; pure."""

    first: float = 0.1
    most: float = 60.0
    steady: float = 30.0
    """Run time in seconds after which the back-off is reset."""

    def delay(self, deaths: int) -> float:
        """Return the seconds to wait after so many deaths in a row."""
        return float(min(self.most, self.first * 2 ** min(deaths - 1, 32)))


@frozen(kw_only=True)
class Timeouts:
    """Timeouts for a process, in seconds."""

    settle: float = 0.05
    """A program in the foreground that ends within this time did not start."""
    launch: float = 10.0
    """Time for a daemon to write its pid file."""
    stop: float = 5.0
    """Time for TERM to end it before KILL."""
    kill: float = 5.0
    stopped: float = 10.0
    """Time between two checks for processes that are stopped (SIGSTOP)."""
