"""Configuration files that are reloaded when they change."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from netfw.errors import ConfigError

LOG = logging.getLogger(__name__)

LARGEST = 10 * 2**20
T = TypeVar("T")
_Signature = tuple[int, int, int, int, int] | None


class ReloadingFile(Generic[T]):
    """The parsed contents of a file, at most a second old.  Thread-safe.

    If a change makes the file unusable, that is logged once and the former contents stay in force.
    One that cannot be read now, since the process has too many open files, is read again.
    """

    def __init__(
        self, path: str, parse: Callable[[str], T], *, private: bool, missing: T | None = None
    ) -> None:
        """Read the file for the first time.

        *private*: other users must not be able to read it.  *missing*: the value without a file.

        :raises ConfigError: the file is not usable.
        """
        self._path, self._parse, self._private, self._missing = path, parse, private, missing
        self._lock = threading.Lock()
        self._signature = self._stat()
        self._value = self._read()
        self._checked = time.monotonic()
        self._problem = ""

    @property
    def value(self) -> T:
        """The contents; the file is checked again when the last check is a second old."""
        if time.monotonic() - self._checked > 1.0 and self._lock.acquire(blocking=False):
            try:
                self._checked = time.monotonic()
                if self._stat() != self._signature:
                    self._reload()
                else:
                    self._problem = ""
            except ConfigError as exc:
                if str(exc) != self._problem:
                    LOG.error("%s; its former contents stay in force", exc)
                self._problem = str(exc)
            finally:
                self._lock.release()
        return self._value

    def reload_if_changed(self) -> None:
        """Reload the file if it changed; log a problem with it."""
        self.value  # noqa: B018 - reading it checks the file

    def reload(self) -> None:
        """Reload the file.

        :raises ConfigError: the file is not usable; its former contents stay in force.
        """
        with self._lock:
            self._reload()

    def _reload(self) -> None:
        self._signature, former = self._stat(), self._signature
        self._problem, problem = "", self._problem
        try:
            self._value = self._read()
        except ConfigError as exc:
            if isinstance(exc.__cause__, OSError):  # not of the text, so that it may pass
                self._signature, self._problem = former, problem
            raise
        LOG.info("%s: reloaded", self._path)

    def _stat(self) -> _Signature:
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def _read(self) -> T:
        try:
            with open(self._path, encoding="utf-8") as file:
                self._check_permissions(os.fstat(file.fileno()))
                text = file.read(LARGEST + 1)
        except FileNotFoundError as exc:
            if self._missing is not None:
                return self._missing
            raise ConfigError(f"{self._path}: there is no such file") from exc
        except OSError as exc:
            raise ConfigError(f"{self._path}: {exc.strerror}") from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{self._path}: not UTF-8 text") from exc
        if len(text) > LARGEST:
            raise ConfigError(f"{self._path}: larger than {LARGEST} characters")
        return self._parse(text)

    def _check_permissions(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{self._path}: not a file")
        if status.st_mode & stat.S_IWOTH:
            raise ConfigError(f"{self._path}: every user may write it; chmod o-w {self._path}")
        if self._private and status.st_mode & stat.S_IROTH:
            raise ConfigError(f"{self._path}: every user may read it; chmod o-rwx {self._path}")
        if status.st_uid not in (0, os.geteuid()):
            raise ConfigError(
                f"{self._path}: it belongs to user {status.st_uid}; "
                "it must be root's or that of the user of the server"
            )
