"""Tags of resources, as a collection below each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from netfw.drivers.query import Body
from netfw.drivers.resource_plugin import ResourcePlugin
from netfw.errors import TagNotFound
from netfw.model.text_validation import quote
from netfw.server.api.auth_protocols import Policy
from netfw.server.api.controller import Controller
from netfw.server.api.events import Events
from netfw.server.api.request import ApiRequest, ApiResponse
from netfw.server.api.resources.common import TAGS
from netfw.server.api.schema.resource_schema import ApiAttribute, Verb
from netfw.server.api.schema.validation import Validator

_READER = Validator(
    (ApiAttribute(name="tags", codec=TAGS.codec, required=True),),
    lambda each: True,
    "",
    complete=True,
)


class Tagging:
    """Serves the tags of whatever has them; who may change a resource may tag it."""

    def __init__(
        self,
        controller: Controller,
        plugins: Mapping[str, ResourcePlugin],
        policy: Policy,
        events: Events,
    ) -> None:
        self._controller, self._plugins = controller, plugins
        self._policy, self._events = policy, events

    def answer(self, call: ApiRequest) -> ApiResponse:
        """Serve one request, whose method its route allows."""
        tag = call.route.tag
        if call.method == "GET":
            return self._shown(call)
        if tag is None:
            return self._whole(call)
        body = _READER.validate({"tags": [tag]}, "tags")
        if call.method == "PUT":
            self._act(call, "add_tags", body)
            return ApiResponse(status=201)
        self._act(call, "remove_tags", body)
        return ApiResponse(status=204)

    def _shown(self, call: ApiRequest) -> ApiResponse:
        self._policy.authorize(call.requester, call.route.resource, Verb.SHOW, None, {})
        tags = cast(list[str], self._controller.target(call).get("tags") or [])
        if call.route.tag is None:
            return ApiResponse(status=200, body={"tags": tags})
        if call.route.tag not in tags:
            raise TagNotFound(f"there is no tag {quote(call.route.tag)} on it")
        return ApiResponse(status=204)

    def _whole(self, call: ApiRequest) -> ApiResponse:
        if call.method == "DELETE":
            self._act(call, "replace_tags", {"tags": []})
            return ApiResponse(status=204)
        body = _READER.validate(call.body(), "tags")
        action = "replace_tags" if call.method == "PUT" else "add_tags"
        status = 200 if call.method == "PUT" else 201
        return ApiResponse(status=status, body=self._act(call, action, body))

    def _act(self, call: ApiRequest, action: str, body: Body) -> Mapping[str, Any]:
        requester, resource, id = call.requester, call.route.resource, call.route.own_id
        plugin = self._plugins[resource.name]
        target: Body | None = None
        if self._policy.needs_target(requester, resource, Verb.UPDATE, {}):
            target = plugin.show(requester, resource.name, id)
        self._policy.authorize(requester, resource, Verb.UPDATE, target, {})
        self._events.tell(f"{resource.name}.{action}.start", requester, body, id)
        done = plugin.member_action(requester, resource.name, id, action, body)
        self._events.tell(f"{resource.name}.{action}.end", requester, done, id)
        return done
