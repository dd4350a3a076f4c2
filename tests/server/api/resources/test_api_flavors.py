"""Flavors of routers, their service profiles, and the providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from netfw.drivers.server.query import RequestContext
from netfw.errors import NotSupported
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.flavors.flavors import FlavorsPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.core_client import statements


@pytest.fixture
def admin(plugins: list[HandlerPlugin]) -> Client:
    context = plugins[0].context
    return api([*plugins, RouterPlugin(context), FlavorsPlugin(context)]).as_("root/admin")


def flavor(admin: Client, driver: str = "", **attributes: Any) -> dict[str, Any]:
    """Make a flavor; *driver*: with a profile that names it."""
    made = admin.make("flavors", service_type="L3_ROUTER_NAT", **attributes)
    if driver:
        profile = admin.make("service_profiles", driver=driver)["id"]
        assert associate(admin, made["id"], profile).status == 201
    return made


def associate(admin: Client, flavor: str, profile: str) -> Reply:
    return admin.post(f"flavors/{flavor}/service_profiles", {"service_profile": {"id": profile}})


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


@pytest.mark.spec("API-07")
def test_a_flavor_decides_what_a_router_is(admin: Client) -> None:
    alice = admin.as_("alice/member")
    paths = "neutron.services.l3_router.service_providers.dvr.DvrDriver"
    for driver, distributed in (("single_node", False), ("dvr", True), (paths, True)):
        made = flavor(admin, driver, name=driver[:20])
        assert alice.get(f"flavors/{made['id']}").json["flavor"]["name"] == driver[:20]
        router = alice.make("routers", flavor_id=made["id"])
        assert router["flavor_id"] == made["id"]
        shown = admin.get(f"routers/{router['id']}").json["router"]
        assert (shown["ha"], shown["distributed"]) == (False, distributed)


@pytest.mark.spec("API-07")
def test_a_flavor_and_flags_exclude_each_other(admin: Client) -> None:
    made = flavor(admin, "single_node")["id"]
    reply = admin.post("routers", {"router": {"flavor_id": made, "distributed": True}})
    assert refused(reply) == (400, "InvalidInput")
    router = admin.make("routers", flavor_id=made, admin_state_up=False)["id"]
    reply = admin.put(f"routers/{router}", {"router": {"distributed": True}})
    assert refused(reply) == (400, "InvalidInput")
    assert admin.put(f"routers/{router}", {"router": {"distributed": False}}).status == 200


@pytest.mark.spec("API-07")
def test_flavors_that_make_no_router_are_refused(admin: Client) -> None:
    def router(id: str) -> tuple[int, str]:
        return refused(admin.post("routers", {"router": {"flavor_id": id}}))

    assert router(str(uuid4())) == (404, "FlavorNotFound")
    assert router(flavor(admin)["id"]) == (404, "ServiceProfileNotFound")
    assert router(flavor(admin, "dvr", enabled=False)["id"]) == (409, "FlavorDisabled")
    made = flavor(admin, "dvr")["id"]
    (profile,) = admin.get(f"flavors/{made}").json["flavor"]["service_profiles"]
    admin.put(f"service_profiles/{profile}", {"service_profile": {"enabled": False}})
    assert router(made) == (409, "FlavorDisabled")


@pytest.mark.spec("API-07")
def test_what_is_in_use_stays(admin: Client) -> None:
    made = flavor(admin, "dvr")["id"]
    router = admin.make("routers", flavor_id=made)["id"]
    (profile,) = admin.get(f"flavors/{made}").json["flavor"]["service_profiles"]
    assert refused(admin.delete(f"flavors/{made}")) == (409, "FlavorInUse")
    assert refused(admin.delete(f"service_profiles/{profile}")) == (409, "ServiceProfileInUse")
    changed = admin.put(f"service_profiles/{profile}", {"service_profile": {"driver": "ha"}})
    assert refused(changed) == (409, "ServiceProfileInUse")
    assert admin.delete(f"routers/{router}").status == 204
    assert admin.delete(f"flavors/{made}/service_profiles/{profile}").status == 204
    assert admin.delete(f"service_profiles/{profile}").status == 204
    assert admin.delete(f"flavors/{made}").status == 204


@pytest.mark.spec("API-07")
def test_associations_are_checked(admin: Client) -> None:
    made = flavor(admin, "dvr")["id"]
    (profile,) = admin.get(f"flavors/{made}").json["flavor"]["service_profiles"]
    again = associate(admin, made, profile)
    assert refused(again) == (409, "FlavorServiceProfileBindingExists")
    other = admin.make("service_profiles", metainfo="{}")["id"]
    gone = admin.delete(f"flavors/{made}/service_profiles/{other}")
    assert refused(gone) == (404, "FlavorServiceProfileBindingNotFound")
    assert refused(associate(admin, made, str(uuid4()))) == (404, "ServiceProfileNotFound")
    listed = admin.get(f"flavors/{made}/service_profiles").json["service_profiles"]
    assert [each["id"] for each in listed] == [profile]


@pytest.mark.spec("API-07")
def test_the_profiles_of_a_flavor_are_one_statement(
    admin: Client, plugins: list[HandlerPlugin]
) -> None:
    made = flavor(admin)["id"]
    profiles = [admin.make("service_profiles", driver="dvr")["id"] for _ in range(4)]
    reads = []
    for each in sorted(profiles, reverse=True):
        associate(admin, made, each)
        with statements(plugins[0].context.database, begins=False) as recorded:
            listed = admin.get(f"flavors/{made}/service_profiles").json["service_profiles"]
        reads.append(len(recorded))
    assert [each["id"] for each in listed] == sorted(profiles, reverse=True)
    assert len(set(reads)) == 1, reads


@pytest.mark.spec("API-07")
def test_a_change_locks_a_row_once(admin: Client, plugins: list[HandlerPlugin]) -> None:
    def reads(reply: Callable[[], Reply]) -> int:
        with statements(plugins[0].context.database, begins=False) as recorded:
            assert reply().status < 400
        ours = [each for each in recorded if "FROM vendor_resources" in each]
        return sum(each.startswith("SELECT") for each in ours)

    made = flavor(admin)["id"]
    own, profiles = f"flavors/{made}", "service_profiles"
    profile = admin.make(profiles, driver="dvr")["id"]
    renamed, described = {"flavor": {"name": "n"}}, {"service_profile": {"description": "d"}}
    assert reads(lambda: admin.put(own, renamed)) == 1
    assert reads(lambda: admin.put(f"{profiles}/{profile}", described)) == 1
    assert reads(lambda: associate(admin, made, profile)) == 3, "the parent, and one lock of each"
    assert reads(lambda: admin.delete(f"{own}/{profiles}/{profile}")) == 2, "the parent, and a lock"
    assert reads(lambda: admin.delete(f"{profiles}/{profile}")) == 2, "a lock, and the flavors"
    assert reads(lambda: admin.delete(own)) == 1


@pytest.mark.spec("API-07")
def test_profiles_name_a_provider(admin: Client) -> None:
    def profile(**attributes: Any) -> tuple[int, str]:
        return refused(admin.post("service_profiles", {"service_profile": attributes}))

    assert profile() == (400, "ServiceProfileEmpty")
    assert profile(driver="mine.Driver") == (404, "ServiceProfileDriverNotFound")
    wrong = admin.post("flavors", {"flavor": {"service_type": "COFFEE"}})
    assert refused(wrong) == (400, "InvalidInput")


@pytest.mark.spec("API-07")
def test_members_see_flavors_and_providers_only(admin: Client) -> None:
    made = flavor(admin, "dvr")["id"]
    alice = admin.as_("alice/member")
    assert [each["id"] for each in alice.list("flavors")] == [made]
    assert alice.list("service_profiles") == []
    reply = alice.post("flavors", {"flavor": {"service_type": "L3_ROUTER_NAT"}})
    assert refused(reply) == (403, "PolicyNotAuthorized")
    providers = alice.get("service-providers").json["service_providers"]
    assert [each["name"] for each in providers if each["default"]] == ["single_node"]
    assert len(providers) == 4


@pytest.mark.spec("API-07")
def test_providers_are_listed_only(admin: Client, plugins: list[HandlerPlugin]) -> None:
    assert admin.get("service-providers/ha").status == 405
    requester = RequestContext(project_id="root", admin=True)
    with pytest.raises(NotSupported, match="in lists only"):
        FlavorsPlugin(plugins[0].context).show(requester, "service_provider", "ha")


@pytest.mark.spec("API-06")
def test_flavors_are_sorted_by_numbers_as_numbers(admin: Client) -> None:
    few, many = flavor(admin, name="few")["id"], flavor(admin, name="many")["id"]
    for count, id in ((9, few), (10, many)):
        for at in range(1, count):
            admin.put(f"flavors/{id}", {"flavor": {"description": str(at)}})
    assert admin.names("flavors", sort_key="revision_number") == ["few", "many"]
    assert admin.names("flavors", sort_key="revision_number", sort_dir="desc") == ["many", "few"]


@pytest.mark.spec("API-07")
def test_a_profile_is_disassociated_by_an_id_in_upper_case(admin: Client) -> None:
    made = flavor(admin, "dvr")["id"]
    (profile,) = admin.get(f"flavors/{made}/service_profiles").json["service_profiles"]
    path = f"flavors/{made}/service_profiles/{profile['id'].upper()}"
    assert admin.delete(path).status == 204
    assert admin.get(f"flavors/{made}").json["flavor"]["service_profiles"] == []


@pytest.mark.spec("API-07")
def test_service_profiles_of_a_flavor_are_read_in_pages(admin: Client) -> None:
    made = flavor(admin)["id"]
    profiles = [admin.make("service_profiles", driver="dvr")["id"] for _ in range(3)]
    for each in profiles:
        assert associate(admin, made, each).status == 201
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    for _ in range(4):
        page = admin.get(f"flavors/{made}/service_profiles", **query).json
        seen += [each["id"] for each in page["service_profiles"]]
        query["marker"] = seen[-1]
    assert seen == profiles
    assert "next" not in {each["rel"] for each in page.get("service_profiles_links", ())}
