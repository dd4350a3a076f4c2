"""Controller of all resources: parse, authorize, call the plugin, filter the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from attrs import evolve, frozen

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import InvalidInput, NotFound
from netfw.errors.registry import not_found
from netfw.errors.requests import HTTPBadRequest
from netfw.http.http_error import malformed
from netfw.model.wire import Json
from netfw.model.wire.scalars import ID
from netfw.server.api.auth_interfaces import Authorizer
from netfw.server.api.pagination import find_selected, page_links
from netfw.server.api.query_params import QueryParser
from netfw.server.api.request import ApiRequest, ApiResponse
from netfw.server.api.request_body import MAX_BULK, RequestLimits
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb
from netfw.server.api.schema.validation import (
    Validator,
    check_exclusive,
    for_action,
    for_create,
    for_update,
)

OWN_PROJECT = "None"
"""The id by which clients mean the project of the requester."""


@frozen(kw_only=True)
class ResourceEndpoint:
    """A resource, its plugin, and the validators compiled for it."""

    resource: ApiResource
    plugin: ResourcePlugin
    create: Validator
    update: Validator
    actions: Mapping[str, Validator]
    query: QueryParser
    shown_as: ApiResource
    """The resource whose attributes and rules its members are shown with."""


class Controller:
    """Handles the requests on every resource in the same way."""

    def __init__(
        self,
        resources: Sequence[ApiResource],
        plugins: Mapping[str, ResourcePlugin],
        policy: Authorizer,
        limits: RequestLimits,
    ) -> None:
        by_name = {resource.name: resource for resource in resources}
        self._policy = policy
        self._endpoints = {
            resource.name: ResourceEndpoint(
                resource=resource,
                plugin=plugins[resource.name],
                create=for_create(resource),
                update=for_update(resource),
                actions={action.name: for_action(action) for action in resource.actions},
                query=QueryParser(resource, limits),
                shown_as=resource if resource.shows_as is None else by_name[resource.shows_as],
            )
            for resource in resources
        }
        self._verbs: Mapping[
            tuple[str, bool], Callable[[ResourceEndpoint, ApiRequest], ApiResponse]
        ] = {
            ("GET", False): self._list,
            ("POST", False): self._create,
            ("GET", True): self._show,
            ("PUT", True): self._update,
            ("DELETE", True): self._delete,
        }

    def handle(self, request: ApiRequest) -> ApiResponse:
        """Handle one request, whose method its route allows.

        :raises NetfwError: the request is refused, or failed.
        """
        request = _with_stored_id(self.with_parent(request))
        route = request.route
        endpoint = self._endpoints[route.resource.name]
        if endpoint.resource.one_per_project and route.id == OWN_PROJECT:
            request = evolve(request, route=evolve(route, id=request.requester.project_id))
        if route.action is not None:
            return self._act(endpoint, request, route.action)
        return self._verbs[request.method, route.id is not None](endpoint, request)

    def with_parent(self, request: ApiRequest) -> ApiRequest:
        """Return *request* with the id of the resource before a sub-resource as it is stored.

        :raises NotFound: that resource does not exist, or is invisible to the requester.
        :raises Forbidden: the requester may create none of these sub-resources, not even below a
            resource of its own.
        """
        requester, route = request.requester, request.route
        if route.parent_id is None:
            return request
        parent = self._endpoints[route.resource.parent or ""]
        try:
            body = parent.plugin.show(requester, parent.resource.name, route.parent_id)
        except NotFound:
            operation, creates = Verb.CREATE, request.method == "POST" and not route.tags
            if creates and not self._policy.is_possible(requester, route.resource, operation):
                self._policy.authorize(requester, route.resource, operation, {}, {})
            raise
        return evolve(request, route=evolve(route, parent_id=str(body[parent.resource.identity])))

    def shows(self, requester: RequestContext, resource: ApiResource) -> bool:
        """Return whether policy may show some *resource* to the requester."""
        return self._policy.is_possible(requester, resource, Verb.SHOW)

    def visible_member(self, request: ApiRequest) -> Body:
        """Return the member of *request* with the attributes visible to the requester.

        :raises NotFound: no such member exists, or policy hides it from the requester.
        """
        endpoint = self._endpoints[request.route.resource.name]
        name = endpoint.resource.name
        body = endpoint.plugin.show(request.requester, name, request.route.own_id)
        visible = self._visible(endpoint, request, (body,))
        if not visible:
            raise not_found(name)(f"there is no {name} {request.route.id}")
        return visible[0]

    # Verbs.

    def _list(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        resource, requester = endpoint.resource, request.requester
        listing = endpoint.query.parse_list(request.parameters)
        self._policy.authorize(requester, resource, Verb.SHOW, None, {})
        query = self._restrict_hidden_filters(resource, requester, listing.query)
        if request.route.parent_id is not None:
            parent = {resource.parent_attribute: (request.route.parent_id,)}
            query = evolve(query, filters={**query.filters, **parent})
        visible = self._find_visible(endpoint, request, query)
        body: dict[str, Any] = {
            resource.plural: [_select_fields(row, listing.fields) for row in visible]
            if listing.fields
            else list(visible)
        }
        if listing.paged or query.limit is not None:
            links = page_links(request.url(), request.parameters, query, visible)
            if links:
                body[f"{resource.plural}_links"] = links
        return ApiResponse(status=200, body=body)

    def _show(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        resource, parameters = endpoint.resource, request.parameters
        if resource.one_per_project:
            self._authorize_member(endpoint, request, Verb.SHOW, {})
        if resource.dry_run and ("fields", resource.dry_run) in parameters:
            return self._dry_run(endpoint, request)
        fields = endpoint.query.parse_fields(parameters) if parameters else frozenset()
        self._policy.authorize(request.requester, resource, Verb.SHOW, None, {})
        body = _select_fields(self.visible_member(request), fields)
        return ApiResponse(status=200, body={resource.singular: body})

    def _dry_run(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        resource, id = endpoint.resource, request.route.own_id
        body = endpoint.plugin.member_action(
            request.requester, resource.name, id, resource.dry_run, {}
        )
        return ApiResponse(status=200, body={resource.singular: body})

    def _create(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        resource, requester = endpoint.resource, request.requester
        raw, bulk = _split_bulk(resource, request.body())
        given = (
            [_validate_item(endpoint.create, item, resource, at) for at, item in enumerate(raw)]
            if bulk
            else [endpoint.create.validate(raw[0], resource.singular)]
        )
        complete = [self._complete(endpoint, request, body) for body in given]
        self._policy.authorize_creation(requester, resource, complete, given)
        created = endpoint.plugin.create(requester, resource.name, complete)
        if not resource.enveloped:
            return ApiResponse(status=201, body=given[0])
        visible = self._visible_bodies(endpoint, request, created)
        return ApiResponse(
            status=201, body={resource.plural: visible} if bulk else {resource.singular: visible[0]}
        )

    def _update(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        resource, requester = endpoint.resource, request.requester
        revision = request.revision()
        requested = endpoint.update.validate(_unwrap(resource, request.body()), resource.singular)
        self._authorize_member(endpoint, request, Verb.UPDATE, requested)
        body = endpoint.plugin.update(
            requester, resource.name, request.route.own_id, requested, revision
        )
        (visible,) = self._visible_bodies(endpoint, request, (body,))
        return ApiResponse(status=200, body={resource.singular: visible})

    def _delete(self, endpoint: ResourceEndpoint, request: ApiRequest) -> ApiResponse:
        revision = request.revision()
        self._authorize_member(endpoint, request, Verb.DELETE, {})
        endpoint.plugin.delete(
            request.requester, endpoint.resource.name, request.route.own_id, revision
        )
        return ApiResponse(status=204)

    def _act(
        self, endpoint: ResourceEndpoint, request: ApiRequest, action: ApiAction
    ) -> ApiResponse:
        requester = request.requester
        body: Body = {}
        if action.method != "GET":
            raw: object = request.body()
            if action.envelope is not None:
                raw = _only_value(cast(dict[str, Any], raw), action.envelope)
            validator = endpoint.actions[action.name]
            requested = validator.validate(raw, action.name)
            check_exclusive(action, requested)
            body = validator.with_defaults(requested)
        self._authorize_member(endpoint, request, action, body)
        result = endpoint.plugin.member_action(
            requester, endpoint.resource.name, request.route.own_id, action.name, body
        )
        visible = self._visible_bodies(endpoint, request, (result,))[0] if action.shows else result
        key = action.shown_key
        return ApiResponse(status=200, body=visible if key is None else {key: visible})

    # Steps that several verbs share.

    def _complete(
        self, endpoint: ResourceEndpoint, request: ApiRequest, requested: dict[str, Json]
    ) -> dict[str, Json]:
        """Return *requested* with defaults, owner and parent."""
        body = endpoint.create.with_defaults(requested)
        if endpoint.resource.attribute("project_id") is not None:
            own = request.requester.project_id
            if body.setdefault("project_id", own) != own and not request.requester.admin:
                raise HTTPBadRequest({"project_id": "only administrators give things to others"})
        return {**body, **_parent_of(endpoint.resource, request)}

    def _find_visible(
        self, endpoint: ResourceEndpoint, request: ApiRequest, query: Query
    ) -> Sequence[Body]:
        """Return the visible rows of *query*, without those that do not show what it asks for."""
        resource, requester = endpoint.resource, request.requester
        if not self.shows(requester, endpoint.shown_as):
            return ()
        asked = _requested(query) & self._policy.conditional(requester, resource)

        def select(rows: Sequence[Body]) -> Sequence[Body]:
            if asked:
                rows = self._policy.showing(requester, resource, rows, asked)
            return self._visible(endpoint, request, rows)

        return find_selected(
            lambda page: endpoint.plugin.find(requester, resource.name, page), select, query
        )

    def _restrict_hidden_filters(
        self, resource: ApiResource, requester: RequestContext, query: Query
    ) -> Query:
        """Restrict *query* so that the rows found disclose no attribute hidden from the requester.

        A hidden attribute finds only rows of the requester's project; a secret one is refused.
        """
        hidden = _requested(query) & self._policy.hidden(requester, resource)
        if not hidden:
            return query
        owned = resource.attribute("project_id") is not None
        secret = {each.name for each in resource.attributes if each.secret or not owned}
        if refused := sorted(hidden & secret):
            text = "is not shown to you, so you cannot ask for it"
            raise HTTPBadRequest(dict.fromkeys(refused, text))
        own = requester.project_id
        allowed = own in query.filters.get("project_id", (own,))
        filters = {**query.filters, "project_id": (own,) if allowed else ()}
        return evolve(query, filters=filters)

    def _authorize_member(
        self,
        endpoint: ResourceEndpoint,
        request: ApiRequest,
        operation: Verb | ApiAction,
        requested: Body,
    ) -> None:
        requester, resource = request.requester, endpoint.resource
        target: Body | None = None
        if self._policy.needs_target(requester, resource, operation, requested):
            target = _parent_of(resource, request)
            if resource.one_per_project:
                target = {"project_id": request.route.own_id}
            elif resource.member_shown:
                current = endpoint.plugin.show(requester, resource.name, request.route.own_id)
                target = {**current, **target}
        self._policy.authorize(requester, resource, operation, target, requested)

    def _visible(
        self, endpoint: ResourceEndpoint, request: ApiRequest, bodies: Sequence[Body]
    ) -> Sequence[Body]:
        """Return what the requester may see of *bodies*; rules can read their parent in the URL."""
        resource, added = endpoint.shown_as, _parent_of(endpoint.shown_as, request)
        if not bodies or not added or added.keys() <= bodies[0].keys():
            return self._policy.visible(request.requester, resource, bodies)
        targets = [{**body, **added} for body in bodies]
        visible = self._policy.visible(request.requester, resource, targets)
        return [{name: body[name] for name in body if name not in added} for body in visible]

    def _visible_bodies(
        self, endpoint: ResourceEndpoint, request: ApiRequest, bodies: Sequence[Body]
    ) -> list[Body]:
        """Return what the requester may see of each of *bodies*: its id at least."""
        identity = endpoint.resource.identity
        visible = {each.get(identity): each for each in self._visible(endpoint, request, bodies)}
        ids = [body.get(identity) for body in bodies]
        return [visible.get(id, {identity: id}) for id in ids]


def _with_stored_id(request: ApiRequest) -> ApiRequest:
    """Return *request* with the id of its member as it is stored, however the URL spells it."""
    route = request.route
    identity = route.resource.attribute(route.resource.identity)
    if route.id is None or identity is None or identity.codec is not ID:
        return request
    with suppress(ValueError):
        return evolve(request, route=evolve(route, id=str(ID.parse(route.id))))
    return request


def _parent_of(resource: ApiResource, request: ApiRequest) -> dict[str, Json]:
    """Return the attribute with the parent of a sub-resource, which the URL names."""
    parent = request.route.parent_id
    return {} if parent is None or resource.parent is None else {resource.parent_attribute: parent}


def _requested(query: Query) -> set[str]:
    """Return the attributes that *query* filters or sorts by."""
    return {*query.filters, *(name for name, _ in query.sort)}


def _select_fields(body: Body, fields: frozenset[str]) -> Body:
    return {name: body[name] for name in body if name in fields} if fields else body


def _only_value(document: dict[str, Any], key: str) -> object:
    """Return the value of *key*, the only key of *document*."""
    if key not in document:
        raise malformed(f"the body has no {key!r}")
    if len(document) > 1:
        raise malformed(f"the body has more than {key!r}")
    return document[key]


def _unwrap(resource: ApiResource, document: dict[str, Any]) -> object:
    return _only_value(document, resource.singular) if resource.enveloped else document


def _split_bulk(resource: ApiResource, document: dict[str, Any]) -> tuple[list[object], bool]:
    """Return the bodies to create, and whether *document* is a bulk request."""
    if not resource.enveloped or resource.plural not in document:
        return [_unwrap(resource, document)], False
    items = _only_value(document, resource.plural)
    if not resource.bulk:
        raise malformed(f"{resource.plural} are made one by one")
    if not isinstance(items, list) or not items:
        raise malformed(f"{resource.plural} is no list with entries")
    if len(items) > MAX_BULK:
        raise malformed(f"more than {MAX_BULK} {resource.plural} at once")
    return [_unwrap_item(resource, item) for item in items], True


def _unwrap_item(resource: ApiResource, raw: object) -> object:
    """Accept an item of a bulk request in an envelope of its own, as some clients send it."""
    if isinstance(raw, dict) and len(raw) == 1 and resource.singular in raw:
        return raw[resource.singular]
    return raw


def _validate_item(
    validator: Validator, raw: object, resource: ApiResource, at: int
) -> dict[str, Json]:
    """Validate one item of a bulk request; the paths of its problems begin with its index."""
    try:
        return validator.validate(raw, "")
    except InvalidInput as exc:
        item = f"{resource.plural}[{at}]"
        problems = {f"{item}.{path}" if path else item: text for path, text in exc.problems.items()}
        raise type(exc)(problems) from exc
