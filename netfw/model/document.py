"""Free-form data that netfw carries for others without reading it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import frozen

_EMPTY = "{}"


@frozen
class Document:
    """A JSON object as a value: it can be compared, hashed and kept, and never changes.

    ``text`` is canonical: sorted keys, no spaces, plain ASCII.
    """

    text: str = _EMPTY

    @classmethod
    def of(cls, content: Mapping[str, object]) -> Document:
        """The document with this content.

        :raises ValueError: it is not plain JSON (a NaN, a set, a cycle).
        """
        try:
            text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, RecursionError) as exc:
            raise ValueError(f"not plain JSON: {exc}") from exc
        return cls(text)

    def content(self) -> dict[str, Any]:
        """A copy of the content, for the caller to keep."""
        return cast(dict[str, Any], json.loads(self.text))

    def __bool__(self) -> bool:
        return self.text != _EMPTY
