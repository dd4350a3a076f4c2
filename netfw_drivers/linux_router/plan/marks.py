"""Layout of the packet mark, marks of address scopes, and bits granted to extensions.  Pure.

==============  ==========================================================
bits            meaning
==============  ==========================================================
0               a request to the metadata service
1               the packet came in by the gateway
2, 3            not used
4 to 15         granted to extensions
16 to 31        mark of the address scope of the device that it came in by
==============  ==========================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from netfw.drivers.values.pipeline_grant import Grant, GrantRequest, RegisterGrant
from netfw.errors import ConfigError, Exhausted, InvalidInput, NotSupported
from netfw.linux.iptables.chain import full_name
from netfw.linux.iptables.quoting import check_chain_name
from netfw.model.values.ids import AddressScopeId
from netfw_drivers.linux_router.plan.names import CHAIN_OWNER, LONGEST_SUFFIX

METADATA = 0x1
EXTERNAL = 0x2
SCOPE_MASK = 0xFFFF0000
NO_SCOPE = 1024
"""Mark of the networks without an address scope, which share one."""

_SCOPE_SHIFT = 16
_SCOPES = range(NO_SCOPE + 1, 2048)
_GRANTED = range(4, 16)
_COMMENT = "scope-"
_MARK_LINE = re.compile(
    rf"--comment \"?{_COMMENT}(?P<scope>[0-9a-f-]{{36}})\"? "
    rf"-j MARK --set-xmark 0x(?P<mark>[0-9a-f]+)/{SCOPE_MASK:#x}$"
)

Scope = AddressScopeId | None
ScopeMarks = Mapping[Scope, int]


def mark_text(bits: int, mask: int | None = None) -> str:
    """Return mark and mask as iptables prints them."""
    return f"{bits:#x}/{bits if mask is None else mask:#x}"


def scope_text(number: int) -> str:
    """Return the mark of an address scope and its mask as iptables prints them."""
    return mark_text(number << _SCOPE_SHIFT, SCOPE_MASK)


def scope_comment(scope: Scope) -> str:
    """Return the comment by which the rule that sets a mark names its address scope."""
    return f"{_COMMENT}{scope or 'none'}"


def parse_scope_marks(lines: Iterable[str]) -> dict[Scope, int]:
    """Return the marks that the rules in force give to address scopes."""
    marks: dict[Scope, int] = {}
    for line in lines:
        found = _MARK_LINE.search(line)
        number = int(found["mark"], 16) >> _SCOPE_SHIFT if found else 0
        if found and number in _SCOPES:
            marks[AddressScopeId(UUID(found["scope"]))] = number
    return marks


def allocate_scope_marks(scopes: Iterable[Scope], present: ScopeMarks) -> dict[Scope, int]:
    """Return a mark for each of *scopes*; one that is *present* keeps its mark.

    :raises Exhausted: there are more scopes than marks.
    """
    wanted = dict.fromkeys(scopes)
    marks = {scope: number for scope, number in present.items() if scope in wanted}
    marks[None] = NO_SCOPE
    taken = set(marks.values())
    free = (number for number in _SCOPES if number not in taken)
    for scope in sorted((scope for scope in wanted if scope not in marks), key=str):
        number = next(free, None)
        if number is None:
            raise Exhausted(
                f"a router has at most {len(_SCOPES)} address scopes, not {len(wanted)}"
            )
        marks[scope] = number
    return marks


class GrantAllocator:
    """Bits of the mark and chain names, granted in the order of the requests."""

    def __init__(self) -> None:
        self._grants: dict[str, tuple[GrantRequest, Grant]] = {}

    def grant(self, request: GrantRequest) -> Grant:
        """Return the grant of *request*; the same request twice is one grant.

        :raises NotSupported: routers have neither tables, nor registers, nor meters.
        :raises ConfigError: no bits are left, or the owner cannot be part of a chain's name.
        """
        known = self._grants.get(request.owner)
        if known is not None and known[0] == request:
            return known[1]
        if known is not None:
            raise ConfigError(f"{request.owner} was granted something else; one request per name")
        if request.tables or request.registers or request.meters:
            raise NotSupported(
                f"{request.owner} requests tables, registers or meters: a Linux router has marks"
            )
        granted = Grant(
            owner=request.owner,
            cookie=0,
            cookie_mask=0,
            prefix=_chain_prefix(request.owner),
            marks=self._allocate(request),
        )
        self._grants[request.owner] = request, granted
        return granted

    def _allocate(self, request: GrantRequest) -> dict[str, RegisterGrant]:
        first = _GRANTED.start
        for _, grant in self._grants.values():
            first += sum(each.bits for each in grant.marks.values())
        marks = {}
        for each in request.marks:
            if first + each.bits > _GRANTED.stop:
                owners = ", ".join(self._grants) or "none"
                raise ConfigError(
                    f"{request.owner} requests {each.bits} bits of the mark for {each.name}, and "
                    f"{_GRANTED.stop - first} are left; present owners: {owners}"
                )
            marks[each.name] = RegisterGrant(register=None, first=first, bits=each.bits)
            first += each.bits
        return marks


def _chain_prefix(owner: str) -> str:
    try:
        check_chain_name(owner)
        full_name(CHAIN_OWNER, f"{owner}{LONGEST_SUFFIX}")
    except InvalidInput as error:
        raise ConfigError(
            f"extension {owner!r}: its chains cannot have its name: {error}"
        ) from error
    return f"{CHAIN_OWNER}-{owner}-"
