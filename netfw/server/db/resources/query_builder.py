"""A query of the API as one statement: filters, order, page.

Different filters must all hold, of one filter any value.  Executes nothing.  What other tables know
is asked for by ``IN``, since SQLite would look at every row for an ``EXISTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Select,
    and_,
    case,
    false,
    func,
    not_,
    or_,
    select,
)

from netfw.drivers.server.attribute import Value
from netfw.drivers.server.query import Query
from netfw.errors import InvalidInput, nearest
from netfw.errors.requests import HTTPBadRequest
from netfw.model.resource import Kind
from netfw.model.values.json_document import JsonDocument
from netfw.server.db.resources.visibility import SHARED, row_columns, shared_with
from netfw.server.db.schema.port_tables import PORT_ADDRESSES, PORT_GROUPS, PORT_LOCAL_IPS
from netfw.server.db.schema.qos_tables import ROUTER_POLICY
from netfw.server.db.schema.resource_tables import STORED, TAGS, table_mapping
from netfw.server.db.schema.shareable_kinds import SHAREABLE
from netfw.server.db.schema.table_mapping import TableMapping

Condition = ColumnElement[bool]
Values = tuple[Value, ...]

MAX_SUBSTRINGS = 16
"""Parts of addresses in one query: each is a condition of its own in the statement."""


_FLAGS: Mapping[Value, bool] = {True: True, False: False, "true": True, "false": False}


def selection(
    kind: Kind,
    query: Query,
    marker: Mapping[str, Any] | None = None,
    *,
    viewed: bool = False,
) -> Select[Any]:
    """Build the select of *query*; *marker* has the columns of the row to continue after.

    *viewed*: rows are shared in the view of a project, which is a value of the statement.
    Backwards, the rows come in the opposite order: the nearest to the marker first.

    :raises InvalidInput: a filter or an order is by what has no column.
    """
    rows = select(*row_columns(kind, viewed=viewed))
    rows = rows.where(*conditions(kind, query.filters, viewed=viewed))
    order = _order(kind, query)
    if marker is not None:
        rows = rows.where(_after(order, marker))
    rows = rows.order_by(*(by.asc() if up else by.desc() for _, by, up in order))
    return rows if query.limit is None else rows.limit(query.limit)


def conditions(
    kind: Kind, filters: Mapping[str, Values], *, viewed: bool = False
) -> list[Condition]:
    """Return the conditions of *filters*; *viewed*: rows are shared in the view of a project.

    :raises InvalidInput: naming every filter that cannot be.
    """
    how = table_mapping(kind)
    found: list[Condition] = []
    problems: dict[str, str] = {}
    for name, values in filters.items():
        try:
            if name == SHARED and kind is Kind.SUBNET:
                found.append(_by_shared_network(values, viewed=viewed))
            elif name == SHARED and viewed and kind in SHAREABLE:
                found.append(_by_view(kind, values))
            else:
                found.append(_condition(how, name, values))
        except ValueError as exc:
            problems[name] = str(exc)
    if problems:
        raise InvalidInput(problems)
    return found


def sort_columns(kind: Kind, query: Query) -> list[ColumnElement[Any]]:
    """Return the columns that a marker needs, each under the name of its attribute."""
    return [by.label(name) for name, by, _ in _order(kind, query)]


def _order(kind: Kind, query: Query) -> list[tuple[str, ColumnElement[Any], bool]]:
    columns = table_mapping(kind).columns
    unknown = [name for name, _ in query.sort if name not in columns]
    if unknown:
        raise HTTPBadRequest(
            {name: f"cannot be sorted by{nearest(name, columns)}" for name in unknown}
        )
    chosen = list(dict(query.sort).items())
    if not any(name == "id" for name, _ in chosen):
        chosen.append(("id", True))
    return [(name, _sortable(columns[name]), up != query.backwards) for name, up in chosen]


def _sortable(column: Column[Any]) -> ColumnElement[Any]:
    """Return the column such that null sorts first on all databases."""
    if not column.nullable:
        return column
    if isinstance(column.type, Boolean):
        return case((column.is_(True), 1), else_=0)
    kind: type[object] = column.type.python_type
    return func.coalesce(column, -1 if kind is int else "")


def _after(
    order: Sequence[tuple[str, ColumnElement[Any], bool]], marker: Mapping[str, Any]
) -> Condition:
    """Return the condition of rows after *marker*; its size grows with the number of keys."""
    *first, (name, by, up) = order
    after = _beyond(by, marker[name], up)
    for name, by, up in reversed(first):
        after = or_(_beyond(by, marker[name], up), and_(by == marker[name], after))
    return after


def _beyond(by: ColumnElement[Any], value: Any, up: bool) -> Condition:
    found: Condition = by > value if up else by < value
    return found


def _condition(how: TableMapping, name: str, values: Values) -> Condition:
    special = _SPECIAL.get((how.kind, name)) or _SPECIAL.get((None, name))
    if special is not None:
        return special(how, values)
    column = how.columns.get(name)
    if column is None:
        known = (*how.columns, *(key for kind, key in _SPECIAL if kind in (how.kind, None)))
        raise ValueError(f"is not a filter{nearest(name, known)}")
    return _any_of(column, values)


def _any_of(column: ColumnElement[Any], values: Iterable[Value | UUID]) -> Condition:
    given = [_plain(column, value) for value in values]
    some = [value for value in given if value is not None]
    equal = column.in_(some) if some else false()
    return or_(equal, column.is_(None)) if None in given else equal


def _plain(column: ColumnElement[Any], value: Value | UUID) -> Any:
    """Return *value* as the database compares it.

    :raises ValueError: the column cannot have it.
    """
    if value is None:
        return None
    wanted = column.type.python_type
    if wanted is bool:
        lowered = value.lower() if isinstance(value, str) else value
        if not isinstance(lowered, str | bool) or lowered not in _FLAGS:
            raise ValueError(f"{value!r} is neither true nor false")
        return _FLAGS[lowered]
    if wanted is int:
        try:
            number = int(str(value))
        except ValueError:
            raise ValueError(f"{value!r} is not a number") from None
        if number.bit_length() > 63:
            raise ValueError("is a number too large")
        return number
    if isinstance(value, tuple | JsonDocument):
        raise ValueError("is compared with single values")
    return str(value)


def _by_view(kind: Kind, values: Values) -> Condition:
    """Filter by ``shared`` as the viewer sees it."""
    flag = table_mapping(kind).columns[SHARED]
    shown = or_(flag.is_(True), shared_with(kind))
    wanted = {_plain(flag, value) for value in values}
    return or_(*(shown if value else not_(shown) for value in wanted))


def _by_shared_network(values: Values, *, viewed: bool) -> Condition:
    """Filter subnets by ``shared``: a subnet is shared as its network is."""
    networks, kind = STORED[Kind.NETWORK].table.c, Kind.NETWORK
    wanted = _by_view(kind, values) if viewed else _any_of(networks.shared, values)
    return STORED[Kind.SUBNET].table.c.network_id.in_(select(networks.id).where(wanted))


def _by_fixed_ips(how: TableMapping, values: Values) -> Condition:
    """Filter by ``ip_address=...`` and ``subnet_id=...``, which one address must both match."""
    wanted: dict[str, list[Value]] = {}
    for value in values:
        for name, each in _pairs(value):
            wanted.setdefault(name, []).append(each)
    rows = PORT_ADDRESSES.c
    parts: list[Condition] = []
    for name, given in wanted.items():
        if name == "ip_address_substr":
            if len(given) > MAX_SUBSTRINGS:
                raise ValueError(f"has more than {MAX_SUBSTRINGS} times ip_address_substr")
            parts.append(or_(*(rows.ip_address.contains(str(v), autoescape=True) for v in given)))
        elif name in ("ip_address", "subnet_id"):
            parts.append(_any_of(rows[name], given))
        else:
            raise ValueError(f"{name} is not ip_address, ip_address_substr or subnet_id")
    return how.table.c.id.in_(select(rows.port_id).where(*parts)) if wanted else false()


def _pairs(value: Value) -> Iterable[tuple[str, Value]]:
    if isinstance(value, JsonDocument):
        return value.content().items()
    name, equals, rest = str(value).partition("=")
    if not equals:
        raise ValueError("write ip_address=... or subnet_id=...")
    return ((name, rest),)


def _by_groups(how: TableMapping, values: Values) -> Condition:
    rows = PORT_GROUPS.c
    found = select(rows.port_id).where(_any_of(rows.security_group_id, values))
    return how.table.c.id.in_(found)


def _by_local_ips(how: TableMapping, values: Values) -> Condition:
    rows = PORT_LOCAL_IPS.c
    return how.table.c.id.in_(select(rows.port_id).where(_any_of(rows.local_ip_id, values)))


def _by_gateway_policy(how: TableMapping, values: Values) -> Condition:
    rows = ROUTER_POLICY.table.c
    return how.table.c.id.in_(select(rows.router_id).where(_any_of(rows.policy_id, values)))


def _by_segment(name: str) -> Callable[[TableMapping, Values], Condition]:
    def condition(how: TableMapping, values: Values) -> Condition:
        rows = STORED[Kind.SEGMENT].table.c
        return how.table.c.id.in_(select(rows.network_id).where(_any_of(rows[name], values)))

    return condition


def _by_subnets(how: TableMapping, values: Values) -> Condition:
    rows = STORED[Kind.SUBNET].table.c
    return how.table.c.id.in_(select(rows.network_id).where(_any_of(rows.id, values)))


def _tags(values: Values) -> list[str]:
    return list(dict.fromkeys(tag for value in values for tag in str(value).split(",")))


def _all_tags(how: TableMapping, values: Values) -> Condition:
    """Filter by all tags; the statement is the same for any number of them."""
    tags, rows = _tags(values), TAGS.c
    found = select(rows.resource_id).where(rows.tag.in_(tags)).group_by(rows.resource_id)
    return how.table.c.id.in_(found.having(func.count() == len(tags)))


def _any_tag(how: TableMapping, values: Values) -> Condition:
    found = select(TAGS.c.resource_id).where(TAGS.c.tag.in_(_tags(values)))
    return how.table.c.id.in_(found)


_SPECIAL: Mapping[tuple[Kind | None, str], Callable[[TableMapping, Values], Condition]] = {
    (Kind.PORT, "fixed_ips"): _by_fixed_ips,
    (Kind.PORT, "security_groups"): _by_groups,
    (Kind.PORT, "local_ips"): _by_local_ips,
    (Kind.NETWORK, "provider:network_type"): _by_segment("network_type"),
    (Kind.NETWORK, "provider:physical_network"): _by_segment("physical_network"),
    (Kind.NETWORK, "provider:segmentation_id"): _by_segment("segmentation_id"),
    (Kind.NETWORK, "subnets"): _by_subnets,
    (Kind.ROUTER, "gateway_qos_policy_id"): _by_gateway_policy,
    (None, "tags"): _all_tags,
    (None, "tags-any"): _any_tag,
    (None, "not-tags"): lambda how, values: ~_all_tags(how, values),
    (None, "not-tags-any"): lambda how, values: ~_any_tag(how, values),
}
"""Filters by other tables; ``None``: for all kinds."""
