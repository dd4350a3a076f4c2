"""Requests that no sane client sends: a clear refusal, and never a traceback."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netfw.server.api.request_body import RequestLimits
from netfw.server.api.resources import RESOURCES
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, Reply, api


def posted(client: Client, data: bytes, **headers: Any) -> Reply:
    return client.raw("POST", "/v2.0/networks", data, **headers)


@pytest.mark.spec("API-13", "API-04")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[]", "is no object"),
        (b"7", "is no object"),
        (b'{"network": {}, "network": {}}', "'network' is there twice"),
        (b'{"network": {"name": NaN}}', "NaN is no JSON"),
        (b'{"network": {"name": -Infinity}}', "Infinity is no JSON"),
        (b'{"network": {"mtu": 1' + b"0" * 5000 + b"}}", "number without end"),
        (b'{"network": {"mtu": 1e999}}', "not a whole number"),
        (b'{"network": {"name": "\\ud800"}}', "control character"),
        (b'{"network": {"name": "a\\u0000b"}}', "control character"),
        (b'{"network": {"name": "a\\u001b[31m"}}', "control character"),
        (b'{"network": {"\\ud800\\u0000": 1}}', "unknown attribute"),
        (b'{"network": {"name": "' + b"x" * 300 + b'"}}', "longer than 255"),
        (b'{"network": null}', "not an object: null"),
        (b'{"network": [[]]}', "not an object: a list"),
        (b'{"networks": {}}', "is no list"),
        (b'{"networks": []}', "is no list"),
        (b'{"networks": [7]}', "networks[0]: not an object: 7"),
        (b'{"net": {}}', "has no 'network'"),
        (b'{"network": {}, "more": 1}', "has more than 'network'"),
        (b"", "has no 'network'"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested more than"),
        (b"[" * 100_000, "nested more than"),
        (b'{"network": {"tags": ["' + b'","'.join([b"t"] * 300_000) + b'"]}}', "more than 300000"),
    ],
)
def test_bodies_that_make_no_sense_are_refused(unmoved: Client, data: bytes, why: str) -> None:
    reply = posted(unmoved, data)
    assert reply.status == 400, reply.data
    assert why in reply.error["message"]
    assert reply.headers["X-Openstack-Request-Id"].startswith("req-")
    assert unmoved.list("networks") == []


@pytest.mark.spec("API-13")
def test_types_of_bodies_are_checked_where_there_is_a_body(client: Client) -> None:
    body = b'{"network": {}}'
    for good in ("application/json", "application/json; charset=UTF-8", ""):
        assert posted(client, body, CONTENT_TYPE=good).status == 201
    for bad in ("text/xml", "application/json; charset=utf-16", "\x00", "x" * 1000):
        reply = posted(client, body, CONTENT_TYPE=bad)
        assert (reply.status, reply.error["type"]) == (415, "HTTPUnsupportedMediaType")


class Endless(io.RawIOBase):
    """A body that never ends, and counts what is taken of it."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert 0 <= size < 10_000_000, "somebody wants all of it"
        self.taken += size
        return b"[" * size


@pytest.mark.spec("API-13")
def test_bodies_without_end_are_not_read(plugins: list[HandlerPlugin]) -> None:
    client = api(plugins, limits=RequestLimits(body=10_000))
    endless = Endless()
    reply = client.raw(
        "POST",
        "/v2.0/networks",
        CONTENT_LENGTH="",
        HTTP_TRANSFER_ENCODING="chunked",
        **{"wsgi.input": endless},
    )
    assert (reply.status, reply.error["type"]) == (413, "HTTPRequestEntityTooLarge")
    assert endless.taken == 10_001
    for method in ("POST", "GET", "DELETE"):
        reply = client.raw(
            method, "/v2.0/networks", CONTENT_LENGTH="9" * 15, **{"wsgi.input": endless}
        )
        assert reply.status == 413
    assert endless.taken == 10_001
    assert posted(client, b"{}", CONTENT_LENGTH="-1").status == 400
    assert posted(client, b"{}", CONTENT_LENGTH="99").status == 400


