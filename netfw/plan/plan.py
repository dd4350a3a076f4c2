"""A plan: ordered stages of operations, each stage atomic on one backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from attrs import field, frozen

from netfw.errors import NetfwError


def _owners(owners: Iterable[Hashable]) -> frozenset[Hashable]:
    return frozenset(owners)


def _resolve(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else text()


def _operations(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    return tuple(operations)


def _stages(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    return tuple(stages)


@frozen
class Operation:
    """One operation on one backend, and the line that a dry run shows for it.

    ``text`` may be a function that makes it, since rendering thousands of unread lines can cost
    more than the plan.
    """

    backend: str
    """The backend that executes it: ``ovsdb``, ``flows/br-int``, ``iptables/qrouter-x``."""
    _text: str | Callable[[], str] = field(eq=_resolve)
    owners: frozenset[Hashable] = field(converter=_owners)
    """Keys that fail when this operation is refused."""
    payload: object = field(repr=False)
    """The operation in terms of the backend's toolbox."""

    @property
    def text(self) -> str:
        """Description in one line, for operators; bytes that are not text are escaped."""
        return _resolve(self._text).encode(errors="backslashreplace").decode()

    def __str__(self) -> str:
        return f"{self.backend}: {self.text}"

    def __repr__(self) -> str:
        return f"Operation({self.backend!r}, {self.text!r}, owners={set(self.owners) or '{}'})"


@frozen
class Stage:
    """One atomic step on one backend: all of it or nothing; a crash after it is safe."""

    operations: tuple[Operation, ...] = field(converter=_operations)

    def __attrs_post_init__(self) -> None:
        backends = {operation.backend for operation in self.operations}
        if len(backends) != 1:
            raise ValueError(
                f"a stage is one atomic step on one backend, not on {sorted(backends)}"
            )

    @property
    def backend(self) -> str:
        return self.operations[0].backend


@frozen
class Plan:
    """Stages in order: make, switch over, break.  Falsy without stages."""

    stages: tuple[Stage, ...] = field(default=(), converter=_stages)
    waiting: Mapping[Any, str] = field(factory=dict)
    """Keys that cannot proceed yet, and what they wait for; an event wakes the loop."""
    refused: Mapping[Any, NetfwError] = field(factory=dict)
    """Keys that are impossible, as found by planning alone."""
    notes: Mapping[Any, str] = field(factory=dict)
    """Facts about keys that an operator should see, whether or not they change."""
    needs_full_observation: bool = field(default=False, eq=False, repr=False)
    """The observation left out something that matters because of a refusal: the plan is safe, but
    garbage may stay.  ``converge`` observes everything and plans again."""

    def __bool__(self) -> bool:
        return bool(self.stages)

    def __iter__(self) -> Iterator[Operation]:
        for stage in self.stages:
            yield from stage.operations

    def __len__(self) -> int:
        return sum(len(stage.operations) for stage in self.stages)

    def lines(self) -> Iterator[str]:
        """Yield the plan as text: numbered stages, a line per operation, wait, refusal."""
        for number, stage in enumerate(self.stages, 1):
            heads = chain([f"{number}. "], repeat(" " * len(f"{number}. ")))
            for head, operation in zip(heads, stage.operations, strict=False):
                yield f"{head}{operation}"
        for key, reason in self.waiting.items():
            yield f"waiting: {key}: {reason}"
        for key, error in self.refused.items():
            yield f"refused: {key}: {error}"
        for key, note in self.notes.items():
            yield f"note: {key}: {note}"

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "nothing to do"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data: see :meth:`to_json`."""
        return {
            "stages": [
                {
                    "backend": stage.backend,
                    "operations": [
                        {"text": operation.text, "owners": sorted(map(str, operation.owners))}
                        for operation in stage.operations
                    ],
                }
                for stage in self.stages
            ],
            "waiting": {str(key): reason for key, reason in self.waiting.items()},
            "refused": {str(key): str(error) for key, error in self.refused.items()},
            "notes": {str(key): note for key, note in self.notes.items()},
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return the plan as JSON: stages with text and owners of operations, waiting, refused."""
        return json.dumps(self.to_dict(), indent=indent)
