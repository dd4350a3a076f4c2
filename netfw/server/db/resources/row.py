"""Rows as values: a stored resource in the form of the API, parsed on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import orjson
from attrs import frozen

from netfw.model.resource import Kind, Ref, Resource
from netfw.model.wire import parse
from netfw.server.db.resources.visibility import SHARED

Json = Mapping[str, Any]

LONG_NUMBER: Final = re.compile(r"\d{16}")
"""A number in the attributes of extension drivers that orjson may not read exactly."""
CACHED = 2048
"""Parsed rows in the cache, by their text: each port reads its network."""


@lru_cache(maxsize=CACHED)
def value(kind: Kind, body: str) -> Resource:
    """Parse the *body* of a row."""
    return parse(kind, orjson.loads(body))


INTERNAL: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.FLOATING_IP: ("host",),
    Kind.PORT: ("binding:hosts", "binding:prepared_hosts"),
    Kind.ROUTER: ("vrid",),
}
"""Attributes that only servers and agents exchange."""


def api_body(kind: Kind, body: Json, extra: Json) -> dict[str, Any]:
    """Return a resource as the API shows it; *extra*: attributes of extension drivers."""
    shown = {**body, **extra}
    for name in INTERNAL.get(kind, ()):
        shown.pop(name, None)
    return shown


@frozen(kw_only=True)
class Row:
    """A stored resource in the form of the API, parsed into the model on demand."""

    kind: Kind
    body: Json
    extra: Json
    """Attributes that extension drivers added."""

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, UUID(self.body["id"]))

    @property
    def shown(self) -> dict[str, Any]:
        """The resource as the API shows it."""
        return api_body(self.kind, self.body, self.extra)

    def resource(self) -> Resource:
        """Parse the row into a resource of the model."""
        return parse(self.kind, self.body)


def read_row(kind: Kind, row: Sequence[Any], extras: dict[str, Json] | None = None) -> Row:
    """Read a row of `row_columns`; *extras* keeps what equal texts of rows of one list are read
    as."""
    body, text = orjson.loads(row[0]), row[1]
    if len(row) > 2 and row[2]:
        body[SHARED] = True
    if extras is not None and text in extras:
        return Row(kind=kind, body=body, extra=extras[text])
    extra = json.loads(text) if LONG_NUMBER.search(text) else orjson.loads(text)
    if extras is not None:
        extras[text] = extra
    return Row(kind=kind, body=body, extra=extra)
