"""Port binding: calls the mechanism drivers in order, level by level. Decides, stores nothing.

A driver binds the port, refuses with a reason, or binds it partly and requests a segment for the
next level, which is allocated and offered to the other drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismDriver,
    Partial,
    Refused,
)
from netfw.errors import NetfwError
from netfw.model.binding import Binding as Placed
from netfw.model.binding import VifDetails, VifType
from netfw.model.segment import Provider, Segment
from netfw.model.values.ids import SegmentId
from netfw.model.values.json_document import JsonDocument
from netfw.model.wire.ports import BINDING
from netfw.server.binding.inactive_bindings import WIRED

MAX_LEVELS = 10
FAILURE = "binding_failure"
"""Key in ``binding:vif_details`` of a port that no driver binds: the reasons, one per driver."""

_UNBOUND = (VifType.UNBOUND.value, VifType.BINDING_FAILED.value)

LONGEST_KNOWN, MOST_KNOWN = 1000, 256
_VALID: set[str] = set()
"""Answers of drivers that are valid bindings: most ports get one of a few."""

Below = Callable[[Provider], Segment]
"""Callback that finds or allocates a segment of the port's network.

:raises RequestError: no such segment is available.
"""


@frozen(kw_only=True)
class BindingLevel:
    """Driver that bound a port to a segment, on one level."""

    driver: str
    segment: SegmentId
    wired: bool = False
    """No agent reports on the port: it counts as wired."""

    def body(self) -> dict[str, Any]:
        """Return the level as it is stored with the port."""
        stored = {"driver": self.driver, "segment_id": str(self.segment)}
        return {**stored, WIRED: True} if self.wired else stored


@frozen(kw_only=True)
class Result:
    """Result of a binding; without levels no driver binds the port."""

    vif_type: str
    vif_details: VifDetails
    levels: tuple[BindingLevel, ...] = ()


def bind(
    drivers: Sequence[MechanismDriver],
    request: BindingRequest,
    below: Below,
    unable: Mapping[str, str] | None = None,
) -> Result:
    """Bind a port by the first drivers that accept it; otherwise return the reasons of all.

    *unable*: drivers that may not bind its last level, by name, with the reason of each.
    """
    refusals = _Refusals(unable or {})
    found = _bind(tuple(drivers), request, below, (), refusals)
    return _failed(refusals.reasons) if found is None else found


@frozen
class _Refusals:
    """The drivers that may not bind a port, and the reasons of all that did not."""

    unable: Mapping[str, str]
    reasons: list[str] = field(factory=list)


def _bind(
    drivers: tuple[MechanismDriver, ...],
    request: BindingRequest,
    below: Below,
    above: tuple[BindingLevel, ...],
    refusals: _Refusals,
) -> Result | None:
    reasons, unable = refusals.reasons, refusals.unable
    for driver in drivers:
        name = driver.describe().name
        answer = _answer(driver, request)
        if isinstance(answer, Bound) and name in unable:
            answer = Refused(unable[name])
        if isinstance(answer, Refused):
            reasons.append(_reason(name, request.level, answer.reason))
            continue
        wired = isinstance(answer, Bound) and answer.wired
        levels = (*above, BindingLevel(driver=name, segment=answer.segment, wired=wired))
        if isinstance(answer, Bound):
            return Result(vif_type=answer.vif_type, vif_details=answer.vif_details, levels=levels)
        if request.level + 1 >= MAX_LEVELS:
            reasons.append(_reason(name, request.level, f"more than {MAX_LEVELS} levels"))
            continue
        try:
            segment = below(answer.wants)
        except NetfwError as exc:
            reasons.append(_reason(name, request.level, f"its segment cannot be had: {exc}"))
            continue
        others = tuple(each for each in drivers if each is not driver)
        lower = evolve(request, segments=(segment,), level=request.level + 1)
        found = _bind(others, lower, below, levels, refusals)
        if found is not None:
            return found
    return None


def _answer(driver: MechanismDriver, request: BindingRequest) -> Binding:
    """Call the driver; an answer that breaks the contract counts as a refusal."""
    try:
        answer: object = driver.bind(request)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - the contract: it is a refusal
        return Refused(f"{type(exc).__name__}: {exc}")
    if not isinstance(answer, Bound | Partial | Refused):
        return Refused(f"it answered with a {type(answer).__name__}, which is no binding")
    problem = None if isinstance(answer, Refused) else _problem(answer, request)
    return answer if problem is None else Refused(f"it answered with {problem}")


def _problem(answer: Bound | Partial, request: BindingRequest) -> str | None:
    """Return why *answer* is not a valid binding, or ``None``."""
    if answer.segment not in [segment.id for segment in request.segments]:
        return f"segment {answer.segment}, which was not on offer"
    if isinstance(answer, Partial):
        wants: object = answer.wants
        return None if isinstance(wants, Provider) else "a request that is no segment"
    if answer.vif_type in _UNBOUND:
        return f"the vif type {answer.vif_type!r}, by which no port is bound"
    if (key := repr((answer.vif_type, answer.vif_details))) in _VALID:
        return None
    try:
        placed = Placed(vif_type=answer.vif_type, vif_details=answer.vif_details)
        BINDING.parse(BINDING.render(placed))
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is no binding
        return f"a binding that cannot be: {exc}"
    if len(key) <= LONGEST_KNOWN and len(_VALID) < MOST_KNOWN:
        _VALID.add(key)
    return None


def _reason(driver: str, level: int, reason: str) -> str:
    where = f" (level {level})" if level else ""
    return f"{driver}{where}: {reason}"


def _failed(reasons: Sequence[str]) -> Result:
    texts = list(reasons) or ["no mechanism driver is loaded"]
    return Result(
        vif_type=VifType.BINDING_FAILED.value,
        vif_details=VifDetails(other=JsonDocument({FAILURE: [_plain(each) for each in texts]})),
    )


def _plain(text: str) -> str:
    """Return *text* without characters that a document cannot carry."""
    return "".join(each if each.isprintable() else " " for each in text)[:1000]
