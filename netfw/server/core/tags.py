"""Tags: what the actions of the API make of them, and what its filters find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from netfw.drivers.query import Body
from netfw.errors import InvalidInput, TagNotFound

MOST_TAGS = 50
Tags = frozenset[str]


def _without(had: Tags, named: Tags) -> Tags:
    if missing := named - had:
        raise TagNotFound(f"there is no tag {sorted(missing)[0]!r} on it")
    return had - named


TAG_ACTIONS: Mapping[str, Callable[[Tags, Tags], Tags]] = {
    "replace_tags": lambda had, named: named,
    "add_tags": lambda had, named: had | named,
    "remove_tags": _without,
}
"""What can be done to the tags of everything that is stored; a body names them in ``tags``."""


def retagged(action: str, had: Collection[str], body: Body) -> Tags:
    """The tags after *action*.

    :raises TagNotFound: what is to be removed is not there.
    :raises InvalidInput: there would be too many.
    """
    named = frozenset(cast(list[str], body["tags"]))
    tags = TAG_ACTIONS[action](frozenset(had), named)
    if len(tags) > MOST_TAGS:
        raise InvalidInput({"tags": f"{len(tags)}, more than the {MOST_TAGS} that a resource has"})
    return tags


TAG_FILTERS: Mapping[str, Callable[[Tags, Tags], bool]] = {
    "tags": lambda has, named: named <= has,
    "tags-any": lambda has, named: bool(named & has),
    "not-tags": lambda has, named: not named <= has,
    "not-tags-any": lambda has, named: not named & has,
}
"""By the name of the filter, whether a resource passes: all the named tags, or any of them."""


def passes_tags(name: str, has: Collection[str], values: Collection[Any]) -> bool:
    """Whether what *has* these tags passes the filter *name*; each value may name several."""
    named = frozenset(tag for value in values for tag in str(value).split(","))
    return TAG_FILTERS[name](frozenset(has), named)
