"""The backend of a source that reads a file, for the suite of state sources."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Ref, ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import Assignment, Item
from netfw.state.file import FileSource, render_topology

Key = Ref | Assignment


class FileBackend:
    """A program that writes the file beside and renames it, and looks at the status files."""

    def __init__(self, source: FileSource, path: Path) -> None:
        self.source, self.path = source, path
        self._stated: dict[Key, Item] = {}
        self._lock = threading.Lock()
        self._write()

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Key] = ()) -> None:
        with self._lock:
            for key in remove:
                self._stated.pop(key, None)
            self._stated |= {_key(item): item for item in put}
            self._write()
            assert self.source.refresh() == ()

    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        return lambda: self.commit(put)

    def items(self) -> Sequence[Item]:
        return self.source.items()

    def forget_history(self) -> None:
        self.source.forget_history()

    def restore(self, items: Sequence[Item]) -> None:
        with self._lock:
            self._stated = {_key(item): item for item in items}
            self._write()
            assert self.source.refresh(new_epoch=True) == ()

    def status(self, target: Ref, service: Service) -> Status | None:
        """Return the status in any host's status file, if it is about the present revision."""
        for _, line in self._lines(target, service):
            if "status" in line and line["revision"] == line["wanted_revision"]:
                return Status(line["status"])
        return None

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        lines = self._lines(router, Service.L3)
        return {host: HaRole(line["role"]) for host, line in lines if "role" in line}

    def _lines(self, target: Ref, service: Service) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the entries on *target* in the status files, with the host of each."""
        self.source.flush()
        for path in self.path.parent.glob(f"{self.path.name}.status.*.{service}.json"):
            content = json.loads(path.read_text())
            for line in content["resources"]:
                if (line["kind"], line["id"]) == (target.kind, str(target.id)):
                    yield content["host"], line

    def _write(self) -> None:
        beside = self.path.with_name("beside")
        beside.write_text(json.dumps(render_topology(self._stated.values())))
        os.replace(beside, self.path)


def _key(item: Item) -> Key:
    return item if isinstance(item, Assignment) else ref(item)
