"""Watched: when a topology on disk is read, and what came of it the last time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from attrs import frozen

from netfw.state.file.diagnostics import Diagnostic
from netfw.state.file.file_reader import Contents, FileSignatures, read, stat_files
from netfw.state.file.load import TopologyLoader, digest_of
from netfw.state.file.topology import Topology

TORN = "is being written"


@frozen
class LoadResult:
    """A topology, and the digest of the bytes that said it."""

    topology: Topology
    digest: str


class TopologyWatcher:
    """A file or directory that is read when it changed and then stayed the same for a while.

    A file that is written in place can look whole at any line's end; a pause of *settle* seconds
    without a change is what tells that its writer is done.  One thread at a time.
    """

    def __init__(
        self,
        path: str,
        settle: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = path
        self._settle, self._clock, self._sleep = settle, clock, sleep
        self._reader = TopologyLoader()
        self._seen: FileSignatures | None = None
        """What was looked at last, and since when it looks so."""
        self._since = 0.0
        self._read: FileSignatures | None = None
        """What the last reading is of."""

    @property
    def unsettled(self) -> bool:
        """Whether something changed that was not read yet."""
        return self._seen != self._read

    def look(self) -> LoadResult | None:
        """What is new and settled; ``None``: nothing."""
        seen = stat_files(self.path)
        if seen != self._seen:
            self._seen, self._since = seen, self._clock()
        if seen == self._read or self._clock() - self._since < self._settle:
            return None
        return self._reading(seen)

    def settled(self) -> LoadResult:
        """Wait until the place looks the same for a while, once, and read it."""
        seen = stat_files(self.path)
        self._sleep(self._settle)
        self._seen, self._since = stat_files(self.path), self._clock()
        return _faulty(self.path, TORN) if self._seen != seen else self._whole(seen)

    def at_once(self) -> LoadResult:
        """Read without waiting.

        That it looks the same afterwards proves nothing, as the clock of a file system is coarse:
        the next looks read it once more.
        """
        reading = self._whole(stat_files(self.path))
        self._seen = self._read = None
        return reading

    def _whole(self, seen: FileSignatures) -> LoadResult:
        return self._reading(seen) or _faulty(self.path, TORN)

    def _reading(self, seen: FileSignatures) -> LoadResult | None:
        contents = Contents(problems={self.path: seen.problem}) if seen.problem else read(seen)
        if contents.torn:
            return None
        self._read = seen
        digest = digest_of(
            *(part for name, data in contents.files.items() for part in (os.fsencode(name), data))
        )
        return LoadResult(self._reader.topology(contents), digest.hex())


def _faulty(path: str, problem: str) -> LoadResult:
    return LoadResult(Topology(faults=(Diagnostic(file=path, problem=problem),)), "")
