"""Loads a topology from the bytes of files; adds line numbers to diagnostics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from attrs import evolve

from netfw.drivers.registry.loader import installed
from netfw.drivers.server.type_driver import TypeDriver
from netfw.errors import InvalidInput
from netfw.model.segment import WELL_KNOWN_TYPES
from netfw.state.file.diagnostics import Diagnostic, truncate
from netfw.state.file.file_reader import Contents, read, stat_files
from netfw.state.file.parse import Parsed, line_at, lines_of, parse
from netfw.state.file.topology import Known, Topology, build_topology


def read_topology(path: str | os.PathLike[str]) -> Topology:
    """Read the topology from the file or directory at *path*, once.

    :raises InvalidInput: the problems found, by file, line and path.
    """
    topology = TopologyLoader().topology(_read_contents(os.fspath(path)))
    if topology.errors:
        raise InvalidInput({error.location: error.problem for error in topology.errors})
    return topology


def _read_contents(path: str) -> Contents:
    signatures = stat_files(path)
    if signatures.problem:
        return Contents(problems={path: signatures.problem})
    contents = read(signatures)
    return Contents(problems={path: "changes while it is read"}) if contents.torn else contents


class TopologyLoader:
    """Loads a topology repeatedly, with a cache of unchanged files and resources.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[bytes, Parsed]] = {}
        self._known: Known = {}

    def topology(self, contents: Contents) -> Topology:
        """Build the topology of all files; errors and warnings have line numbers."""
        errors = [Diagnostic(file=file, problem=text) for file, text in contents.problems.items()]
        documents: dict[str, object] = {}
        for file, data in contents.files.items():
            parsed = self._parse(file, data)
            documents[file] = parsed.value
            errors += parsed.errors
        for file in self._parsed.keys() - contents.files.keys():
            del self._parsed[file]
        if errors:
            return Topology(errors=truncate(errors))
        topology = build_topology(documents, self._known, _network_types())
        return evolve(
            topology,
            errors=_with_lines(topology.errors, contents.files),
            warnings=_with_lines(topology.warnings, contents.files),
        )

    def _parse(self, file: str, data: bytes) -> Parsed:
        digest = digest_of(data)
        before = self._parsed.get(file)
        if before is not None and before[0] == digest:
            return before[1]
        parsed = parse(file, data)
        self._parsed[file] = digest, parsed
        return parsed


def _network_types() -> list[str]:
    """Return the types of segments that netfw knows, and the names of installed type drivers."""
    return list(dict.fromkeys((*WELL_KNOWN_TYPES, *installed(TypeDriver))))


def digest_of(*data: bytes) -> bytes:
    """Return a digest of the contents of files."""
    digest = blake2b(digest_size=16)
    for part in data:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _with_lines(errors: Iterable[Diagnostic], files: Mapping[str, bytes]) -> tuple[Diagnostic, ...]:
    reported = truncate(errors)
    lines = {file: lines_of(files[file]) for file in {error.file for error in reported}}
    return tuple(evolve(error, line=line_at(lines[error.file], error.path)) for error in reported)
