"""Short descriptions of the difference of two values that should be equal.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Set

import attrs


def describe_difference(wanted: object, actual: object) -> str:
    """Describe how *actual* differs from *wanted*, by field if both are of one class."""
    parts = tuple(_differences(wanted, actual, ""))
    if parts:
        return "is not as it should be:\n  " + "\n  ".join(parts)
    return f"should be\n  {wanted}\nand is\n  {'gone' if actual is None else actual}"


def _differences(wanted: object, actual: object, path: str) -> Iterator[str]:
    if wanted == actual:
        return
    kind = type(wanted)
    if type(actual) is kind and attrs.has(kind):
        for field in attrs.fields(kind):
            if field.eq:
                name = f"{path}.{field.name}" if path else field.name
                mine, other = getattr(wanted, field.name), getattr(actual, field.name)
                yield from _differences(mine, other, name)
    elif not path:
        return
    elif isinstance(wanted, Set) and isinstance(actual, Set):
        yield from (f"{path} lacks {member}" for member in sorted(map(str, wanted - actual)))
        yield from (
            f"{path} has, and should not, {member}" for member in sorted(map(str, actual - wanted))
        )
    elif isinstance(wanted, tuple) and isinstance(actual, tuple) and len(wanted) == len(actual):
        for at, (mine, other) in enumerate(zip(wanted, actual, strict=True)):
            yield from _differences(mine, other, f"{path}[{at}]")
    else:
        yield f"{path} should be {wanted} and is {actual}"
