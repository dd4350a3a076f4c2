"""An API over the real plugins on SQLite, called without sockets."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from attrs import frozen

from netfw.drivers.server.api_event import ApiEventSubscriber
from netfw.drivers.server.api_extension import ApiExtension
from netfw.drivers.server.query import RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import Unauthorized
from netfw.server.api.app import Application, make_app
from netfw.server.api.live.page import LivePage
from netfw.server.api.policy.enforcement import RulesPolicy
from netfw.server.api.policy.target import lookup_in
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.resource_registry import build

ROLES: dict[str, set[str]] = {
    "none": set(),
    "reader": {"reader"},
    "member": {"reader", "member"},
    "manager": {"reader", "member", "manager"},
    "admin": {"admin"},
}


def identify(environ: Mapping[str, Any]) -> RequestContext:
    """Return the context of the caller that the test names: ``project/role``."""
    identity = environ.get("HTTP_X_TEST_WHO", "")
    if not identity:
        raise Unauthorized("say who you are in X-Test-Who")
    project, role = identity.split("/")
    return RequestContext(
        project_id=project,
        user=project,
        roles=frozenset(ROLES[role]),
        admin=role == "admin",
        request_id=environ["netfw.request_id"],
    )


@frozen
class Reply:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def error(self) -> dict[str, str]:
        assert set(self.json) == {"NeutronError"}, self.data
        return dict(self.json["NeutronError"])


class Client:
    """Calls the application as a WSGI server does."""

    def __init__(self, app: Application, who: str = "alice/member") -> None:
        self.app, self.who = app, who

    def as_(self, who: str) -> Client:
        return Client(self.app, who)

    def raw(
        self, method: str, path: str, data: bytes = b"", query: str = "", **headers: Any
    ) -> Reply:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path.encode().decode("latin-1"),
            "REQUEST_URI": quote(path, safe="/%:") + (f"?{query}" if query else ""),
            "QUERY_STRING": query,
            "HTTP_HOST": "api.example:9696",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(data),
            "CONTENT_LENGTH": str(len(data)) if data else "",
            **({"HTTP_X_TEST_WHO": self.who} if self.who else {}),
            **headers,
        }
        got: list[Any] = []
        body = b"".join(self.app(environ, lambda *args: got.extend(args)))
        names = [name.lower() for name, _ in got[1]]
        assert len(names) == len(set(names)), got[1]
        return Reply(int(got[0].split()[0]), dict(got[1]), body)

    def get(self, path: str, *pairs: tuple[str, str], **filters: Any) -> Reply:
        return self.raw("GET", f"/v2.0/{path}", query=urlencode([*pairs, *filters.items()]))

    def post(self, path: str, body: Any, **headers: Any) -> Reply:
        return self.raw("POST", f"/v2.0/{path}", json.dumps(body).encode(), **headers)

    def put(self, path: str, body: Any = None, **headers: Any) -> Reply:
        data = b"" if body is None else json.dumps(body).encode()
        return self.raw("PUT", f"/v2.0/{path}", data, **headers)

    def delete(self, path: str, **headers: Any) -> Reply:
        return self.raw("DELETE", f"/v2.0/{path}", **headers)

    def make(self, collection: str, /, **attributes: Any) -> dict[str, Any]:
        """Make one of a collection; ``router__external`` is ``router:external``."""
        singular = collection.removesuffix("s").replace("-", "_")
        named = {name.replace("__", ":"): value for name, value in attributes.items()}
        reply = self.post(collection, {singular: named})
        assert reply.status == 201, reply.data
        return dict(reply.json[singular])

    def network(self, **attributes: Any) -> dict[str, Any]:
        return self.make("networks", **attributes)

    def list(self, collection: str, *pairs: tuple[str, str], **filters: Any) -> list[Any]:
        reply = self.get(collection, *pairs, **filters)
        assert reply.status == 200, reply.data
        return list(reply.json[collection.replace("-", "_")])

    def names(self, collection: str, *pairs: tuple[str, str], **filters: Any) -> list[str]:
        return [each["name"] for each in self.list(collection, *pairs, **filters)]


def api(
    plugins: Sequence[ResourcePlugin],
    *,
    extensions: Sequence[ApiExtension] = (),
    limits: RequestLimits | None = None,
    subscribers: Sequence[ApiEventSubscriber] = (),
    extending: Mapping[str, Any] | None = None,
    policy_file: str | None = None,
    public_url: str = "",
    live: LivePage | None = None,
) -> Client:
    """Return a client of the API of a server with these plugins."""
    kept = {name: plugin for plugin in plugins for name in plugin.resource_names}
    catalog = build(kept, extending=extending, api=extensions)
    policy = RulesPolicy(catalog.resources, lookup_in(kept), path=policy_file)
    return Client(
        make_app(
            catalog,
            plugins,
            policy=policy,
            identity=identify,
            limits=limits,
            subscribers=subscribers,
            public_url=public_url,
            live=live,
        )
    )
