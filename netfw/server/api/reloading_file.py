"""A file of the operator's, read again when it changes."""

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
_Sign = tuple[int, int, int, int, int] | None


class ReloadingFile(Generic[T]):
    """What a file says, as of at most a second ago.

    A file that became unusable is reported once, and what it said before stays in force: a slip
    of the operator's shuts nobody out.  :meth:`reload` is for when he asks.  Any thread may ask.
    """

    def __init__(
        self, path: str, parse: Callable[[str], T], *, private: bool, missing: T | None = None
    ) -> None:
        """Read it for the first time.

        *private*: it must not be readable to all.  *missing*: what it says when there is none.

        :raises ConfigError: it cannot be used.
        """
        self._path, self._parse, self._private, self._missing = path, parse, private, missing
        self._lock = threading.Lock()
        self._sign = self._look()
        self._value = self._read()
        self._looked = time.monotonic()

    @property
    def value(self) -> T:
        """What it says; looked at again when the last look is a second old."""
        if time.monotonic() - self._looked > 1.0 and self._lock.acquire(blocking=False):
            try:
                self._looked = time.monotonic()
                if self._look() != self._sign:
                    self._renew()
            except ConfigError as exc:
                LOG.error("%s; what it said before stays in force", exc)
            finally:
                self._lock.release()
        return self._value

    def look(self) -> None:
        """Have a change noticed, and complained of, although nobody asks what the file says."""
        self.value  # noqa: B018 - it looks

    def reload(self) -> None:
        """Read it now.

        :raises ConfigError: it cannot be used; what it said before stays in force.
        """
        with self._lock:
            self._renew()

    def _renew(self) -> None:
        self._sign = self._look()
        self._value = self._read()
        LOG.info("read %s again", self._path)

    def _look(self) -> _Sign:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _read(self) -> T:
        try:
            with open(self._path, encoding="utf-8") as file:
                self._refuse_open_to_others(os.fstat(file.fileno()))
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

    def _refuse_open_to_others(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{self._path}: not a file")
        if found.st_mode & stat.S_IWOTH:
            raise ConfigError(f"{self._path}: everybody may write it; chmod o-w {self._path}")
        if self._private and found.st_mode & stat.S_IROTH:
            raise ConfigError(f"{self._path}: everybody may read it; chmod o-rwx {self._path}")
        if found.st_uid not in (0, os.geteuid()):
            raise ConfigError(
                f"{self._path}: it belongs to user {found.st_uid}; "
                "it must be root's or that of the user of the server"
            )
