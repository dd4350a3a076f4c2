"""The API, read within the process: the same routes, policy and limits as by HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.server.query import RequestContext
from netfw.errors import Forbidden, NotFound
from netfw.http.http_error import HttpError
from netfw.server.api.controller import Controller
from netfw.server.api.query_params import Parameters
from netfw.server.api.request import ApiRequest
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.routing import RequestTarget, Routes

Body = Mapping[str, Any]
MOST = 1000


@frozen
class Page:
    """The first resources of a list."""

    rows: tuple[Body, ...] = ()
    has_more: bool = False


@frozen(kw_only=True)
class OwnApi:
    """Reads resources as *requester* sees them."""

    routes: Routes
    controller: Controller
    limits: RequestLimits
    requester: RequestContext
    environ: Mapping[str, Any] = field(factory=dict)

    def show(self, collection: str, id: str) -> Body | None:
        """Return the resource, or ``None``.

        :raises Forbidden: it is not shown to this requester.
        """
        try:
            found: Body = _content(self._get((*collection.split("/"), id), ()))
        except NotFound:
            return None
        return found

    def find(self, collection: str, name: str, attribute: str = "name") -> Body:
        """Return the resource with the id *name*; names are not looked up.

        :raises NotFound: there is none.
        """
        del attribute
        found = self.show(collection, name)
        if found is None:
            raise NotFound(f"there is none of {collection} with that id")
        return found

    def list(self, path: str, **filters: str) -> tuple[Body, ...]:
        """Return the resources at *path* that match, up to a limit.

        :raises Forbidden: they are not shown to this requester.
        """
        return self.page(path, MOST, **filters).rows

    def page(self, path: str, limit: int, **filters: str) -> Page:
        """Return the first *limit* resources, in as many requests as the API needs for them.

        If the last row of a request is deleted before the next one, ``has_more`` is true.

        :raises Forbidden: they are not shown to this requester.
        """
        parts, rows = tuple(path.split("/")), list[Body]()
        marker: Parameters = ()
        while len(rows) <= limit:
            wanted = ("limit", str(limit + 1 - len(rows)))
            try:
                body = self._get(parts, (*filters.items(), wanted, *marker))
            except NotFound:
                return Page(tuple(rows), bool(rows))
            found: list[Body] = _content(body)
            rows += found
            if not (found and _is_followed(body)):
                break
            marker = (("marker", str(found[-1]["id"])),)
        return Page(tuple(rows[:limit]), len(rows) > limit)

    def _route(self, parts: tuple[str, ...]) -> RequestTarget:
        try:
            return self.routes.find(parts)
        except HttpError as exc:
            raise NotFound(str(exc)) from exc  # no plugin of this server has the resource

    def _get(self, parts: tuple[str, ...], parameters: Parameters) -> dict[str, Any]:
        route = self._route(parts)
        if not self.controller.shows(self.requester, route.resource):
            raise Forbidden(f"{route.resource.collection} are not shown to you")
        request = ApiRequest(
            method="GET",
            route=route,
            requester=self.requester,
            parameters=parameters,
            environ=self.environ,
            limits=self.limits,
        )
        body = self.controller.handle(request).body
        return dict(body) if isinstance(body, Mapping) else {}


def _content(body: dict[str, Any]) -> Any:
    """Return the resource or the list in the envelope of an answer."""
    return next(value for name, value in body.items() if not name.endswith("_links"))


def _is_followed(body: dict[str, Any]) -> bool:
    """Return whether a list has a link to its next page."""
    links = next((each for name, each in body.items() if name.endswith("_links")), ())
    return any(link["rel"] == "next" for link in links)
