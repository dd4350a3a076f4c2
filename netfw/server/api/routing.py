"""Which resource a path is about, and what of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from attrs import frozen

from netfw.http.http_error import HttpError
from netfw.model.text_validation import quote
from netfw.server.api.error_responses import no_such_path, wrong_method
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb

LONGEST_PATH = 2048

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@frozen(kw_only=True)
class Route:
    """What a path is about."""

    resource: ApiResource
    parent_id: str | None = None
    id: str | None = None
    """Of a member; ``None``: the collection."""
    action: ApiAction | None = None
    tags: bool = False
    tag: str | None = None

    @property
    def own_id(self) -> str:
        """The id by which plugins know the member."""
        own = self.id or ""
        return own if self.parent_id is None else f"{self.parent_id}/{own}"

    def methods(self) -> frozenset[str]:
        """What can be asked of it."""
        if self.tags:
            some = {"GET", "PUT", "DELETE"}
            return frozenset(some if self.tag is not None else {*some, "POST"})
        if self.action is not None:
            return frozenset({self.action.method})
        verbs = self.resource.verbs
        if self.id is None:
            shown_there = self.resource.listed
            possible = {"POST": Verb.CREATE}
        else:
            shown_there = self.resource.member_shown
            possible = {"PUT": Verb.UPDATE, "DELETE": Verb.DELETE}
        found = {method for method, verb in possible.items() if verb in verbs}
        return frozenset({*found, "GET"} if shown_there and Verb.SHOW in verbs else found)


def path_of(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts of the path; an escaped slash is part of a part.

    :raises Refusal: it is no text, or has no end.
    """
    uri: str = environ.get("REQUEST_URI") or ""
    script: str = environ.get("SCRIPT_NAME") or ""
    if uri.startswith("/") and uri.startswith(script):
        raw = [unquote(part, errors="surrogateescape") for part in _raw_parts(uri, script)]
    else:
        path: str = environ.get("PATH_INFO") or ""
        raw = path.encode("latin-1").decode("utf-8", errors="surrogateescape").split("/")
    parts = tuple(part for part in raw if part)
    if sum(map(len, parts)) > LONGEST_PATH or any(_CONTROL.search(part) for part in parts):
        raise no_such_path("that path: it has control characters, or no end")
    return parts


def _raw_parts(uri: str, script: str) -> list[str]:
    return uri.partition("?")[0][len(script) :].split("/")


class Routes:
    """Finds what a path is about; made once of all resources."""

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        every = tuple(resources)
        names = {each.name: each for each in every}
        self._top = {each.collection: each for each in every if each.parent is None}
        self._sub = {(each.parent, each.collection): each for each in every if each.parent in names}
        self._actions = {
            (each.name, action.name): action for each in every for action in each.actions
        }

    def find(self, parts: tuple[str, ...]) -> Route:
        """What the path below the version is about.

        :raises Refusal: nothing.
        """
        parts = (*parts[:-1], parts[-1].removesuffix(".json"))
        resource = self._top.get(parts[0])
        if resource is None:
            raise self._nothing(parts)
        found = self._within(resource, None, parts[1:])
        if found is None:
            raise self._nothing(parts)
        return found

    def _within(
        self, resource: ApiResource, parent_id: str | None, rest: tuple[str, ...]
    ) -> Route | None:
        if len(rest) < 2:
            return Route(resource=resource, parent_id=parent_id, id=rest[0] if rest else None)
        id, word, *more = rest
        if word == "tags" and resource.tags and len(more) < 2:
            return Route(
                resource=resource,
                parent_id=parent_id,
                id=id,
                tags=True,
                tag=more[0] if more else None,
            )
        action = self._actions.get((resource.name, word))
        if action is not None and not more:
            return Route(resource=resource, parent_id=parent_id, id=id, action=action)
        child = self._sub.get((resource.name, word)) if parent_id is None else None
        return None if child is None else self._within(child, id, tuple(more))

    @staticmethod
    def _nothing(parts: tuple[str, ...]) -> HttpError:
        return no_such_path(quote("/v2.0/" + "/".join(parts)))


def check_method(route: Route, method: str) -> None:
    """Refuse what cannot be asked there."""
    allowed = route.methods()
    if method not in allowed:
        raise wrong_method(method, allowed)
