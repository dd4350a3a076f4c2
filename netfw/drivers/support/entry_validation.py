"""Check at run time that a value belongs to its key.  Pure."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import get_args

from netfw.errors import InvalidInput


def entry_error(entries: UnionType, key: object, value: object) -> InvalidInput | None:
    """Return the error of an entry that is none of *entries*, or ``None``.

    *entries* are the pairs of a contract, such as ``SwitchEntry``.
    """
    expected = _value_types(entries).get(type(key))
    if expected is not None and isinstance(value, expected):
        return None
    return InvalidInput({str(key): f"{type(value).__name__} is no value for {type(key).__name__}"})


@cache
def _value_types(entries: UnionType) -> dict[type, type]:
    """Return the type of the value for each type of key."""
    return dict(get_args(pair) for pair in get_args(entries))
