"""What a request can cost: the memory that it leaves behind, and how work grows with its size."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from oslo_config.cfg import ConfigOpts
from sqlalchemy import Engine, event
from sqlalchemy.sql.compiler import SQLCompiler

from netfw.conf.api import API, GROUP
from netfw.model.router_firewall import MAX_FIREWALL_RULES
from netfw.model.security_group import MAX_ADDRESSES
from netfw.model.subnet_pool import MAX_PREFIXES
from netfw.model.wire.codec import Listed
from netfw.server.api.config import request_limits
from netfw.server.api.resources import RESOURCES
from netfw.server.api.resources.trunks import MAX_SUB_PORTS
from tests.server.api.environment import Client

MIB = 1024 * 1024
TAG_FILTERS = ("tags", "not-tags", "tags-any", "not-tags-any")
SORT_KEYS = ("name", "description", "status", "project_id", "device_id", "device_owner")
SORT_KEYS += ("network_id", "mac_address", "admin_state_up", "created_at", "updated_at")


def memory_kept(requests: Iterable[Callable[[], object]]) -> int:
    """Return the bytes that are allocated and not released while *requests* are made."""
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for request in requests:
            request()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def resident() -> int:
    """Return the bytes of this process in memory, those of SQLite included."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def tags(count: int) -> str:
    return ",".join(f"{at}" for at in range(count))


@pytest.mark.nightly
@pytest.mark.parametrize("name", TAG_FILTERS)
def test_filters_by_many_tags_leave_no_memory_behind(client: Client, name: str) -> None:
    client.list("networks", (name, "a"))
    requests = [lambda n=n: client.get("networks", (name, tags(n))) for n in range(390, 400)]
    assert memory_kept(requests) < 4 * MIB


@pytest.mark.parametrize("name", TAG_FILTERS)
def test_any_number_of_tags_is_one_subquery(client: Client, name: str) -> None:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        statements.append(sql)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        for count in (1, 2, 100):
            client.list("networks", (name, tags(count)))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    by_tags = [sql for sql in statements if "FROM tags" in sql]
    assert [sql.count("SELECT tags.resource_id") for sql in by_tags] == [1, 1, 1]


@pytest.mark.parametrize("name", TAG_FILTERS)
def test_a_filter_by_too_many_tags_is_refused(client: Client, name: str) -> None:
    for pairs in ([(name, tags(1000))], [(name, tags(60)), (name, tags(60))]):
        reply = client.get("networks", *pairs)
        message = f"{name}: more than 100 tags in one filter"
        assert (reply.status, reply.error["message"]) == (400, message)


def test_filters_by_tags_find_the_networks_that_have_them(client: Client) -> None:
    for name, given in (("a", ["x"]), ("ab", ["x", "y"]), ("none", []), ("c", ["z"])):
        client.network(name=name, tags=given)

    def names(*pairs: tuple[str, str]) -> list[str]:
        return sorted(client.names("networks", *pairs))

    assert names(("tags", "x,y")) == names(("tags", "x"), ("tags", "y,x")) == ["ab"]
    assert names(("tags", "x")) == names(("tags", "x,x")) == ["a", "ab"]
    assert names(("tags", "x,z")) == names(("tags", "")) == []
    assert names(("not-tags", "x,y")) == ["a", "c", "none"]
    assert names(("tags-any", "y,z")) == ["ab", "c"]
    assert names(("not-tags-any", "y,z")) == ["a", "none"]


@pytest.mark.nightly
def test_statements_of_many_orders_are_not_kept(client: Client) -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, SQLCompiler) for each in gc.get_objects())

    network = client.network(name="n")["id"]
    marker = client.make("ports", network_id=network)["id"]
    random, before = Random(1), kept()
    for _ in range(75):
        keys = random.sample(SORT_KEYS, len(SORT_KEYS))
        order = [("sort_key", key) for key in keys]
        client.list("ports", *order, ("marker", marker), ("limit", "9"))
    assert kept() - before < 110, "each request has two statements of its own"


@pytest.mark.nightly
def test_lists_by_many_ids_leave_no_memory_behind(client: Client) -> None:
    def request(count: int) -> None:
        client.list("ports", *(("id", f"{at}") for at in range(count)))

    request(1000)
    before = resident()
    for count in range(870, 1000):
        request(count)
    assert resident() - before < 20 * MIB


