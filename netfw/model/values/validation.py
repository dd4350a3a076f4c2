"""Validation of values: every contradiction at once, each with its field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import Attribute

Problem = tuple[str, str]
"""A field (``gateway``, ``pools[1]``) and a sentence about what is wrong with it."""

REMEMBERED = 256
"""Texts of one field that are known to be right."""


class InvalidValue(ValueError):
    """A value that cannot exist; ``problems`` names each field and what is wrong with it."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{field}: {text}" for field, text in problems))


class Validated:
    """A value that validates itself once, when it is made."""

    __slots__ = ()

    def __attrs_post_init__(self) -> None:
        problems = tuple(self._problems())
        if problems:
            raise InvalidValue(*problems)

    def _problems(self) -> Iterator[Problem]:
        """Yield what is wrong with this value, field by field."""
        return iter(())


def checked_by(check: Callable[[str], object]) -> Callable[[object, Attribute[str], str], None]:
    """Return an attrs validator that calls *check*, which raises ``ValueError``, on one field.

    Texts that it has found right are remembered: the fields of resources have a few common ones,
    and a value that is changed several times is validated each time.
    """
    remembered = lru_cache(maxsize=REMEMBERED)(check)

    def validate(_: object, attribute: Attribute[str], value: str) -> None:
        try:
            remembered(value)
        except ValueError as exc:
            raise InvalidValue((attribute.name, str(exc))) from exc

    return validate


def each(check: Callable[[str], object]) -> Callable[[object, Attribute[Any], Any], None]:
    """Return an attrs validator that calls *check* on each text of a tuple or set."""

    def validate(_: object, attribute: Attribute[Any], values: Iterable[str]) -> None:
        for position, value in enumerate(values):
            try:
                check(value)
            except ValueError as exc:
                raise InvalidValue((f"{attribute.name}[{position}]", str(exc))) from exc

    return validate


def outside(number: int, allowed: range) -> str:
    """Return the sentence for a *number* that is not in *allowed*."""
    return f"{number} is outside {allowed.start} to {allowed.stop - 1}"


def repeated(values: tuple[object, ...]) -> Iterator[int]:
    """Yield the positions in *values* that repeat an earlier one."""
    seen: set[object] = set()
    for position, value in enumerate(values):
        if value in seen:
            yield position
        seen.add(value)
