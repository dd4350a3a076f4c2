"""Lists: filters, fields, order and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from netfw.server.api.query_params import TAG_FILTERS
from netfw.server.api.request_body import RequestLimits
from netfw.server.api.resource_registry import build
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, api
from tests.server.core.core_client import statements

A_VALUE = {"fixed_ips": "ip_address=192.0.2.1"}


@pytest.fixture
def three(client: Client) -> Client:
    """Return the client of Alice, who has three networks: c, a, b."""
    for name, up in (("c", True), ("a", False), ("b", True)):
        client.network(name=name, admin_state_up=up)
    return client


@pytest.mark.spec("API-05")
def test_one_filter_repeated_means_or_and_different_ones_mean_and(three: Client) -> None:
    def names(*pairs: tuple[str, str]) -> list[str]:
        return sorted(three.names("networks", *pairs))

    assert names(("name", "a"), ("name", "b")) == ["a", "b"]
    assert names(("name", "a"), ("name", "b"), ("admin_state_up", "True")) == ["b"]
    assert names(("admin_state_up", "false")) == ["a"]
    assert names(("admin_state_up", "0")) == ["a"]
    assert names(("id", "nonsense")) == []
    assert names(("name", "")) == []
    assert names(("description", "")) == ["a", "b", "c"]
    mtu = three.list("networks", name="a")[0]["mtu"]
    assert names(("mtu", str(mtu))) == ["a", "b", "c"]


@pytest.mark.spec("API-09")
def test_by_what_is_not_shown_one_finds_nothing_but_ones_own(client: Client) -> None:
    admin, bob = client.as_("cloud/admin"), client.as_("bob/member")
    shared = admin.network(name="all", shared=True, provider__network_type="vxlan")
    outer = admin.network(name="out", router__external=True)
    mine = client.network(name="mine")
    by_type = {"provider:network_type": "vxlan"}
    assert sorted(admin.names("networks", **by_type)) == ["all", "mine", "out"]
    assert client.names("networks", **by_type) == ["mine"]
    assert bob.names("networks", **by_type) == []
    assert sorted(bob.names("networks")) == ["all", "out"]
    for guess in (shared, outer):
        number = admin.get(f"networks/{guess['id']}").json["network"]["provider:segmentation_id"]
        pairs = [("provider:segmentation_id", str(number)), ("limit", "1")]
        assert client.get("networks", *pairs).json == {"networks": []}
    own = {"project_id": "alice", **by_type}
    assert client.names("networks", **own) == ["mine"]
    assert client.names("networks", **{**own, "project_id": "cloud"}) == []
    port = admin.make("ports", network_id=mine["id"], name="theirs", binding__host_id="h1")
    assert client.names("ports", id=port["id"]) == ["theirs"]
    assert client.names("ports", **{"binding:host_id": "h1"}) == []


@pytest.mark.spec("API-09")
def test_by_what_some_rows_do_not_show_one_finds_only_the_others(
    plugins: list[HandlerPlugin], tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"get_network:provider:segmentation_id": "rule:admin_or_owner"\n')
    alice = api(plugins, policy_file=str(file))
    admin = alice.as_("cloud/admin")
    for name in ("a", "c"):
        admin.network(name=name, shared=True)
    for name in ("b", "d"):
        alice.network(name=name)
    numbers = {each["name"]: each["provider:segmentation_id"] for each in admin.list("networks")}
    shown = {each["name"]: "provider:segmentation_id" in each for each in alice.list("networks")}
    assert shown == {"a": False, "b": True, "c": False, "d": True}
    of_a, *others = [("provider:segmentation_id", str(numbers[name])) for name in "abcd"]
    assert alice.get("networks", of_a, ("limit", "1")).json == {"networks": []}
    by_name = [of_a, *others, ("sort_key", "name"), ("limit", "1")]
    page = alice.get("networks", *by_name).json
    assert [each["name"] for each in page["networks"]] == ["b"]
    following = parse_qsl(urlsplit(page["networks_links"][0]["href"]).query)
    assert alice.names("networks", *following) == ["d"]
    assert admin.names("networks", of_a, *others, ("sort_key", "name")) == ["a", "b", "c", "d"]


@pytest.mark.spec("API-05")
def test_unknown_filters_and_impossible_values_are_refused(three: Client) -> None:
    for pairs, message in (
        ({"nmae": "a"}, "nmae: is not a filter, did you mean 'name'?"),
        ({"admin_state_up": "maybe"}, "admin_state_up: neither true nor false: 'maybe'"),
        ({"sort_key": "nonsense"}, "sort_key: 'nonsense' cannot be sorted by"),
        ({"sort_key": "name", "sort_dir": "up"}, "sort_dir: 'up' is neither asc nor desc"),
        ({"sort_dir": "asc"}, "sort_dir: there are more of them than of sort_key"),
        ({"limit": "-1"}, "limit: '-1' is not a number of rows"),
        ({"marker": "x"}, "marker: 'x' is not the id of a row"),
        ({"page_reverse": "x"}, "page_reverse: neither true nor false: 'x'"),
    ):
        reply = three.get("networks", **pairs)
        assert (reply.status, reply.error["message"]) == (400, message)
    one = three.list("networks")[0]["id"]
    assert three.get(f"networks/{one}", name="a").status == 400


@pytest.mark.spec("API-05")
def test_only_the_fields_that_are_asked_for_are_shown(three: Client) -> None:
    rows = three.list("networks", ("fields", "name"), ("fields", "id"), name="a")
    assert [sorted(row) for row in rows] == [["id", "name"]]
    one = three.get(f"networks/{rows[0]['id']}", ("fields", "name"), ("fields", "shared"))
    assert one.json == {"network": {"name": "a", "shared": False}}


@pytest.mark.spec("API-05")
def test_lists_are_sorted_by_several_keys(three: Client) -> None:
    assert three.names("networks", sort_key="name", sort_dir="desc") == ["c", "b", "a"]
    assert three.names("networks", sort_key="name") == ["a", "b", "c"]
    pairs = (
        ("sort_key", "admin_state_up"),
        ("sort_dir", "asc"),
        ("sort_key", "name"),
        ("sort_dir", "desc"),
    )
    assert three.names("networks", *pairs) == ["a", "c", "b"]


@pytest.mark.spec("API-05")
def test_of_a_sort_key_that_is_there_twice_the_first_counts(three: Client) -> None:
    up = (("sort_key", "name"), ("sort_dir", "asc"))
    down = (("sort_key", "name"), ("sort_dir", "desc"))
    assert three.names("networks", *up, *down) == ["a", "b", "c"]
    assert three.names("networks", *down, *up * 400) == ["c", "b", "a"]


def follow(client: Client, reply: Any, rel: str) -> Any:
    """Return the page behind a link of *reply*, or ``None`` if there is no such link."""
    links = {each["rel"]: each["href"] for each in reply.json.get("networks_links", [])}
    if rel not in links:
        return None
    url = urlsplit(links[rel])
    assert url.netloc == "api.example:9696"
    return client.get(url.path.removeprefix("/v2.0/"), *parse_qsl(url.query))


def names_of(reply: Any) -> list[str]:
    return [each["name"] for each in reply.json["networks"]]


@pytest.mark.spec("API-05")
def test_pages_lead_to_each_other_in_both_directions(client: Client) -> None:
    client.post("networks", {"networks": [{"name": f"n{count}"} for count in range(7)]})
    page = client.get("networks", limit=3, sort_key="name", sort_dir="asc")
    assert names_of(page) == ["n0", "n1", "n2"]
    assert follow(client, page, "previous") is None
    page = follow(client, page, "next")
    assert names_of(page) == ["n3", "n4", "n5"]
    last = follow(client, page, "next")
    assert names_of(last) == ["n6"]
    assert follow(client, last, "next") is None
    back = follow(client, last, "previous")
    assert names_of(back) == ["n3", "n4", "n5"]
    assert names_of(follow(client, back, "previous")) == ["n0", "n1", "n2"]
    assert names_of(follow(client, back, "next")) == ["n6"]


def test_an_operator_s_largest_page_is_never_exceeded(plugins: list[HandlerPlugin]) -> None:
    client = api(plugins, limits=RequestLimits(page=2))
    client.post("networks", {"networks": [{"name": f"n{count}"} for count in range(3)]})
    page = client.get("networks", sort_key="name")
    assert names_of(page) == ["n0", "n1"]
    assert names_of(follow(client, page, "next")) == ["n2"]
    assert len(names_of(client.get("networks", limit=100))) == 2


def test_rows_without_an_id_are_on_one_page(plugins: list[HandlerPlugin]) -> None:
    admin = api(plugins, limits=RequestLimits(page=2)).as_("root/admin")
    for project in ("a", "b", "c"):
        assert admin.put(f"quotas/{project}", {"quota": {"network": 3}}).status == 200
    assert len(admin.get("quotas").json["quotas"]) == 3
    assert set(admin.get("quotas", limit=2).json) == {"quotas"}, "there is no marker for a link"


@pytest.mark.spec("API-05", "API-13")
def test_links_have_the_public_url_whatever_the_host_header_says(
    plugins: list[HandlerPlugin],
) -> None:
    client = api(plugins, public_url="https://cloud.example/network/")
    client.post("networks", {"networks": [{}, {}]})
    page = client.raw("GET", "/v2.0/networks", query="limit=1", HTTP_HOST="evil.example").json
    (link,) = page["networks_links"]
    assert link["href"].startswith("https://cloud.example/network/v2.0/networks?limit=1&marker=")
    for path in ("/", "/v2.0/"):
        reply = client.raw("GET", path, HTTP_HOST="evil.example")
        assert b"evil.example" not in reply.data
        assert b"https://cloud.example/network/v2.0/" in reply.data


@pytest.mark.spec("API-07")
def test_links_name_rows_that_the_requester_sees(
    plugins: list[HandlerPlugin], tmp_path: Path
) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text('"get_network": "rule:admin or True:%(admin_state_up)s"\n')
    client = api(plugins, policy_file=str(rules))
    ups = [True, False, True, False, False, True, False, True]
    names = [f"n{at}" for at in range(len(ups))]
    bodies = [{"name": n, "admin_state_up": up} for n, up in zip(names, ups, strict=True)]
    client.post("networks", {"networks": bodies})
    admin = client.as_("root/admin")
    hidden = {each["id"] for each in admin.list("networks", admin_state_up=False)}
    page, seen = client.get("networks", limit=4, sort_key="name"), []
    while page is not None:
        assert not [each for each in hidden if each.encode() in page.data]
        seen += names_of(page)
        page = follow(client, page, "next")
    assert seen == ["n0", "n2", "n5", "n7"]


@pytest.mark.spec("API-07")
def test_a_page_tells_nothing_of_rows_that_policy_hides(client: Client) -> None:
    for name in ("secret", "plan"):
        client.network(name=name)
    roleless = client.as_("alice/none")
    for filters in ({}, {"name": "secret"}, {"name": "missing"}):
        for back in (False, True):
            page = roleless.get("networks", limit=1, page_reverse=back, **filters)
            assert page.json == {"networks": []}


@pytest.mark.spec("API-07")
def test_rows_that_policy_hides_in_any_case_are_not_read(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    client.network()
    with statements(plugins[0].context.database) as seen:
        assert client.get("agents", limit=1).json == {"agents": []}
    assert seen == []


@pytest.mark.spec("API-05")
def test_every_filter_and_order_that_is_declared_works(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    admin = client.as_("root/admin")
    kept = [name for plugin in plugins for name in plugin.resource_names]
    tried = 0
    for resource in build(kept).resources:
        if resource.parent is not None or not resource.listed:
            continue
        tags = TAG_FILTERS if resource.tags else ()
        for name in (*(each.name for each in resource.attributes if each.filterable), *tags):
            attribute = resource.attribute(name)
            flag = attribute is not None and attribute.codec.parse.__name__ == "_parse_flag"
            value = "true" if flag else A_VALUE.get(name, "7")
            reply = admin.get(resource.collection, (name, value))
            assert reply.status == 200, (resource.name, name, reply.data)
            tried += 1
        for attribute in resource.attributes:
            if attribute.sortable:
                reply = admin.get(resource.collection, sort_key=attribute.name, sort_dir="asc")
                assert reply.status == 200, (resource.name, attribute.name, reply.data)
    assert tried > 60
