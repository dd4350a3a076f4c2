"""A vendor's resources, beside netfw's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import pytest

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_extension import (
    Action,
    ApiExtension,
    ExtensionInfo,
    PolicyRule,
    ResourceDeclaration,
    Verb,
)
from netfw.drivers.server.attribute import Attribute, AttributeType, Value
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import ConfigError, NotFound, NotSupported
from netfw.server.api.resource_registry import build
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, api


def even(value: Value) -> None:
    if not isinstance(value, int) or value % 2:
        raise ValueError("must be even")


TAP = ResourceDeclaration(
    name="tap",
    collection="taps",
    attributes=(
        Attribute(name="name", type=AttributeType.TEXT, default=""),
        Attribute(name="port_id", type=AttributeType.UUID, required=True, mutable=False),
        Attribute(name="rate", type=AttributeType.INTEGER, default=10, check=even),
        Attribute(name="target", type=AttributeType.ADDRESS, nullable=True),
        Attribute(name="rack", type=AttributeType.TEXT, default="", admin_only=True),
        Attribute(name="state", type=AttributeType.TEXT, settable=False, mutable=False),
        Attribute(name="labels", type=AttributeType.TEXTS, default=("a", "b")),
    ),
    actions=(Action(name="mute", attributes=(Attribute(name="on", type=AttributeType.BOOLEAN),)),),
    quota=7,
)
MIRROR = ResourceDeclaration(
    name="mirror",
    collection="mirrors",
    parent="tap",
    attributes=(Attribute(name="host", type=AttributeType.TEXT, required=True),),
    verbs=frozenset({Verb.CREATE, Verb.SHOW, Verb.DELETE}),
)


class TapExtension(ApiExtension):
    """Declares taps."""

    VERSION: ClassVar[int] = 2

    def __init__(
        self, *declared: ResourceDeclaration, alias: str = "tap", needs: Sequence[str] = ()
    ) -> None:
        self._declared, self._alias = declared or (TAP, MIRROR), alias
        self._needs = frozenset(needs)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo(self._alias)

    def info(self) -> ExtensionInfo:
        return ExtensionInfo(
            alias=self._alias, name="Taps", description="", updated="2026-01-01T00:00:00Z"
        )

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return self._declared

    def policies(self) -> tuple[PolicyRule, ...]:
        rules = {
            "create_tap": "rule:member",
            "get_tap": "rule:reader",
            "update_tap": "rule:member",
            "get_tap:state": "rule:admin",
            "mute": "rule:member",
        }
        return tuple(
            PolicyRule(name=name, check=check, description="") for name, check in rules.items()
        )

    def requires(self) -> frozenset[str]:
        return self._needs


class TapPlugin(ResourcePlugin):
    """Keeps taps and mirrors in memory, as a vendor's plugin might in a device."""

    VERSION: ClassVar[int] = 2

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[tuple[Any, ...]] = []

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("taps")

    @property
    def resource_names(self) -> frozenset[str]:
        return frozenset({"tap", "mirror"})

    def create(
        self, requester: RequestContext, name: str, bodies: Sequence[Body]
    ) -> tuple[Body, ...]:
        made = []
        for body in bodies:
            row = {**body, "id": f"{name}{len(self.rows)}", "state": "fine"}
            parent = f"{row['tap_id']}/" if name == "mirror" else ""
            self.rows[name, parent + row["id"]] = row
            made.append(row)
        return tuple(made)

    def update(
        self, requester: RequestContext, name: str, id: str, body: Body, revision: int | None = None
    ) -> Body:
        self.rows[name, id] |= body
        return self.show(requester, name, id)

    def delete(
        self, requester: RequestContext, name: str, id: str, revision: int | None = None
    ) -> None:
        self.show(requester, name, id)
        del self.rows[name, id]

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        return tuple(
            row
            for (kind, _), row in self.rows.items()
            if kind == name and all(row[key] in some for key, some in query.filters.items())
        )

    def show(self, requester: RequestContext, name: str, id: str) -> Body:
        try:
            return self.rows[name, id]
        except KeyError:
            raise NotFound(f"there is no {name} {id}") from None

    def member_action(
        self, requester: RequestContext, name: str, id: str, action: str, body: Body
    ) -> Body:
        if action != "mute":
            raise NotSupported(f"a {name} has no {action}")
        self.calls.append((name, id, action, dict(body)))
        return {"muted": body["on"]}


PORT = "6f0e1b0c-5d3a-4c62-8f30-7a5a1c1d2e3f"


@pytest.fixture
def taps(plugins: list[HandlerPlugin]) -> tuple[Client, TapPlugin]:
    plugin = TapPlugin()
    return api([*plugins, plugin], extensions=[TapExtension()]), plugin


