"""Tags of resources: the sub-collection ``/v2.0/<collection>/<id>/tags``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from netfw.drivers.server.query import Body
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import TagNotFound
from netfw.model.values.text_validation import quote
from netfw.server.api.auth_interfaces import Authorizer
from netfw.server.api.controller import Controller
from netfw.server.api.request import ApiRequest, ApiResponse
from netfw.server.api.resources.common import TAGS
from netfw.server.api.schema.resource_schema import ApiAttribute, Verb
from netfw.server.api.schema.validation import Validator

_VALIDATOR = Validator(
    (ApiAttribute(name="tags", codec=TAGS.codec, required=True),),
    lambda attribute: True,
    "",
    complete=True,
)


class Tagging:
    """Handles the tags of every resource that has them; the rule is that of updating it."""

    def __init__(
        self, controller: Controller, plugins: Mapping[str, ResourcePlugin], policy: Authorizer
    ) -> None:
        self._controller, self._plugins, self._policy = controller, plugins, policy

    def handle(self, request: ApiRequest) -> ApiResponse:
        """Handle one request, whose method its route allows.

        :raises NetfwError: the request is refused, or failed.
        """
        request = self._controller.with_parent(request)
        tag = request.route.tag
        if request.method == "GET":
            return self._show(request)
        if tag is None:
            return self._change_all(request)
        body = _VALIDATOR.validate({"tags": [tag]}, "tags")
        if request.method == "PUT":
            self._act(request, "add_tags", body)
            return ApiResponse(status=201)
        self._act(request, "remove_tags", body)
        return ApiResponse(status=204)

    def _show(self, request: ApiRequest) -> ApiResponse:
        route = request.route
        self._policy.authorize(request.requester, route.resource, Verb.SHOW, None, {})
        tags = cast(list[str], self._controller.visible_member(request).get("tags") or [])
        if route.tag is None:
            return ApiResponse(status=200, body={"tags": tags})
        if route.tag not in tags:
            raise TagNotFound(f"there is no tag {quote(route.tag)} on it")
        return ApiResponse(status=204)

    def _change_all(self, request: ApiRequest) -> ApiResponse:
        if request.method == "DELETE":
            self._act(request, "replace_tags", {"tags": []})
            return ApiResponse(status=204)
        body = _VALIDATOR.validate(request.body(), "tags")
        replace = request.method == "PUT"
        result = self._act(request, "replace_tags" if replace else "add_tags", body)
        return ApiResponse(status=200 if replace else 201, body=result)

    def _act(self, request: ApiRequest, action: str, body: Body) -> Mapping[str, Any]:
        requester, resource, id = request.requester, request.route.resource, request.route.own_id
        plugin = self._plugins[resource.name]
        target: Body | None = None
        if self._policy.needs_target(requester, resource, Verb.UPDATE, {}):
            target = plugin.show(requester, resource.name, id)
        self._policy.authorize(requester, resource, Verb.UPDATE, target, {})
        return plugin.member_action(requester, resource.name, id, action, body)
