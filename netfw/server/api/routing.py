"""Routing: the resource, member, action or tag that a path names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from attrs import frozen

from netfw.http.http_error import HttpError
from netfw.model.values.text_validation import quote
from netfw.server.api.error_responses import no_such_path, wrong_method
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb

LONGEST_PATH = 2048

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@frozen(kw_only=True)
class RequestTarget:
    """The target of a request."""

    resource: ApiResource
    parent_id: str | None = None
    id: str | None = None
    """Id of a member; ``None``: the collection."""
    action: ApiAction | None = None
    tags: bool = False
    tag: str | None = None

    @property
    def own_id(self) -> str:
        """The member's id as plugins use it."""
        own = self.id or ""
        return own if self.parent_id is None else f"{self.parent_id}/{own}"

    def methods(self) -> frozenset[str]:
        """Return the allowed methods."""
        if self.tags:
            methods = {"GET", "PUT", "DELETE"}
            return frozenset(methods if self.tag is not None else {*methods, "POST"})
        if self.action is not None:
            return frozenset({self.action.method})
        verbs = self.resource.verbs
        if self.id is None:
            readable = self.resource.listed
            writes = {"POST": Verb.CREATE}
        else:
            readable = self.resource.member_shown
            writes = {"PUT": Verb.UPDATE, "DELETE": Verb.DELETE}
        allowed = {method for method, verb in writes.items() if verb in verbs}
        return frozenset({*allowed, "GET"} if readable and Verb.SHOW in verbs else allowed)


def path_of(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the segments of the path; an escaped slash is part of a segment.

    :raises HttpError: the path is too long, or has control characters or bytes other than UTF-8.
    """
    uri: str = environ.get("REQUEST_URI") or ""
    script: str = environ.get("SCRIPT_NAME") or ""
    if uri.startswith("/") and uri.startswith(script):
        escaped = uri.partition("?")[0][len(script) :].split("/")
        raw = [unquote(part, errors="surrogateescape") for part in escaped]
    else:
        path: str = environ.get("PATH_INFO") or ""
        raw = path.encode("latin-1").decode("utf-8", errors="surrogateescape").split("/")
    parts = tuple(part for part in raw if part)
    if sum(map(len, parts)) > LONGEST_PATH or any(_CONTROL.search(part) for part in parts):
        raise no_such_path("that path: it has control characters, or no end")
    return parts


class Routes:
    """The routing table of all resources."""

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        every = tuple(resources)
        names = {each.name: each for each in every}
        self._top = {
            path: each
            for each in every
            if each.parent is None
            for path in (each.path, each.path.replace("-", "_"))
        }
        """Resources by path; clients write underscores instead of hyphens too."""
        self._prefixes = frozenset(each.prefix for each in every if each.prefix)
        self._tagged = {each.collection: each for each in every if each.prefix and each.tags}
        """Resources with a prefix, whose tags clients also look for without it."""
        self._sub = {(each.parent, each.collection): each for each in every if each.parent in names}
        self._actions = {
            (each.name, action.name): action for each in every for action in each.actions
        }

    def find(self, parts: tuple[str, ...]) -> RequestTarget:
        """Return the route of the path below the version.

        :raises HttpError: the path names no resource.
        """
        parts = (*parts[:-1], parts[-1].removesuffix(".json"))
        has_prefix = parts[0] in self._prefixes and len(parts) > 1
        start = 2 if has_prefix else 1
        resource = self._top.get("/".join(parts[:start]))
        if resource is None and parts[2:3] == ("tags",):
            resource = self._tagged.get(parts[0])
        route = None if resource is None else self._find_below(resource, None, parts[start:])
        if route is None:
            raise _not_found(parts)
        return route

    def _find_below(
        self, resource: ApiResource, parent_id: str | None, rest: tuple[str, ...]
    ) -> RequestTarget | None:
        if len(rest) < 2:
            return RequestTarget(
                resource=resource, parent_id=parent_id, id=rest[0] if rest else None
            )
        id, word, *more = rest
        if word == "tags" and resource.tags and len(more) < 2:
            return RequestTarget(
                resource=resource,
                parent_id=parent_id,
                id=id,
                tags=True,
                tag=more[0] if more else None,
            )
        action = self._actions.get((resource.name, word))
        if action is not None and not more:
            return RequestTarget(resource=resource, parent_id=parent_id, id=id, action=action)
        child = self._sub.get((resource.name, word)) if parent_id is None else None
        return None if child is None else self._find_below(child, id, tuple(more))


def _not_found(parts: tuple[str, ...]) -> HttpError:
    return no_such_path(quote("/v2.0/" + "/".join(parts)))


def check_method(route: RequestTarget, method: str) -> None:
    """Raise unless *route* allows *method*.

    :raises HttpError: 405 with the allowed methods.
    """
    allowed = route.methods()
    if method not in allowed:
        raise wrong_method(method, allowed)