@pytest.mark.spec("API-12")
def test_a_vendor_s_resource_is_served_like_any_other(taps: tuple[Client, TapPlugin]) -> None:
    client, plugin = taps
    made = client.post("taps", {"tap": {"port_id": PORT.upper(), "target": "2001:DB8::1"}})
    assert made.status == 201, made.data
    assert plugin.rows["tap", "tap0"] == {
        "id": "tap0",
        "project_id": "alice",
        "description": "",
        "tags": [],
        "name": "",
        "port_id": PORT,
        "rate": 10,
        "target": "2001:db8::1",
        "rack": "",
        "state": "fine",
        "labels": ["a", "b"],
    }
    assert "state" not in made.json["tap"], "its rule is for administrators"
    assert client.as_("root/admin").get("taps/tap0").json["tap"]["state"] == "fine"
    for body, message in (
        ({"port_id": PORT, "rate": 3}, "rate: must be even"),
        ({"port_id": PORT, "target": "x"}, "target: not an IP address: 'x'"),
        ({"port_id": PORT, "state": "x"}, "state: cannot be given when it is made"),
        ({}, "port_id: is required"),
    ):
        reply = client.post("taps", {"tap": body})
        assert (reply.status, reply.error["message"]) == (400, message)
    assert client.post("taps", {"tap": {"port_id": PORT, "rack": "r1"}}).status == 403
    assert client.put("taps/tap0", {"tap": {"port_id": PORT}}).status == 400
    assert client.put("taps/tap0", {"tap": {"rate": 4}}).json["tap"]["rate"] == 4
    assert client.delete("taps/tap0").status == 403, "no rule: administrators only"
    muted = client.put("taps/tap0/mute", {"on": "True"})
    assert (muted.status, muted.json) == (200, {"muted": True})
    assert plugin.calls == [("tap", "tap0", "mute", {"on": True})]
    assert len(client.list("taps", rate="4")) == 1
    assert client.list("taps", rate="6") == []
    aliases = [each["alias"] for each in client.get("extensions").json["extensions"]]
    assert "tap" in aliases


@pytest.mark.spec("API-01", "API-12")
def test_a_sub_resource_is_named_by_its_parent_and_itself(taps: tuple[Client, TapPlugin]) -> None:
    client, plugin = taps
    admin = client.as_("root/admin")
    for _ in range(2):
        admin.make("taps", port_id=PORT)
    made = admin.post("taps/tap0/mirrors", {"mirror": {"host": "h1"}})
    assert (made.status, made.json["mirror"]["tap_id"]) == (201, "tap0")
    assert len(admin.get("taps/tap0/mirrors").json["mirrors"]) == 1
    assert admin.get("taps/tap1/mirrors").json == {"mirrors": []}
    assert admin.get("taps/tap9/mirrors").status == 404
    assert admin.get("taps/tap0/mirrors/mirror2").json["mirror"]["host"] == "h1"
    assert admin.get("taps/tap1/mirrors/mirror2").status == 404
    assert admin.put("taps/tap0/mirrors/mirror2", {"mirror": {}}).status == 405
    assert admin.delete("taps/tap0/mirrors/mirror2").status == 204
    assert ("mirror", "tap0/mirror2") not in plugin.rows


@pytest.mark.spec("API-12")
def test_colliding_declarations_are_refused_at_start() -> None:
    def refused(*extensions: ApiExtension, extending: Any = None) -> str:
        with pytest.raises(ConfigError) as caught:
            build(["network", "tap"], api=extensions, extending=extending)
        return str(caught.value)

    other = TapExtension(
        ResourceDeclaration(name="other", collection="networks", attributes=()), alias="other"
    )
    assert refused(other) == (
        "the URL 'networks' is declared by the API itself and by API extension 'other'; "
        "leave out one of them"
    )
    assert "API extension 'tap' and by API extension 'again'" in refused(
        TapExtension(), TapExtension(alias="again")
    )
    same = TapExtension(TAP, alias="provider")
    assert "the alias 'provider' is declared by" in refused(same)
    orphan = TapExtension(MIRROR)
    assert "belongs to 'tap', which is not declared" in refused(orphan)
    assert "requires 'provder', which this server does not have, did you mean 'provider'?" in (
        refused(TapExtension(needs=["provder"]))
    )
    named = ResourceDeclaration(
        name="x",
        collection="xs",
        attributes=(Attribute(name="tags", type=AttributeType.TEXTS),),
    )
    assert "x declares tags, which every resource has" in refused(TapExtension(named))
    more = {"network": (Attribute(name="mtu", type=AttributeType.INTEGER),)}
    assert refused(extending={"jumbo": more}) == (
        "network.mtu is declared by extension driver 'jumbo' and by the API itself; "
        "leave out one of them"
    )
    color = {"network": (Attribute(name="color", type=AttributeType.TEXT),)}
    assert "extension driver 'b' and by extension driver 'a'" in refused(
        extending={"a": color, "b": color}
    )


def test_attributes_of_extension_drivers_and_vendors_quotas_are_part_of_the_api() -> None:
    secure = {
        kind: (Attribute(name="port_security_enabled", type=AttributeType.BOOLEAN, default=True),)
        for kind in ("network", "port")
    }
    catalog = build(
        ["network", "port", "quota", "tap", "mirror"],
        api=[TapExtension()],
        extending={"port_security": secure},
    )
    declared = catalog.resource("network").attribute("port_security_enabled")
    assert declared is not None
    assert declared.default is True
    assert "port-security" in {each.alias for each in catalog.extensions}
    assert catalog.resource("quota").attribute("tap") is not None
    assert catalog.resource("tap").default_quota == 7
