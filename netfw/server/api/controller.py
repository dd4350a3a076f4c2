"""Controller: one for all resources; for each request parse, policy, plugin, conceal, notify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from attrs import evolve, frozen

from netfw.drivers.query import Body, Query, RequestContext
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.errors import InvalidInput, NotFound
from netfw.http.http_error import malformed
from netfw.model.wire import Json
from netfw.server.api.auth_protocols import Policy
from netfw.server.api.events import Events
from netfw.server.api.pagination import page_links
from netfw.server.api.query_params import QueryParser
from netfw.server.api.request import ApiRequest, ApiResponse
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb
from netfw.server.api.schema.validation import (
    Validator,
    check_exclusive,
    for_action,
    for_create,
    for_update,
)

MOST_AT_ONCE = 10_000
"""Resources that one request can make."""


@frozen(kw_only=True)
class ResourceEndpoint:
    """A resource, who keeps it, and what was compiled for it."""

    resource: ApiResource
    plugin: ResourcePlugin
    create: Validator
    update: Validator
    actions: Mapping[str, Validator]
    questions: QueryParser
    shown_as: ApiResource
    """How its members are shown."""


class Controller:
    """Serves every resource alike."""

    def __init__(
        self,
        resources: Sequence[ApiResource],
        plugins: Mapping[str, ResourcePlugin],
        policy: Policy,
        events: Events,
        bounds: RequestLimits,
    ) -> None:
        by_name = {each.name: each for each in resources}
        self._policy, self._events = policy, events
        self._served = {
            each.name: ResourceEndpoint(
                resource=each,
                plugin=plugins[each.name],
                create=for_create(each),
                update=for_update(each),
                actions={action.name: for_action(action) for action in each.actions},
                questions=QueryParser(each, bounds),
                shown_as=each if each.shows_as is None else by_name[each.shows_as],
            )
            for each in resources
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

    def answer(self, call: ApiRequest) -> ApiResponse:
        """Serve one request, whose method its route allows.

        :raises NetfwError: it cannot be.
        """
        served = self._served[call.route.resource.name]
        if call.route.parent_id is not None:
            self._find_parent(served, call)
        if call.route.action is not None:
            return self._act(served, call, call.route.action)
        return self._verbs[call.method, call.route.id is not None](served, call)

    def target(self, call: ApiRequest) -> Body:
        """The member that *call* is about, as far as the requester sees it.

        :raises NotFound: there is none, or none that he may see.
        """
        served = self._served[call.route.resource.name]
        body = served.plugin.show(call.requester, served.resource.name, call.route.own_id)
        seen = self._policy.visible(call.requester, served.shown_as, (body,))
        if not seen:
            raise NotFound(f"there is no {served.resource.name} {call.route.id}")
        return seen[0]

    # The verbs.

    def _list(self, served: ResourceEndpoint, call: ApiRequest) -> ApiResponse:
        name = served.resource.name
        question = served.questions.asked(call.parameters)
        self._policy.authorize(call.requester, served.resource, Verb.SHOW, None, {})
        query = self._restrict_hidden_filters(served.resource, call.requester, question.query)
        query = self._of_parent(served, call, query)
        found = served.plugin.find(call.requester, name, query)
        seen = self._policy.visible(call.requester, served.shown_as, found)
        rows = [_picked(row, question.fields) for row in seen] if question.fields else list(seen)
        body: dict[str, Any] = {served.resource.plural: rows}
        if question.paged or query.limit is not None:
            links = page_links(call.url(), call.parameters, query, found)
            if links:
                body[f"{served.resource.plural}_links"] = links
        return ApiResponse(status=200, body=body)

    def _show(self, served: ResourceEndpoint, call: ApiRequest) -> ApiResponse:
        fields = served.questions.shown(call.parameters) if call.parameters else frozenset()
        self._policy.authorize(call.requester, served.resource, Verb.SHOW, None, {})
        body = self.target(call)
        return ApiResponse(status=200, body={served.resource.singular: _picked(body, fields)})

    def _create(self, served: ResourceEndpoint, call: ApiRequest) -> ApiResponse:
        resource = served.resource
        raw, several = _bodies(resource, call.body())
        asked = [_numbered(served.create, each, resource, several, at) for at, each in raw]
        whole = [self._owned(served, call, each) for each in asked]
        for said, body in zip(asked, whole, strict=True):
            self._policy.authorize(call.requester, resource, Verb.CREATE, body, said)
        self._before(resource, "create", call.requester, whole)
        made = served.plugin.create(call.requester, resource.name, whole)
        for new in made:
            self._after(resource, "create", call.requester, new)
        if not resource.enveloped:
            return ApiResponse(status=201, body=asked[0])
        shown = [self._visible_body(served, call.requester, each) for each in made]
        answer = {resource.plural: shown} if several else {resource.singular: shown[0]}
        return ApiResponse(status=201, body=answer)

    def _update(self, served: ResourceEndpoint, call: ApiRequest) -> ApiResponse:
        resource = served.resource
        revision = call.revision()
        said = served.update.validate(_enveloped(resource, call.body()), resource.singular)
        self._authorize_member(served, call, Verb.UPDATE, said)
        id = call.route.own_id
        self._events.tell(f"{resource.name}.update.start", call.requester, said, id)
        body = served.plugin.update(call.requester, resource.name, id, said, revision)
        self._after(resource, "update", call.requester, body)
        shown = self._visible_body(served, call.requester, body)
        return ApiResponse(status=200, body={resource.singular: shown})

    def _delete(self, served: ResourceEndpoint, call: ApiRequest) -> ApiResponse:
        resource, id = served.resource, call.route.own_id
        revision = call.revision()
        self._authorize_member(served, call, Verb.DELETE, {})
        self._events.tell(f"{resource.name}.delete.start", call.requester, {}, id)
        served.plugin.delete(call.requester, resource.name, id, revision)
        self._events.tell(f"{resource.name}.delete.end", call.requester, {}, id)
        return ApiResponse(status=204)

    def _act(self, served: ResourceEndpoint, call: ApiRequest, action: ApiAction) -> ApiResponse:
        resource, id = served.resource, call.route.own_id
        said: Body = {}
        if action.method != "GET":
            given: object = call.body()
            if action.envelope is not None:
                given = _inside(cast(dict[str, Any], given), action.envelope)
            validator = served.actions[action.name]
            asked = validator.validate(given, action.name)
            check_exclusive(action, asked)
            said = validator.with_defaults(asked)
        self._authorize_member(served, call, action, said)
        name = f"{resource.name}.{action.name}"
        if action.method != "GET":
            self._events.tell(f"{name}.start", call.requester, said, id)
        done = served.plugin.member_action(call.requester, resource.name, id, action.name, said)
        if action.method != "GET":
            self._events.tell(f"{name}.end", call.requester, done, id)
        shown = self._visible_body(served, call.requester, done) if action.shows else done
        return ApiResponse(
            status=200, body=shown if action.envelope is None else {action.envelope: shown}
        )

    # What they share.

    def _owned(
        self, served: ResourceEndpoint, call: ApiRequest, said: dict[str, Json]
    ) -> dict[str, Json]:
        """*said* with defaults, its owner and its parent."""
        whole = served.create.with_defaults(said)
        if served.resource.attribute("project_id") is not None:
            own = call.requester.project_id
            if whole.setdefault("project_id", own) != own and not call.requester.admin:
                raise InvalidInput({"project_id": "only administrators give things to others"})
        if call.route.parent_id is not None:
            whole[served.resource.parent_attribute] = call.route.parent_id
        return whole

    def _restrict_hidden_filters(
        self, resource: ApiResource, requester: RequestContext, query: Query
    ) -> Query:
        """*query* such that the rows which are found tell nothing that is not shown.

        By what he is not shown, somebody finds his own; secrets he may not ask for at all.
        """
        asked = {*query.filters, *(name for name, _ in query.sort)}
        unseen = asked & self._policy.hidden(requester, resource)
        if not unseen:
            return query
        owned = resource.attribute("project_id") is not None
        secret = {each.name for each in resource.attributes if each.secret or not owned}
        if refused := sorted(unseen & secret):
            text = "is not shown to you, so you cannot ask for it"
            raise InvalidInput(dict.fromkeys(refused, text))
        own = requester.project_id
        allowed = own in query.filters.get("project_id", (own,))
        filters = {**query.filters, "project_id": (own,) if allowed else ()}
        return evolve(query, filters=filters)

    def _find_parent(self, served: ResourceEndpoint, call: ApiRequest) -> None:
        parent = served.resource.parent or ""
        handler = self._served[parent].plugin
        handler.show(call.requester, parent, call.route.parent_id or "")

    @staticmethod
    def _of_parent(served: ResourceEndpoint, call: ApiRequest, query: Query) -> Query:
        if call.route.parent_id is None:
            return query
        filters = {**query.filters, served.resource.parent_attribute: (call.route.parent_id,)}
        return evolve(query, filters=filters)

    def _authorize_member(
        self, served: ResourceEndpoint, call: ApiRequest, deed: Verb | ApiAction, said: Body
    ) -> None:
        requester, resource = call.requester, served.resource
        target: Body | None = None
        if self._policy.needs_target(requester, resource, deed, said):
            if resource.member_shown:
                target = served.plugin.show(requester, resource.name, call.route.own_id)
            else:
                target = {resource.parent_attribute: call.route.parent_id}
        self._policy.authorize(requester, resource, deed, target, said)

    def _before(
        self, resource: ApiResource, word: str, requester: RequestContext, bodies: Sequence[Body]
    ) -> None:
        for body in bodies:
            self._events.tell(f"{resource.name}.{word}.start", requester, body)

    def _after(
        self, resource: ApiResource, word: str, requester: RequestContext, body: Body
    ) -> None:
        id = str(body.get(resource.identity, ""))
        self._events.tell(f"{resource.name}.{word}.end", requester, body, id)

    def _visible_body(
        self, served: ResourceEndpoint, requester: RequestContext, body: Body
    ) -> Body:
        """*body* as its maker sees it; who may not see it at all gets its id."""
        seen = self._policy.visible(requester, served.shown_as, (body,))
        identity = served.resource.identity
        return seen[0] if seen else {identity: body.get(identity)}


def _picked(body: Body, fields: frozenset[str]) -> Body:
    return {name: body[name] for name in body if name in fields} if fields else body


def _inside(document: dict[str, Any], key: str) -> object:
    """What stands under the only key of *document*."""
    if key not in document:
        raise malformed(f"the body has no {key!r}")
    if len(document) > 1:
        raise malformed(f"the body has more than {key!r}")
    return document[key]


def _enveloped(resource: ApiResource, document: dict[str, Any]) -> object:
    return _inside(document, resource.singular) if resource.enveloped else document


def _bodies(
    resource: ApiResource, document: dict[str, Any]
) -> tuple[list[tuple[int, object]], bool]:
    """What is to be made, numbered; and whether the request is for several."""
    if not resource.enveloped or resource.plural not in document:
        return [(0, _enveloped(resource, document))], False
    several = _inside(document, resource.plural)
    if not resource.bulk:
        raise malformed(f"{resource.plural} are made one by one")
    if not isinstance(several, list) or not several:
        raise malformed(f"{resource.plural} is no list with entries")
    if len(several) > MOST_AT_ONCE:
        raise malformed(f"more than {MOST_AT_ONCE} {resource.plural} at once")
    return [(at, _unwrapped(resource, each)) for at, each in enumerate(several)], True


def _unwrapped(resource: ApiResource, raw: object) -> object:
    """One of several, which some clients wrap as if it were alone."""
    if isinstance(raw, dict) and len(raw) == 1 and resource.singular in raw:
        return raw[resource.singular]
    return raw


def _numbered(
    validator: Validator, raw: object, resource: ApiResource, several: bool, at: int
) -> dict[str, Json]:
    """What *raw* says; a fault in one of several names which."""
    if not several:
        return validator.validate(raw, resource.singular)
    try:
        return validator.validate(raw, "")
    except InvalidInput as exc:
        step = f"{resource.plural}[{at}]"
        faults = {f"{step}.{path}" if path else step: text for path, text in exc.problems.items()}
        raise InvalidInput(faults) from exc