@pytest.mark.spec("API-13")
def test_what_a_body_takes_in_memory_is_bounded(client: Client) -> None:
    tracemalloc.start()
    for hostile in (
        b"[" * 4_000_000,
        b'"' * 4_000_000,
        b'{"network": {"name": "' + b"\\\\" * 1_900_000 + b'"}}',
        b'{"a":0,' * 500_000,
    ):
        assert posted(client, hostile).status == 400
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000


@pytest.mark.spec("API-01", "API-04", "API-13")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nonsense", 404),
        ("GET", "/v2.0/nonsense", 404),
        ("GET", "/v3/networks", 404),
        ("GET", "/v2.0/networks/x/y", 404),
        ("GET", "/v2.0/networks/x/tags/y/z", 404),
        ("GET", "/v2.0/networks/" + "x" * 5000, 404),
        ("GET", "/v2.0/networks/%00", 404),
        ("GET", "/v2.0/networks/%ff", 404),
        ("GET", "/v2.0/networks/..%2f..%2fetc", 404),
        ("GET", "/v2.0/ports/x/bindings", 404),
        ("HEAD", "/v2.0/networks", 405),
        ("OPTIONS", "/v2.0/networks", 405),
        ("PATCH", "/v2.0/networks", 405),
        ("DELETE", "/v2.0/networks", 405),
        ("POST", "/v2.0/networks/x", 405),
        ("POST", "/v2.0/agents", 405),
        ("BREW", "/", 405),
        ("POST", "/v2.0/extensions", 405),
        ("PUT", "/v2.0/quotas/alice/default", 405),
    ],
)
def test_unknown_path_is_404_and_wrong_method_405(
    unmoved: Client, method: str, path: str, status: int
) -> None:
    reply = unmoved.raw(method, path)
    assert reply.status == status, reply.data
    assert len(reply.error["message"]) < 300
    if status == 405:
        assert method not in reply.headers["Allow"].split(", ")


@pytest.mark.spec("API-13")
@pytest.mark.parametrize(
    "query",
    [
        "name=%ff",
        "name=%00",
        "%00=1",
        "=1",
        "name=" + "x" * 10_000,
        "&".join(["name=x"] * 5000),
        "x" * 100_000,
        "limit=99999999999999999999",
        "sort_key=" + "%F0%9F%92%A9",
        "fixed_ips=nonsense",
        "marker=" + "%27;drop",
    ],
)
def test_query_strings_that_make_no_sense_are_refused(unmoved: Client, query: str) -> None:
    reply = unmoved.raw("GET", "/v2.0/ports", query=query)
    assert reply.status == 400, reply.data
    assert len(reply.data) < 2000


@pytest.mark.spec("API-04", "API-13")
def test_internal_error_discloses_only_its_request_id(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a secret of the server")

    monkeypatch.setattr(client.app, "_identity", broken)
    reply = client.raw("GET", "/v2.0/networks", HTTP_X_OPENSTACK_REQUEST_ID="req-of-mine")
    assert reply.status == 500
    assert b"secret" not in reply.data
    assert "req-of-mine" in reply.error["message"]
    assert reply.headers["X-Openstack-Request-Id"] == "req-of-mine"
    assert "a secret of the server" in caplog.text


def test_ids_of_requests_that_could_forge_log_lines_are_replaced(client: Client) -> None:
    reply = client.raw("GET", "/v2.0/networks", HTTP_X_OPENSTACK_REQUEST_ID="a b\nERROR")
    assert reply.headers["X-Openstack-Request-Id"].startswith("req-")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(sorted({each.name for one in RESOURCES for each in one.attributes}))


@pytest.mark.spec("API-13")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    collection=st.sampled_from(["networks", "subnets", "ports", "security-groups"]),
    body=st.dictionaries(NAMES, JSON, max_size=5) | JSON,
    several=st.booleans(),
)
def test_whatever_json_says_it_is_no_fault_of_the_server(
    client: Client, collection: str, body: Any, several: bool
) -> None:
    plural = collection.replace("-", "_")
    document = {plural: [body]} if several else {plural.removesuffix("s"): body}
    data = json.dumps(document).encode()
    reply = client.as_("root/admin").raw("POST", f"/v2.0/{collection}", data)
    assert reply.status < 500, (data, reply.data)
    json.loads(reply.data)
