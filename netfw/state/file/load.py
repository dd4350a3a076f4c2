"""Reading: from the bytes of files to a topology, and from faults back to their lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from attrs import evolve

from netfw.errors import InvalidInput
from netfw.state.file.diagnostics import Diagnostic, first_of
from netfw.state.file.file_reader import Contents, read, stat_files
from netfw.state.file.parse import Parsed, line_at, lines_of, parse
from netfw.state.file.topology import Known, Topology, build_topology


def read_topology(path: str | os.PathLike[str]) -> Topology:
    """What the file or directory at *path* says, once.

    :raises InvalidInput: everything that is wrong with it, by file, line and path.
    """
    topology = TopologyLoader().topology(_whole(os.fspath(path)))
    if topology.faults:
        raise InvalidInput({fault.place: fault.problem for fault in topology.faults})
    return topology


def _whole(path: str) -> Contents:
    seen = stat_files(path)
    if seen.problem:
        return Contents(problems={path: seen.problem})
    contents = read(seen)
    return Contents(problems={path: "changes while it is read"}) if contents.torn else contents


class TopologyLoader:
    """Reads again and again, and remembers what did not change.  One thread at a time."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[bytes, Parsed]] = {}
        self._known: Known = {}

    def topology(self, contents: Contents) -> Topology:
        """What all files say together; faults and cautions with their lines."""
        faults = [Diagnostic(file=file, problem=text) for file, text in contents.problems.items()]
        documents: dict[str, object] = {}
        for file, data in contents.files.items():
            parsed = self._parse(file, data)
            documents[file] = parsed.value
            faults += parsed.faults
        for file in self._parsed.keys() - contents.files.keys():
            del self._parsed[file]
        if faults:
            return Topology(faults=first_of(faults))
        topology = build_topology(documents, self._known)
        return evolve(
            topology,
            faults=_located(topology.faults, contents.files),
            warnings=_located(topology.warnings, contents.files),
        )

    def _parse(self, file: str, data: bytes) -> Parsed:
        digest = digest_of(data)
        before = self._parsed.get(file)
        if before is not None and before[0] == digest:
            return before[1]
        parsed = parse(file, data)
        self._parsed[file] = digest, parsed
        return parsed


def digest_of(*data: bytes) -> bytes:
    """A digest of the contents of files."""
    digest = blake2b(digest_size=16)
    for part in data:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _located(faults: Iterable[Diagnostic], files: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    shown = first_of(faults)
    lines = {file: lines_of(files[file]) for file in {fault.file for fault in shown}}
    return tuple(evolve(fault, line=line_at(lines[fault.file], fault.path)) for fault in shown)
