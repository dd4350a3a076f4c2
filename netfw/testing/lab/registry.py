"""The registry of labs that are up: one file each, in a directory of the user's."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from attrs import asdict, frozen

from netfw.errors import BackendBroken, ConfigError
from netfw.linux.process import identity

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


@frozen(kw_only=True)
class LabRecord:
    """A lab, and the process whose end is the lab's end.

    A pid alone is ambiguous, since it can be reused.  With the start time of the process and the
    boot of the machine it identifies one process.
    """

    name: str
    pid: int
    started: int
    boot: str

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return _started_at(self.pid) == self.started and identity.boot() == self.boot

    def open_process(self) -> int | None:
        """Return a descriptor of the process, None if it has ended; it is never reused."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.alive():
            return descriptor
        os.close(descriptor)
        return None


class LabRegistry:
    """The records of one user."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def socket(self, name: str) -> Path:
        return self.path / f"{check_name(name)}.sock"

    def log(self, name: str) -> Path:
        return self.path / f"{check_name(name)}.log"

    def write(self, record: LabRecord) -> None:
        draft = self.path / f".{record.name}.new"
        draft.write_text(json.dumps(asdict(record)))
        draft.rename(self._file(record.name))

    def find(self, name: str) -> LabRecord | None:
        """Return the lab of that name if it is up; remove the record of one that died."""
        try:
            record = LabRecord(**json.loads(self._file(name).read_bytes()))
            if record.alive():
                return record
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, RecursionError, OverflowError):
            pass  # nothing that this program has written
        self.remove(name)
        return None

    def all(self) -> list[LabRecord]:
        """Return the labs that are up."""
        names = sorted(f.stem for f in self.path.glob("*.json") if _NAME.fullmatch(f.stem))
        return [record for name in names if (record := self.find(name)) is not None]

    def remove(self, name: str) -> None:
        for file in (self._file(name), self.socket(name), self.log(name)):
            file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other starts and stops of labs; the directory exists until it is empty.

        :raises BackendBroken: the directory is not this user's own.
        """
        descriptor = self._lock()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            os.close(descriptor)

    def _lock(self) -> int:
        while True:
            self.path.mkdir(mode=0o700, exist_ok=True)
            self.check()
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    return descriptor
            os.close(descriptor)  # meanwhile the last lab ended and the directory was removed

    def check(self) -> None:
        """Refuse a directory that another user may write to.

        :raises BackendBroken: it exists and is not this user's own.
        """
        with contextlib.suppress(FileNotFoundError):
            status = self.path.lstat()
            ours = status.st_uid == os.geteuid() and not status.st_mode & 0o077
            if not stat.S_ISDIR(status.st_mode) or not ours:
                raise BackendBroken(f"{self.path} is not a directory of yours alone; remove it")

    def _file(self, name: str) -> Path:
        return self.path / f"{check_name(name)}.json"


def open_directory() -> LabRegistry:
    """Return the directory of this user; it exists while labs are up.

    :raises BackendBroken: it exists and is not this user's own.
    """
    directory = LabRegistry(_choose())
    directory.check()
    return directory


def _choose() -> Path:
    of_session = os.environ.get("XDG_RUNTIME_DIR")
    # With sudo, the directory may be that of the invoking user.
    if of_session and os.path.isdir(of_session) and os.stat(of_session).st_uid == os.geteuid():
        return Path(of_session, "netfw-lab")
    parent = "/run" if os.access("/run", os.W_OK) else "/tmp"
    return Path(parent, f"netfw-lab-{os.geteuid()}")


def identify(name: str, pid: int) -> LabRecord:
    """Return the record of a lab whose process is *pid*, which runs."""
    started = _started_at(pid)
    assert started is not None
    return LabRecord(name=name, pid=pid, started=started, boot=identity.boot())


def _started_at(pid: int) -> int | None:
    """Return the start time of the process; None if there is none, or it has ended."""
    try:
        state, started = identity.stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else started


def end_process(descriptor: int, number: int = signal.SIGTERM) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)


def check_name(name: str) -> str:
    """Return *name* if it is valid for a lab.

    :raises ConfigError: it is not.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a lab cannot be called {name!r}: up to 31 letters, digits and dashes")
    return name
