"""Entries: the bodies of all files, each with its id and position.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from attrs import define, field

from netfw.errors import nearest
from netfw.model.resource import Kind, Ref
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.text_validation import quote
from netfw.model.wire.codec import describe, join
from netfw.model.wire.resource_codecs import CODECS
from netfw.state.distributed_routing import agent_gateway_device_id
from netfw.state.file.diagnostics import Diagnostic, with_advice
from netfw.state.file.name_resolution import (
    Body,
    NameIndex,
    as_id,
    id_by_content,
    id_of,
    rename,
    resolve,
)
from netfw.state.file.schema import (
    AGENT_GATEWAYS,
    ASSIGNMENT_REFERENCES,
    ASSIGNMENTS,
    HOSTS,
    KNOWN,
    MAPPINGS,
    PROJECT,
    REFERENCES,
    SECTIONS,
    SHORT,
    Reference,
)

NAMELESS: Final = frozenset({Kind.SEGMENT, Kind.NDP_PROXY})
"""Kinds whose entries may leave out the name that they can have."""


@define(kw_only=True)
class FileEntry:
    """One body of a file."""

    file: str
    path: str
    kind: Kind | None
    """``None`` for an assignment."""
    body: Body
    id: UUID | None = None
    file_names: dict[str, str] = field(factory=dict)
    """The path in the file, by the path in the API's names."""

    def diagnostic(self, path: str, problem: str) -> Diagnostic:
        """Return a diagnostic at *path* of the body, in the names of the file."""
        for name, short in self.file_names.items():
            if path == name or path.startswith((f"{name}.", f"{name}[")):
                path = short + path[len(name) :]
        return Diagnostic(file=self.file, path=join(self.path, path), problem=with_advice(problem))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The short names that it may have, beside the names of the API."""
        names = (each.short for each in self.references if len(each.path) == 1)
        further = SHORT.get(self.kind, {}) if self.kind else ()
        return (*further, *(name for name in names if name is not None))

    @property
    def references(self) -> tuple[Reference, ...]:
        return ASSIGNMENT_REFERENCES if self.kind is None else REFERENCES.get(self.kind, ())


@define(kw_only=True)
class Gathered:
    """All entries of all files, with ids for names."""

    entries: dict[Ref, FileEntry] = field(factory=dict)
    assignments: list[FileEntry] = field(factory=list)
    hosts: dict[str, FileEntry] = field(factory=dict)
    errors: list[Diagnostic] = field(factory=list)
    warnings: list[Diagnostic] = field(factory=list)
    """Warnings about references to ids that are in no file."""
    index: NameIndex = field(factory=NameIndex)


def gather(documents: Mapping[str, object]) -> Gathered:
    """Gather the entries of all *documents*, by file; a duplicate is an error, across files too."""
    found = Gathered()
    for file, value in documents.items():
        for entry in _entries_of(file, value, found):
            if entry.kind is None:
                found.assignments.append(entry)
            else:
                _identify(entry, entry.kind, found)
    for entry in (*found.entries.values(), *found.assignments):
        for reference in entry.references:
            for each in resolve(entry.body, reference, found.index):
                if each.target is None:
                    found.errors.append(entry.diagnostic(each.path, each.problem))
                elif each.target not in found.index.refs:
                    problem = f"there is no {each.target} in the file"
                    found.warnings.append(entry.diagnostic(each.path, problem))
    return found


def _entries_of(file: str, value: object, found: Gathered) -> Iterator[FileEntry]:
    if not isinstance(value, dict):
        found.errors.append(Diagnostic(file=file, problem=f"is not an object: {describe(value)}"))
        return
    for key in value:
        if key not in KNOWN:
            near = nearest(key, KNOWN) if isinstance(key, str) and len(key) < 64 else ""
            found.errors.append(
                Diagnostic(file=file, path=_step(key), problem=f"there is no such section{near}")
            )
    project = value.get(PROJECT)
    if project is not None and not isinstance(project, str):
        problem = with_advice(f"not text: {describe(project)}")
        found.errors.append(Diagnostic(file=file, path=PROJECT, problem=problem))
        project = None
    for name, kind in (*SECTIONS.items(), (ASSIGNMENTS, None)):
        for entry in _section(file, name, kind, value, found):
            _own(entry, project)
            yield entry
            yield from _rules(entry, project, found)
    for entry in _hosts(file, value, found):
        _own(entry, project)
        yield entry


def _section(
    file: str, name: str, kind: Kind | None, value: Mapping[str, Any], found: Gathered
) -> Iterator[FileEntry]:
    listed = value.get(name, [])
    if not isinstance(listed, list):
        empty = (
            "is empty; write [] for none" if listed is None else f"not a list: {describe(listed)}"
        )
        found.errors.append(Diagnostic(file=file, path=name, problem=empty))
        return
    for position, raw in enumerate(listed):
        yield from _entry(file, f"{name}[{position}]", kind, raw, found)


def _entry(
    file: str, path: str, kind: Kind | None, raw: object, found: Gathered
) -> Iterator[FileEntry]:
    if not isinstance(raw, dict):
        problem = f"not an object: {describe(raw)}"
        found.errors.append(Diagnostic(file=file, path=path, problem=problem))
        return
    entry = FileEntry(file=file, path=path, kind=kind, body=_copy(raw))
    for short, name in SHORT.get(kind, {}).items() if kind else ():
        if short in entry.body and name not in entry.body:
            entry.body[name] = entry.body.pop(short)
            entry.file_names[name] = short
    for reference in entry.references:
        entry.file_names.update(rename(entry.body, reference))
    yield entry


def _rules(entry: FileEntry, project: object, found: Gathered) -> Iterator[FileEntry]:
    """Yield the rules within a security group, which are resources of their own."""
    if entry.kind is not Kind.SECURITY_GROUP or "rules" not in entry.body:
        return
    rules, group = entry.body.pop("rules"), entry.body.get("id") or entry.body.get("name")
    if not isinstance(rules, list):
        found.errors.append(entry.diagnostic("rules", f"not a list: {describe(rules)}"))
        return
    for position, raw in enumerate(rules):
        path = join(entry.path, f"rules[{position}]")
        for rule in _entry(entry.file, path, Kind.SECURITY_GROUP_RULE, raw, found):
            if "security_group_id" in rule.body:
                found.errors.append(rule.diagnostic("security_group_id", "is that of the group"))
            rule.body["security_group_id"] = _group_id(group)
            _own(rule, project)
            yield rule


def _group_id(group: object) -> str | None:
    if not isinstance(group, str):
        return None
    return str(as_id(group) or id_of(Kind.SECURITY_GROUP, group))


def _hosts(file: str, value: Mapping[str, Any], found: Gathered) -> Iterator[FileEntry]:
    """Gather the hosts of a file; yield the ports that they are given."""
    hosts = value.get(HOSTS, {})
    if not isinstance(hosts, dict):
        found.errors.append(
            Diagnostic(file=file, path=HOSTS, problem=f"not an object: {describe(hosts)}")
        )
        return
    for name, raw in hosts.items():
        for entry in _entry(file, join(HOSTS, _step(name)), None, raw, found):
            if name in found.hosts:
                other = found.hosts[name]
                found.errors.append(entry.diagnostic("", f"is in {other.file} too"))
            found.hosts[name] = entry
            if isinstance(name, str):
                yield from _agent_gateways(name, entry, found)


def _agent_gateways(host: str, entry: FileEntry, found: Gathered) -> Iterator[FileEntry]:
    """Yield a port for each external network that *host* has an address on."""
    stated = entry.body.pop(AGENT_GATEWAYS, {})
    if not isinstance(stated, dict) or len(stated) > MAPPINGS:
        is_long = isinstance(stated, dict)
        problem = f"more than {MAPPINGS}" if is_long else f"not an object: {describe(stated)}"
        found.errors.append(entry.diagnostic(AGENT_GATEWAYS, problem))
        return
    for network, address in stated.items():
        path = join(entry.path, join(AGENT_GATEWAYS, _step(network)))
        body = {
            "name": f"agent gateway of {host} on {network}",
            "network": network,
            "host": host,
            "device_owner": DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
            "device_id": agent_gateway_device_id(host),
            "port_security_enabled": False,
            "fixed_ips": [address],
        }
        yield from _entry(entry.file, path, Kind.PORT, body, found)


def _identify(entry: FileEntry, kind: Kind, found: Gathered) -> None:
    body, name = entry.body, entry.body.get("name")
    given = body.get("id")
    named = "name" in CODECS[kind].names
    if given is None and named and isinstance(name, str) and name:
        given = name
    if isinstance(given, str) and given:
        id = as_id(given) or id_of(kind, given)
        if named and as_id(given) is None:
            body.setdefault("name", given)
    elif given is not None:
        found.errors.append(entry.diagnostic("id", f"neither an id nor a name: {describe(given)}"))
        return
    elif named and name not in (None, ""):
        found.errors.append(entry.diagnostic("name", f"not text: {describe(name)}"))
        return
    elif named and kind not in NAMELESS:
        found.errors.append(entry.diagnostic("", "has neither a name nor an id"))
        return
    else:
        id = id_by_content(kind, body)
    body["id"], entry.id = str(id), id
    found.index.add(kind, id, given, name)
    other = found.entries.setdefault(Ref(kind, id), entry)
    if other is not entry:
        location = other.path if other.file == entry.file else f"{other.file}: {other.path}"
        found.errors.append(entry.diagnostic("", f"is the same as {location}"))


def _own(entry: FileEntry, project: object) -> None:
    owned = entry.kind is not None and PROJECT in CODECS[entry.kind].names
    if project is not None and owned and "tenant_id" not in entry.body:
        entry.body.setdefault(PROJECT, project)


def _copy(value: Any) -> Any:
    """Return a deep copy, since aliases of YAML share their value."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _step(key: object) -> str:
    return key if isinstance(key, str) and key.isidentifier() else quote(str(key))
