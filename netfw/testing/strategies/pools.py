"""Strategies for subnet pools and address scopes."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from netfw.model import AddressScope, SubnetPool
from netfw.testing.strategies.basic import booleans, ids, instances, maybe, named, prefixes


@cache
def address_scopes() -> SearchStrategy[AddressScope]:
    """Draw address scopes of either family."""
    versions = st.sampled_from([4, 6])
    return instances(AddressScope, named(), id=ids, ip_version=versions, shared=booleans)


@cache
def subnet_pools() -> SearchStrategy[SubnetPool]:
    """Draw subnet pools of either family."""
    return instances(
        SubnetPool,
        _blocks(4) | _blocks(6),
        named(),
        id=ids,
        default_quota=maybe(st.integers(0, 2**32 - 1)),
        address_scope_id=maybe(ids),
        is_default=booleans,
        shared=booleans,
    )


@cache
@st.composite
def _blocks(draw: st.DrawFn, version: int) -> dict[str, Any]:
    """Draw prefixes of one family, and lengths in order."""
    length = st.integers(0, 32 if version == 4 else 128)
    shortest, default, longest = sorted(draw(st.tuples(length, length, length)))
    return {
        "prefixes": tuple(draw(st.lists(prefixes(version), min_size=1, max_size=4))),
        "min_prefixlen": shortest,
        "default_prefixlen": default,
        "max_prefixlen": longest,
    }
