"""Status files of the agents of this host, read with the processes that wrote them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from netfw.conf.agent import COMMON, GROUP
from netfw.conf.loader import load_config
from netfw.diagnosis.agent_health import StatusRecord
from netfw.errors import ConfigError
from netfw.linux.process import identity

_MOST_BYTES = 64 << 20
_MOST_FILES = 100
_FOLDERS: Final = ("status", "metadata")
"""Directories below ``state_path`` in which agents write their status by default."""


@frozen(kw_only=True)
class StatusLocation:
    """Where the agents of this host write their status."""

    files: tuple[Path, ...] = ()
    """Files that are named, and are expected to exist."""
    directories: tuple[Path, ...] = ()

    def paths(self) -> list[Path]:
        """Return the files that exist or are named, and directories that cannot be listed.

        :raises ConfigError: a directory has too many to be one of agents.
        """
        found = dict.fromkeys(self.files)
        for directory in self.directories:
            found |= dict.fromkeys(_status_paths(directory)[: _MOST_FILES + 1])
        if len(found) > _MOST_FILES:
            raise ConfigError(f"more than {_MOST_FILES} status files; name some by --status-file")
        return list(found)


def status_location(conf_files: Sequence[str], named: Sequence[str]) -> StatusLocation:
    """Return where the agents of this host write their status.

    *named* files replace those of the configuration.

    :raises ConfigError: a file of the configuration cannot be read.
    """
    if named:
        return StatusLocation(files=tuple(map(Path, named)))
    conf = load_config("netfw", conf_files, {GROUP: COMMON}).conf
    own = (Path(conf.agent.status_file),) if conf.agent.status_file else ()
    state = Path(conf.state_path)
    return StatusLocation(files=own, directories=tuple(state / name for name in _FOLDERS))


def _status_paths(directory: Path) -> list[Path]:
    """Return the status files of *directory*, or itself if it cannot be listed.

    ``Path.glob`` finds nothing in a directory that may not be read, as if no agent ran.
    """
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return [directory]
    return [directory / name for name in names if fnmatchcase(name, "netfw-*.json")]


def read_status_files(paths: Iterable[Path]) -> list[StatusRecord]:
    """Return the content of each file; one that cannot be read has a problem."""
    return [_read(path) for path in paths]


def _read(path: Path) -> StatusRecord:
    try:
        content = _read_object(path)
        started = process_start(content.get("pid"))
    except FileNotFoundError:
        why = "there is no such file: the agent does not run, or its status_file is another one"
    except OSError as exc:
        why = f"it cannot be read: {exc.strerror}"
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as exc:
        why = f"it is not JSON: {exc}"
    except ValueError as exc:
        why = str(exc)
    else:
        return StatusRecord(path=str(path), content=content, process_started=started)
    return StatusRecord(path=str(path), problem=why)


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object, without waiting for the writer of a pipe.

    :raises ValueError: it is none.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} octets")
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    return content


def process_start(pid: object) -> float | None:
    """Return when the process with *pid* started, in seconds since 1970; ``None``: there is none.

    A process that has ended and was not waited for is none.
    """
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return None
    try:
        state, ticks = identity.stat(pid)
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return None if state in "ZX" else boot + ticks / os.sysconf("SC_CLK_TCK")
