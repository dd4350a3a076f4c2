"""Notes: what the firewall's numbers mean, as bytes in their flows.  Pure.

A number means what the note beside it records, for as long as the flow is there: a restarted driver
reads the notes, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from uuid import UUID

from attrs import frozen

from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.security_group import Direction
from netfw.model.values.ids import AddressGroupId, PortId, SecurityGroupId

Remote = GroupKey | AddressGroupKey
"""A group whose members a rule matches."""
Groups = frozenset[SecurityGroupId]


@frozen(cache_hash=True)
class Permit:
    """What one group allows in one direction, to or from one remote group or any address."""

    group: SecurityGroupId
    direction: Direction
    stateful: bool
    remote: Remote | None = None

    @property
    def clauses(self) -> int:
        """Number of clauses: policy and rule, and member where there is a remote group."""
        return 2 if self.remote is None else 3


@frozen(cache_hash=True)
class GroupPresent:
    """A group is present, with rules or without."""

    group: SecurityGroupId


@frozen(cache_hash=True)
class MemberSet:
    """Members of a group are present, whether a rule refers to them or not.

    Each of them fulfils one clause of this conjunction; nothing fulfils the others.
    """

    remote: Remote

    clauses = 3


ConjunctionUse = Permit | GroupPresent | MemberSet
"""What the number of a conjunction stands for."""


@frozen
class PortNote:
    """A port is present, with this policy; 0: it is trusted."""

    port: PortKey
    policy: int


Noted = ConjunctionUse | Groups | PortNote

_VERSION = 1
_HEAD = Struct("!BB")
_PERMIT = Struct("!BB16sB16s")
_REMOTE = Struct("!B16s")
_PORT = Struct("!16sH")
_COUNT = Struct("!H")
_ID = 16
_PERMITTED, _KNOWN, _SET, _POLICY, _IS_PORT = range(1, 6)
_DIRECTIONS = (Direction.EGRESS, Direction.INGRESS)


def write(noted: Noted) -> bytes:
    """Return the bytes of a note."""
    match noted:
        case Permit(group, direction, stateful, remote):
            way = _DIRECTIONS.index(direction)
            body = _PERMIT.pack(way, stateful, group.bytes, *_remote(remote))
            return _HEAD.pack(_VERSION, _PERMITTED) + body
        case GroupPresent(group):
            return _HEAD.pack(_VERSION, _KNOWN) + group.bytes
        case MemberSet(remote):
            return _HEAD.pack(_VERSION, _SET) + _REMOTE.pack(*_remote(remote))
        case PortNote(PortKey(port), policy):
            return _HEAD.pack(_VERSION, _IS_PORT) + _PORT.pack(port.bytes, policy)
        case groups:
            ids = sorted(group.bytes for group in groups)
            return _HEAD.pack(_VERSION, _POLICY) + _COUNT.pack(len(ids)) + b"".join(ids)


def read(data: bytes) -> Noted | None:
    """Parse a note; return ``None`` for bytes that `write` does not make."""
    if len(data) < _HEAD.size:
        return None
    version, kind = _HEAD.unpack_from(data)
    noted = _read(kind, data[_HEAD.size :]) if version == _VERSION else None
    if noted is None:
        return None
    written = write(noted)
    return noted if data == written + bytes((6 - len(written)) % 8) else None


def _read(kind: int, body: bytes) -> Noted | None:
    reader, size = _READERS.get(kind, (None, 0))
    return None if reader is None or len(body) < size else reader(body)


def _read_permit(body: bytes) -> Permit:
    way, stateful, group, *remote = _PERMIT.unpack_from(body)
    return Permit(_group(group), _DIRECTIONS[way % 2], bool(stateful), _read_remote(*remote))


def _read_set(body: bytes) -> MemberSet | None:
    remote = _read_remote(*_REMOTE.unpack_from(body))
    return None if remote is None else MemberSet(remote)


def _read_port(body: bytes) -> PortNote:
    port, policy = _PORT.unpack_from(body)
    return PortNote(PortKey(PortId(UUID(bytes=port))), policy)


def _read_policy(body: bytes) -> Groups | None:
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * _ID
    if len(body) < end:
        return None
    starts = range(_COUNT.size, end, _ID)
    return frozenset(_group(body[start : start + _ID]) for start in starts)


def _group(data: bytes) -> SecurityGroupId:
    return SecurityGroupId(UUID(bytes=data))


def _remote(remote: Remote | None) -> tuple[int, bytes]:
    match remote:
        case None:
            return 0, bytes(_ID)
        case GroupKey(group):
            return 1, group.bytes
        case AddressGroupKey(addresses):
            return 2, addresses.bytes


def _read_remote(kind: int, data: bytes) -> Remote | None:
    if kind == 1:
        return GroupKey(_group(data))
    return AddressGroupKey(AddressGroupId(UUID(bytes=data))) if kind == 2 else None


_READERS: Mapping[int, tuple[Callable[[bytes], Noted | None], int]] = {
    _PERMITTED: (_read_permit, _PERMIT.size),
    _KNOWN: (lambda body: GroupPresent(_group(body[:_ID])), _ID),
    _SET: (_read_set, _REMOTE.size),
    _IS_PORT: (_read_port, _PORT.size),
    _POLICY: (_read_policy, _COUNT.size),
}
"""Parser of each kind, and its minimum length."""
