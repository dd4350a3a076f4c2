"""A vendor's resources that the server stores itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import pytest

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.api_extension import (
    ApiExtension,
    ExtensionInfo,
    PolicyRule,
    ResourceDeclaration,
    Verb,
)
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.server.core.document_handler import DocumentsPlugin
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, api
from tests.server.api.response_schemas import schema_problems
from tests.server.core.core_client import statements

VIP = ResourceDeclaration(
    name="vip",
    collection="vips",
    attributes=(
        Attribute(name="name", type=AttributeType.TEXT, default=""),
        Attribute(name="secret", type=AttributeType.TEXT, default="", admin_only=True),
    ),
    quota=2,
)
PART = ResourceDeclaration(
    name="part",
    collection="parts",
    attributes=(Attribute(name="name", type=AttributeType.TEXT, default=""),),
    parent="vip",
    quota=3,
)
"""Sub-resources of a vip."""
NOTE = ResourceDeclaration(
    name="note", collection="notes", attributes=(), parent="network", quota=3
)
"""Sub-resources of a network."""
DECLARED = (VIP, PART, NOTE)


class VipExtension(ApiExtension):
    """Declares virtual addresses."""

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("vips")

    def info(self) -> ExtensionInfo:
        return ExtensionInfo(
            alias="vip", name="Vips", description="", updated="2026-01-01T00:00:00Z"
        )

    def resources(self) -> tuple[ResourceDeclaration, ...]:
        return DECLARED

    def policies(self) -> tuple[PolicyRule, ...]:
        return tuple(
            PolicyRule(name=f"{verb}_{each.name}", check="rule:member", description="")
            for verb in Verb
            for each in DECLARED
        )


@pytest.fixture
def vips(plugins: list[HandlerPlugin]) -> Client:
    """Return the client of Alice on a server that stores VIPs."""
    context = plugins[0].context
    context.add_default_quotas(DECLARED)
    return api([*plugins, DocumentsPlugin(context, DECLARED)], extensions=[VipExtension()])


@pytest.mark.spec("API-06", "API-12")
def test_what_a_vendor_declares_is_counted_shown_and_limited_like_all_else(vips: Client) -> None:
    admin = vips.as_("root/admin")
    vips.make("vips")
    assert vips.get("quotas/alice").json["quota"]["vip"] == 2
    details = vips.get("quotas/alice/details").json["quota"]["vip"]
    assert (details["limit"], details["used"]) == (2, 1)
    changed = admin.put("quotas/alice", {"quota": {"vip": 1}})
    assert (changed.status, changed.json["quota"]["vip"]) == (200, 1), changed.data
    refused = vips.post("vips", {"vip": {}})
    assert (refused.status, refused.error["type"]) == (409, "OverQuota")
    assert admin.delete("quotas/alice").status == 204
    vips.make("vips")
    assert vips.post("vips", {"vip": {}}).status == 409


@pytest.mark.spec("API-06")
def test_a_bulk_beyond_the_limit_is_refused_before_anything_is_written(
    vips: Client, plugins: list[HandlerPlugin]
) -> None:
    with statements(plugins[0].context.database) as seen:
        reply = vips.post("vips", {"vips": [{}] * 1000})
        assert (reply.status, reply.error["type"]) == (409, "OverQuota")
        assert not [each for each in seen if each.startswith(("INSERT", "UPDATE"))]
    assert vips.post("vips", {"vips": [{}] * 2}).status == 201


@pytest.mark.spec("API-12")
def test_what_only_administrators_give_only_they_see_and_ask_for(vips: Client) -> None:
    admin = vips.as_("root/admin")
    made = vips.make("vips", name="mine")
    path = f"vips/{made['id']}"
    assert admin.put(path, {"vip": {"secret": "s3"}}).json["vip"]["secret"] == "s3"
    assert "secret" not in made
    assert "secret" not in vips.get(path).json["vip"]
    assert "secret" not in vips.put(path, {"vip": {"name": "same"}}).json["vip"]
    assert vips.list("vips", fields="secret") == [{}]
    for question in ({"secret": "s3"}, {"sort_key": "secret"}):
        refused = vips.get("vips", **question)
        assert (refused.status, "secret: is not shown to you" in refused.error["message"]) == (
            400,
            True,
        )
        assert len(admin.list("vips", **question)) == 1
    assert admin.list("vips", secret="other") == []


@pytest.mark.spec("API-08", "API-12")
def test_tags_are_put_found_and_taken_off(vips: Client) -> None:
    one = vips.make("vips", name="one", tags=["red", "gold"])
    two = vips.make("vips", name="two")
    path = f"vips/{two['id']}/tags"
    assert vips.put(f"{path}/gold").status == 201
    assert vips.get(path).json == {"tags": ["gold"]}
    assert vips.names("vips", tags="gold") == sorted(
        ["one", "two"], key=lambda name: {"one": one, "two": two}[name]["id"]
    )
    assert vips.names("vips", tags="gold,red") == ["one"]
    assert vips.names("vips", ("tags-any", "red,blue")) == ["one"]
    assert vips.names("vips", ("not-tags", "gold,red")) == ["two"]
    assert vips.names("vips", ("not-tags-any", "red,blue")) == ["two"]
    assert vips.put(path, {"tags": ["blue", "blue"]}).json == {"tags": ["blue"]}
    assert vips.get(f"vips/{two['id']}").json["vip"]["revision_number"] == 3
    missing = vips.delete(f"{path}/gold")
    assert (missing.status, missing.error["type"]) == (404, "TagNotFound")
    assert vips.delete(f"{path}/blue").status == 204
    assert vips.delete(f"vips/{one['id']}/tags").status == 204
    assert vips.list("vips", tags="gold") == []
    assert vips.as_("bob/member").put(f"{path}/gold").status == 404
    many = [f"t{number}" for number in range(51)]
    assert vips.put(path, {"tags": many}).status == 400


@pytest.mark.spec("API-01", "API-12")
def test_a_sub_resource_is_found_below_its_own_parent_alone(vips: Client) -> None:
    own, other = vips.make("vips"), vips.make("vips")
    part = vips.post(f"vips/{own['id']}/parts", {"part": {"name": "p"}}).json["part"]
    change = {"part": {"name": "q"}}
    for parent in (other["id"], "nonsense"):
        path = f"vips/{parent}/parts/{part['id']}"
        statuses = {
            "show": vips.get(path).status,
            "update": vips.put(path, change).status,
            "tags": vips.get(f"{path}/tags").status,
            "tag": vips.put(f"{path}/tags/red").status,
            "delete": vips.delete(path).status,
        }
        assert set(statuses.values()) == {404}, (parent, statuses)
    path = f"vips/{own['id'].upper()}/parts/{part['id']}"
    assert vips.get(path).json["part"] == part
    assert vips.put(f"{path}/tags/red").status == 201
    assert vips.get(f"{path}/tags").json == {"tags": ["red"]}
    assert vips.put(path, change).json["part"]["name"] == "q"
    assert vips.delete(path).status == 204


@pytest.mark.spec("API-06", "API-12")
@pytest.mark.parametrize(("parents", "children"), [("vips", "parts"), ("networks", "notes")])
def test_sub_resources_are_deleted_and_not_counted_any_more_with_their_parent(
    vips: Client, parents: str, children: str
) -> None:
    child = children.removesuffix("s")

    def used() -> int:
        return int(vips.get("quotas/alice/details").json["quota"][child]["used"])

    own, other = vips.make(parents), vips.make(parents)
    vips.post(f"{parents}/{own['id']}/{children}", {children: [{}, {}]})
    kept = vips.post(f"{parents}/{other['id']}/{children}", {child: {}}).json[child]
    assert used() == 3
    assert vips.delete(f"{parents}/{own['id']}").status == 204
    assert used() == 1
    left = vips.get(f"{parents}/{other['id']}/{children}").json[children]
    assert [each["id"] for each in left] == [kept["id"]]


@pytest.mark.spec("API-12", "API-20")
def test_the_document_has_the_parent_that_a_sub_resource_shows(vips: Client) -> None:
    vip = vips.make("vips")["id"]
    made = vips.post(f"vips/{vip}/parts", {"part": {}})
    assert made.json["part"]["vip_id"] == vip
    assert schema_problems(vips, "POST /vips/{vip_id}/parts", made) == []
