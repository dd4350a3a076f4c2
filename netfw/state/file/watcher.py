"""Watches a topology on disk, with a debounce against files that are being written."""

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
    """A topology, and the digest of the files it was loaded from."""

    topology: Topology
    digest: str


class TopologyWatcher:
    """Loads a file or directory when it changed and was then stable for *debounce* seconds.

    A file that is written in place can be valid at any line's end; only a pause without a change
    shows that its writer is done.  Not thread-safe.
    """

    def __init__(
        self,
        path: str,
        debounce: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = path
        self._debounce, self._clock, self._sleep = debounce, clock, sleep
        self._reader = TopologyLoader()
        self._seen: FileSignatures | None = None
        """The last signatures; ``_since`` is when they were first seen."""
        self._since = 0.0
        self._read: FileSignatures | None = None
        """The signatures of the last load."""

    @property
    def changing(self) -> bool:
        """Whether there is a change that was not loaded yet."""
        return self._seen != self._read

    def poll(self) -> LoadResult | None:
        """Load the topology if it changed and is stable; ``None``: nothing new."""
        signatures = stat_files(self.path)
        if signatures != self._seen:
            self._seen, self._since = signatures, self._clock()
        if signatures == self._read or self._clock() - self._since < self._debounce:
            return None
        return self._load(signatures)

    def load_stable(self) -> LoadResult:
        """Wait *debounce* seconds once, and load the topology if it did not change meanwhile."""
        before = stat_files(self.path)
        self._sleep(self._debounce)
        self._seen, self._since = stat_files(self.path), self._clock()
        if self._seen != before:
            return _load_failure(self.path, TORN)
        return self._load_or_failure(before)

    def load_now(self) -> LoadResult:
        """Load without waiting.

        An equal signature afterwards proves nothing, since the clock of a file system is coarse:
        the next polls load it once more.
        """
        result = self._load_or_failure(stat_files(self.path))
        self._seen = self._read = None
        return result

    def _load_or_failure(self, signatures: FileSignatures) -> LoadResult:
        return self._load(signatures) or _load_failure(self.path, TORN)

    def _load(self, signatures: FileSignatures) -> LoadResult | None:
        if signatures.problem:
            contents = Contents(problems={self.path: signatures.problem})
        else:
            contents = read(signatures)
        if contents.torn:
            return None
        self._read = signatures
        digest = digest_of(
            *(part for name, data in contents.files.items() for part in (os.fsencode(name), data))
        )
        return LoadResult(self._reader.topology(contents), digest.hex())


def _load_failure(path: str, problem: str) -> LoadResult:
    return LoadResult(Topology(errors=(Diagnostic(file=path, problem=problem),)), "")
