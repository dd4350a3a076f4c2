"""Records of supervised processes: ``<directory>/<service>/<id>.pid`` for operators and tools, and
``<id>.json`` beside it with the authoritative identity.  Both are written atomically.

A record names a process and files, and both must belong to its key: the mark of the process ends
with the key, and the files are beside the record and are named ``<id>.*``.  Records of former
releases have a stop command, which is ignored: nothing in a record is executed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from netfw.errors import BackendBroken, InvalidInput
from netfw.linux import netns
from netfw.linux.fs.permissions import exposure_problem
from netfw.linux.process.identity import ProcessIdentity
from netfw.linux.process.machine_errors import raise_if_full
from netfw.linux.process.supervised_program import ProcessKey, check_command

_PIDS = range(1, (1 << 22) + 1)
_UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


@frozen(kw_only=True)
class ProcessRecord:
    """A started process, the digest of its program, and its own pid files."""

    identity: ProcessIdentity
    digest: str
    own_pid_files: tuple[Path, ...] = ()


class PidFiles:
    """The records under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def pid_path(self, key: ProcessKey) -> Path:
        return self.directory / key.service / f"{key.id}.pid"

    def log_path(self, key: ProcessKey) -> Path:
        return self.directory / key.service / f"{key.id}.log"

    def check_directory(self) -> None:
        """Refuse a directory that other users than root could change.

        :raises BackendBroken: says which part of its path, and what to do.
        """
        if problem := exposure_problem(self.directory):
            raise BackendBroken(problem)

    def prepare(self, key: ProcessKey) -> None:
        """Make the directory that the files of *key* are in."""
        (self.directory / key.service).mkdir(parents=True, exist_ok=True)

    def read(self, key: ProcessKey) -> ProcessRecord | None:
        """Return the record; None if there is none, or the file was not written by netfw.

        :raises OSError: no descriptor is free to read it.
        """
        try:
            return _parse(json.loads(self._path(key).read_text()), key, self._path(key).parent)
        except OSError as error:
            raise_if_full(error)
            return None
        except (InvalidInput, *_UNREADABLE):
            return None

    def write(self, key: ProcessKey, record: ProcessRecord) -> None:
        self.prepare(key)
        _replace(self._path(key), json.dumps(asdict(record), indent=1, default=str) + "\n")
        _replace(self.pid_path(key), f"{record.identity.pid}\n")

    def forget(self, key: ProcessKey) -> None:
        """Remove *key* from the records, so that its process is not supervised any more."""
        self._path(key).unlink(missing_ok=True)

    def is_withdrawn(self, key: ProcessKey) -> bool:
        """Return whether *key* is not on record although the directory of its service exists."""
        path = self._path(key)
        return path.parent.is_dir() and not path.exists()

    def remove(self, key: ProcessKey) -> None:
        """Remove the record of *key* and the output of its last run."""
        for path in (self.pid_path(key), self._path(key), self.log_path(key)):
            path.unlink(missing_ok=True)

    def recorded(self) -> frozenset[ProcessKey]:
        """Return all keys on record, whether their processes still run or not."""
        found = set()
        for path in self.directory.glob("*/*.json"):
            try:
                found.add(ProcessKey(path.parent.name, path.name.removesuffix(".json")))
            except InvalidInput:
                continue  # not a file of netfw
        return frozenset(found)

    def _path(self, key: ProcessKey) -> Path:
        return self.directory / key.service / f"{key.id}.json"


def _parse(data: Any, key: ProcessKey, folder: Path) -> ProcessRecord:
    """Parse the record in *data*; raise one of `_UNREADABLE` if it is not a record of *key*."""
    identity = data["identity"]
    own = (Path(text) for text in map(str, data.get("own_pid_files", ())))
    parsed = ProcessRecord(
        identity=ProcessIdentity(
            pid=int(identity["pid"]),
            started=int(identity["started"]),
            boot=str(identity["boot"]),
            namespace=netns.NamespaceIdentity(**identity["namespace"]),
            argv=tuple(map(str, identity["argv"])),
            mark=str(identity["mark"]),
        ),
        digest=str(data["digest"]),
        own_pid_files=tuple(
            path for path in own if path.parent == folder and path.name.startswith(f"{key.id}.")
        ),
    )
    if parsed.identity.pid not in _PIDS:
        raise ValueError(f"{parsed.identity.pid} is no pid")
    if not parsed.identity.mark.endswith(f":{key}"):
        raise ValueError(f"{parsed.identity.mark!r} is no mark of {key}")
    check_command("argv", parsed.identity.argv)
    return parsed


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.replace(beside, path)
