"""Strategies for texts, addresses, documents, and the fields that resources share."""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import IpAddress, IpNetwork, JsonDocument, Mac, Route

T = TypeVar("T")

_ALNUM = string.ascii_letters + string.digits
booleans: SearchStrategy[bool] = st.booleans()
ids: SearchStrategy[Any] = st.uuids()


def maybe(values: SearchStrategy[T]) -> SearchStrategy[T | None]:
    """Draw a value or ``None``."""
    return st.none() | values


def several(values: SearchStrategy[T], most: int = 3) -> SearchStrategy[tuple[T, ...]]:
    """Draw a short tuple without repetition."""
    return st.lists(values, max_size=most, unique=True).map(tuple)


@cache
def texts(limit: int = 255) -> SearchStrategy[str]:
    """Draw one line of any script, such as a name or a description."""
    letters = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
    return st.text(letters, max_size=limit)


@cache
def hosts() -> SearchStrategy[str]:
    """Draw names of hosts and availability zones."""
    return st.text(_ALNUM + "-", min_size=1, max_size=20).map(lambda text: f"h{text}")


@cache
def tokens() -> SearchStrategy[str]:
    """Draw device ids and owners; may be empty."""
    return st.text(_ALNUM + "_.:@/+=-", max_size=40)


@cache
def dns_names() -> SearchStrategy[str]:
    """Draw DNS names of one or more labels, or the empty name."""
    label = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)
    labels = st.lists(label, min_size=1, max_size=3).map(".".join)
    return st.just("") | labels | labels.map(lambda name: f"{name}.")


@cache
def macs() -> SearchStrategy[Mac]:
    """Draw unicast MAC addresses."""
    tail = st.binary(min_size=5, max_size=5)
    return tail.map(lambda raw: Mac(":".join(f"{byte:02x}" for byte in b"\xfa" + raw)))


@cache
def addresses(version: int | None = None) -> SearchStrategy[IpAddress]:
    """Draw addresses of one family, or of either."""
    return st.ip_addresses(v=cast(Any, version))


@cache
@st.composite
def prefixes(draw: st.DrawFn, version: int | None = None) -> IpNetwork:
    """Draw prefixes of any length, single addresses included."""
    address = draw(addresses(version))
    return ipaddress.ip_network((address, draw(st.integers(0, address.max_prefixlen))), False)


@cache
@st.composite
def routes(draw: st.DrawFn, version: int | None = None) -> Route:
    """Draw routes of one family, or of either."""
    destination = draw(prefixes(version))
    return Route(destination=destination, nexthop=draw(addresses(destination.version)))


@cache
def documents() -> SearchStrategy[JsonDocument]:
    """Draw small JSON objects."""
    leaf = st.none() | booleans | st.integers(-(2**62), 2**62) | texts(20)
    value = st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3),
        max_leaves=6,
    )
    return st.dictionaries(texts(12), value, max_size=3).map(JsonDocument)


@cache
def moments() -> SearchStrategy[datetime]:
    """Draw points in time, in UTC."""
    naive = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1))
    return naive.map(lambda moment: moment.replace(tzinfo=UTC))


@cache
def standard() -> SearchStrategy[dict[str, Any]]:
    """Draw the fields that every stored resource has."""
    return st.fixed_dictionaries(
        {
            "description": texts(),
            "revision": st.integers(0, 2**63 - 1),
            "tags": st.frozensets(texts(60).filter(bool), max_size=3),
            "created_at": maybe(moments()),
            "updated_at": maybe(moments()),
        }
    )


@cache
def owned() -> SearchStrategy[dict[str, Any]]:
    """Draw the fields of an owned resource."""
    return joined(standard(), project_id=texts(64))


@cache
def named() -> SearchStrategy[dict[str, Any]]:
    """Draw the fields of an owned and named resource."""
    return joined(owned(), name=texts())


def joined(
    fields: SearchStrategy[dict[str, Any]], **more: SearchStrategy[Any]
) -> SearchStrategy[dict[str, Any]]:
    """Draw *fields* together with *more*."""
    return st.builds(lambda some, others: some | others, fields, st.fixed_dictionaries(more))


def instances(
    cls: Callable[..., T], *fields: SearchStrategy[dict[str, Any]], **more: SearchStrategy[Any]
) -> SearchStrategy[T]:
    """Draw values of *cls* with all these fields."""
    parts = st.tuples(*fields, st.fixed_dictionaries(more))
    return parts.map(lambda drawn: cls(**{name: v for part in drawn for name, v in part.items()}))
