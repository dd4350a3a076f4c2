"""Short descriptions of the difference of two values that should be equal.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set

import attrs


def describe_difference(wanted: object, found: object) -> str:
    """Describe what a value should be and is: if both have the same parts, those that differ."""
    parts = tuple(_differences(wanted, found, ""))
    if parts:
        return "is not as it should be:\n  " + "\n  ".join(parts)
    return f"should be\n  {wanted}\nand is\n  {'gone' if found is None else found}"


def _differences(wanted: object, found: object, path: str) -> Iterator[str]:
    if wanted == found:
        return
    kind = type(wanted)
    if type(found) is kind and attrs.has(kind):
        for field in attrs.fields(kind):
            if field.eq:
                name = f"{path}.{field.name}" if path else field.name
                mine, other = getattr(wanted, field.name), getattr(found, field.name)
                yield from _differences(mine, other, name)
    elif not path:
        return
    elif isinstance(wanted, Set) and isinstance(found, Set):
        yield from (f"{path} lacks {each}" for each in sorted(map(str, wanted - found)))
        yield from (
            f"{path} has, and should not, {each}" for each in sorted(map(str, found - wanted))
        )
    elif isinstance(wanted, tuple) and isinstance(found, tuple) and len(wanted) == len(found):
        for at, (mine, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(mine, other, f"{path}[{at}]")
    else:
        yield f"{path} should be {wanted} and is {found}"
