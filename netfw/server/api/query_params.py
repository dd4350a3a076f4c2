"""Query strings: filters, fields, order and page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.server.attribute import Value
from netfw.drivers.server.query import Query
from netfw.errors import InvalidInput, nearest
from netfw.errors.requests import BadRequest, HTTPBadRequest
from netfw.http.http_error import malformed
from netfw.model.values.text_validation import quote
from netfw.model.wire.codec import Absent, Codec, Listed, Nullable
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.schema.request_codecs import (
    FLAG,
    MAX_UNKNOWN,
    Null,
    Record,
    normalised,
)
from netfw.server.api.schema.resource_schema import ApiAttribute, ApiResource

TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
LONGEST_VALUE = 4096
MAX_ROWS = 10**9 - 1
"""The largest number of rows that a client can name."""

_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SYNONYMS = {"tenant_id": "project_id"}

Parameters = tuple[tuple[str, str], ...]


@frozen(kw_only=True)
class ListRequest:
    """The parsed query string of a list request."""

    query: Query = field(factory=Query)
    fields: frozenset[str] = frozenset()
    """Attributes to return; empty: all of them."""
    paged: bool = False
    """The client requested pages: the response has links."""


def parse_query_string(query_string: str, limits: RequestLimits) -> Parameters:
    """Return names and values in their order.

    :raises HttpError: they exceed the limits, are not UTF-8, or have control characters.
    """
    if len(query_string) > limits.query:
        raise malformed(f"the query string has more than {limits.query} bytes")
    try:
        pairs = parse_qsl(
            query_string,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=limits.parameters,
        )
    except UnicodeDecodeError as exc:
        raise malformed("the query string is not UTF-8") from exc
    except ValueError as exc:
        raise malformed(f"the query string has more than {limits.parameters} parts") from exc
    for name, value in pairs:
        if _CONTROL.search(name) or _CONTROL.search(value) or len(value) > LONGEST_VALUE:
            raise malformed(f"{quote(name)} has a control character, or no end")
    return tuple(pairs)


class QueryParser:
    """Parses the query strings of one resource."""

    def __init__(self, resource: ApiResource, limits: RequestLimits) -> None:
        self._limits = limits
        self._max_page = limits.page if resource.identity == "id" else None
        """Rows without an id have no markers, and so no pages."""
        self._filters = {each.name: each for each in resource.attributes if each.filterable}
        self._sortable = frozenset(each.name for each in resource.attributes if each.sortable)
        self._shown = frozenset(each.name for each in resource.attributes if each.shown)
        self._known = {*self._filters, *(TAG_FILTERS if resource.tags else ())}

    def parse_list(self, given: Parameters) -> ListRequest:
        """Parse the parameters of a list request.

        :raises HTTPBadRequest: names each wrong parameter.
        :raises InvalidInput: the same, when the values alone are wrong.
        """
        if not given:
            return ListRequest(query=Query(limit=self._max_page))
        filters: dict[str, list[Value]] = {}
        problems: dict[str, str] = {}
        control: dict[str, list[str]] = {}
        for name, value in given:
            if name in _CONTROLS:
                control.setdefault(name, []).append(value)
                continue
            try:
                attribute = _SYNONYMS.get(name, name)
                filters.setdefault(attribute, []).append(self._filter(name, value))
            except ValueError as exc:
                problems[name if name.isprintable() and len(name) < 100 else "?"] = str(exc)
                if len(problems) >= MAX_UNKNOWN:
                    break
        for name in TAG_FILTERS:
            if (
                sum(1 + str(value).count(",") for value in filters.get(name, ()))
                > self._limits.tags
            ):
                problems[name] = f"more than {self._limits.tags} tags in one filter"
        if problems:
            raise (InvalidInput if problems.keys() <= self._known else HTTPBadRequest)(problems)
        unique = {name: tuple(dict.fromkeys(values)) for name, values in filters.items()}
        return self._list_request(unique, control)

    def parse_fields(self, given: Parameters) -> frozenset[str]:
        """Parse the parameters of a member request, which may only have ``fields``.

        :raises HTTPBadRequest: another parameter, or no known field.
        """
        for name, _ in given:
            if name != "fields":
                raise HTTPBadRequest(
                    {name[:100]: "is no parameter of a single resource; only fields is"}
                )
        return self._fields([value for _, value in given])

    def _filter(self, name: str, value: str) -> Value:
        attribute = self._filters.get(name)
        if attribute is None:
            if name in self._known:
                return value
            if name in self._shown:
                raise ValueError("cannot be filtered by")
            raise ValueError(f"is not a filter{nearest(name, self._known)}")
        return filter_value(attribute, value)

    def _fields(self, values: list[str]) -> frozenset[str]:
        """Return the requested attributes; unknown names are ignored unless all are unknown."""
        named = [name for value in values for name in value.split(",") if name]
        if named and self._shown.isdisjoint(named):
            near = nearest(named[0], self._shown)
            raise HTTPBadRequest({"fields": f"there is no attribute {quote(named[0])}{near}"})
        return frozenset(named)

    def _list_request(
        self, filters: Mapping[str, tuple[Value, ...]], control: Mapping[str, list[str]]
    ) -> ListRequest:
        limit = _number("limit", control.get("limit", []))
        marker = _last(control.get("marker", []))
        backwards = _flag("page_reverse", control.get("page_reverse", []))
        max_page = self._max_page
        page = limit or None
        if max_page is not None:
            page = max_page if page is None else min(page, max_page)
        return ListRequest(
            query=Query(
                filters=filters,
                sort=self._sort(control.get("sort_key", []), control.get("sort_dir", [])),
                limit=page,
                marker=_marker(marker),
                backwards=backwards,
            ),
            fields=self._fields(control.get("fields", [])),
            paged=bool(limit),
        )

    def _sort(self, keys: list[str], directions: list[str]) -> tuple[tuple[str, bool], ...]:
        if len(directions) > len(keys):
            raise HTTPBadRequest({"sort_dir": "there are more of them than of sort_key"})
        for key in keys:
            if key not in self._sortable:
                near = nearest(key, self._sortable)
                raise HTTPBadRequest({"sort_key": f"{quote(key)} cannot be sorted by{near}"})
        for direction in directions:
            if direction not in ("asc", "desc"):
                raise HTTPBadRequest({"sort_dir": f"{quote(direction)} is neither asc nor desc"})
        padded = [*directions, *["asc"] * (len(keys) - len(directions))]
        order: dict[str, bool] = {}
        for key, way in zip(keys, padded, strict=True):
            order.setdefault(_SYNONYMS.get(key, key), way == "asc")
        return tuple(order.items())


_CONTROLS = frozenset({"fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse"})


def filter_value(attribute: ApiAttribute, raw: str) -> Value:
    """Return *raw* as it is stored, so that ``FE80::1`` finds ``fe80::1``.

    Text that is not a value of the attribute is returned unchanged and matches no row.

    :raises ValueError: the attribute is a flag, and *raw* is none.
    """
    codec = attribute.codec
    if raw == "" and isinstance(codec, Nullable):
        return None
    if codec is FLAG:
        return FLAG.parse(raw)
    record = _record(codec)
    if record is not None:
        return _pair(record, raw)
    try:
        value = normalised(codec, raw)
    except ValueError:
        return raw
    return value if isinstance(value, str | int) else raw


def _record(codec: Codec[Any]) -> Record | None:
    inner: Any = codec.codec if isinstance(codec, Null) else codec
    inner = inner.codec if isinstance(inner, Listed) else None
    return inner if isinstance(inner, Record) else None


def _pair(record: Record, raw: str) -> Value:
    """Return the filter ``ip_address=...`` with the value as it is stored."""
    name, equals, value = raw.partition("=")
    if not equals or name not in record.codecs:
        return raw
    try:
        stored = normalised(record.codecs[name], value)
    except ValueError:
        return raw
    return raw if isinstance(stored, Absent) else f"{name}={stored}"


def _last(values: list[str]) -> str:
    return values[-1] if values else ""


def _number(name: str, values: list[str]) -> int:
    text = _last(values)
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_ROWS))):
        raise BadRequest({name: f"{quote(text)} is not a number of rows"})
    return int(text)


def _flag(name: str, values: list[str]) -> bool:
    if not values:
        return False
    try:
        return FLAG.parse(values[-1])
    except ValueError as exc:
        raise HTTPBadRequest({name: str(exc)}) from exc


def _marker(text: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise HTTPBadRequest({"marker": f"{quote(text)} is not the id of a row"}) from None