def test_parts_of_addresses_are_few(client: Client) -> None:
    pairs = [("fixed_ips", f"ip_address_substr={at}") for at in range(17)]
    assert client.list("ports", *pairs[:16]) == []
    reply = client.get("ports", *pairs)
    message = "fixed_ips: has more than 16 times ip_address_substr"
    assert (reply.status, reply.error["message"]) == (400, message)


def growth(run: Callable[[int], object], size: int) -> float:
    """Return how much more CPU time *run* takes for eight times *size*: 8 if it is linear."""

    def cpu(size: int) -> float:
        best = float("inf")
        for _ in range(5):
            before = time.thread_time()
            run(size)
            best = min(best, time.thread_time() - before)
        return best

    return cpu(8 * size) / cpu(size)


def duplicates(count: int) -> bytes:
    """Return an object whose last two names are the same."""
    names = [*range(count), count - 1]
    return b"{" + b",".join(b'"%d":1' % name for name in names) + b"}"


def endless_string(count: int) -> bytes:
    """Return a string of quotes in escapes, without an end."""
    return b"[]" * 24 + b'"' + b'\\"' * count


@pytest.mark.parametrize("body", [duplicates, endless_string])
def test_parsing_takes_time_in_proportion_to_the_body(
    client: Client, body: Callable[[int], bytes]
) -> None:
    def post(count: int) -> None:
        assert client.raw("POST", "/v2.0/networks", body(count)).status == 400

    assert growth(post, 2000) < 24


def searches(run: Callable[[], object]) -> int:
    """Return how often *run* searches for similar names."""
    count = 0

    def note(frame: FrameType, what: str, _: object) -> None:
        nonlocal count
        count += what == "call" and frame.f_code.co_name == "get_close_matches"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_few_unknown_names_of_a_request_are_searched_for(client: Client) -> None:
    unknown = {f"fixed_ipz{at}": 1 for at in range(100)}
    nested = {name: [unknown] * 50 for name in ("fixed_ips", "extra_dhcp_opts")}
    body = json.dumps({"port": {**nested, **unknown}}).encode()
    replies = []
    assert searches(lambda: replies.append(client.raw("POST", "/v2.0/ports", body))) <= 48
    query = [(f"nmae{at}", "x") for at in range(900)]
    assert searches(lambda: replies.append(client.get("ports", *query))) <= 16
    assert [(reply.status, len(reply.data) < 10_000) for reply in replies] == [(400, True)] * 2


BY_OPTION = {"allowed_address_pairs", "dns_nameservers", "host_routes", "routes"}
"""Lists with an option for their length."""


def list_limits(codec: Any) -> list[int]:
    """Return the limits of the lists within *codec*."""
    inner = getattr(codec, "codec", None)
    return [
        *([codec.limit] if isinstance(codec, Listed) else []),
        *(list_limits(inner) if inner else []),
    ]


def test_every_list_of_a_request_is_bounded() -> None:
    found = {
        f"{resource.name}.{attribute.name}": list_limits(attribute.codec)
        for resource in RESOURCES
        for attribute in resource.attributes
        if (attribute.create or attribute.update) and attribute.name not in BY_OPTION
    }
    lists = {name: limits for name, limits in found.items() if limits}
    large = {name: limits for name, limits in lists.items() if max(limits) > 64}
    assert large == {
        "address_group.addresses": [MAX_ADDRESSES],
        "firewall_policy.firewall_rules": [MAX_FIREWALL_RULES],
        "subnetpool.prefixes": [MAX_PREFIXES],  # an update names all that the pool has
        "trunk.sub_ports": [MAX_SUB_PORTS],
    }
    assert {"network.tags", "port.extra_dhcp_opts", "subnet.service_types"} <= lists.keys()


def test_a_resource_cannot_be_made_with_more_tags_than_it_can_have(client: Client) -> None:
    many = [f"t{at}" for at in range(51)]
    reply = client.post("networks", {"network": {"tags": many}})
    assert (reply.status, reply.error["message"]) == (400, "tags: more than 50 entries")
    assert len(client.network(tags=many[:50])["tags"]) == 50


def test_a_page_is_bounded_unless_the_operator_says_otherwise() -> None:
    conf = ConfigOpts()
    conf.register_opts(API, GROUP)
    conf([], project="netfw", default_config_files=[])
    assert request_limits(conf).page == 1000
