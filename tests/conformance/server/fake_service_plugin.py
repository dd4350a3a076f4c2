"""A service plugin that keeps every promise, and the suite on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from attrs import evolve, frozen

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.values.agent_requests import Request
from netfw.errors import Conflict, InvalidInput
from netfw.model.network import Network
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.conformance.server.resource_plugin import MemberAction
from netfw.testing.conformance.server.service_plugin import At, ServicePluginConformance

WIDGET, IMPOSSIBLE, USED, TAKEN, FORBIDDEN = "widget", "impossible", "used", "taken", "forbidden"
AGENT = RequestContext(project_id="owner")


@frozen
class EnsureWidget(Request[str]):
    """Return the id of the widget with that name, made unless it exists."""

    name: str


class WidgetHandler(DocumentHandler):
    """Widgets; some names are special."""

    def __init__(self) -> None:
        super().__init__(WIDGET)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        if any(body["name"] == IMPOSSIBLE for body in bodies):
            raise InvalidInput({"name": "there are no impossible widgets"})
        return super().create(unit, bodies)

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        if body.get("name") == TAKEN:
            raise Conflict("another widget is called so")
        return super().do_update(unit, before, body)

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        if before["name"] == USED:
            raise Conflict("a port uses the widget")
        super().do_delete(unit, before)


class FakeServicePlugin(HandlerPlugin, ServicePlugin):
    """Plugin of widgets."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, [WidgetHandler()])

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("widgets")

    def validate(self, change: Change) -> None:
        if isinstance(change.after, Network) and change.after.name == FORBIDDEN:
            raise InvalidInput({"name": "no network is called so"})

    def handle_request(self, request: Request[Any]) -> Any:
        if not isinstance(request, EnsureWidget):
            return super().handle_request(request)
        if request.name == IMPOSSIBLE:
            raise InvalidInput({"name": "there are no impossible widgets"})
        found = self.find(AGENT, WIDGET, Query(filters={"name": (request.name,)}))
        return (found or self.create(AGENT, WIDGET, [{"name": request.name}]))[0]["id"]


class FakeServicePluginConformance(ServicePluginConformance):
    """The suite; ``DRIVER`` is the class of the plugins under test."""

    DRIVER: ClassVar[type[FakeServicePlugin]] = FakeServicePlugin

    def make_plugin(self, host: HostResources) -> FakeServicePlugin:
        return self.DRIVER.from_conf({}, host)

    def resource_name(self) -> str:
        return WIDGET

    def body(self, environment: At) -> Body:
        return {"name": f"widget {next(self.numbers)}", "description": "of the suite"}

    def impossible_body(self, environment: At) -> Body | None:
        return {"name": IMPOSSIBLE}

    def contradiction(self, environment: At) -> tuple[str, Body] | None:
        return str(self.create(environment)["id"]), {"name": TAKEN}

    def used_resource(self, environment: At) -> str | None:
        body = {"name": USED, "project_id": "owner"}
        (made,) = environment.plugin.create(AGENT, WIDGET, [body])
        return str(made["id"])

    def member_action(self, environment: At) -> MemberAction | None:
        id = str(self.create(environment)["id"])
        return MemberAction(id=id, action="add_tags", body={"tags": ["gold"]})

    def impossible_action(self, environment: At) -> MemberAction | None:
        id = str(self.create(environment)["id"])
        return MemberAction(id=id, action="remove_tags", body={"tags": ["gold"]})

    def unacceptable(self, environment: At) -> Change | None:
        return samples.change(None, evolve(samples.NETWORK, name=FORBIDDEN))

    def agent_request(self, environment: At) -> Request[Any] | None:
        return EnsureWidget("first")

    def impossible_request(self, environment: At) -> Request[Any] | None:
        return EnsureWidget(IMPOSSIBLE)
