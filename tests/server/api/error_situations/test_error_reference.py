"""The reference of error types has every type that the server can respond with."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import netfw.server
import netfw_drivers
from netfw.errors import InUse, NotFound, RequestError, registry
from netfw.http.http_error import HTTP_TYPES, HttpError
from netfw.server.api.error_reference import error_types, refusals, render_error_types
from netfw.server.api.error_responses import to_response
from netfw.server.api.schema.resource_schema import ApiResource

PACKAGES = (netfw.server, netfw_drivers)
SOURCES = Path(netfw.server.__file__).parent.parent


def _reachable() -> Iterator[type[RequestError]]:
    """Yield every refusal of the server and of its drivers."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." not in module.name:
                importlib.import_module(module.name)
    pending = [RequestError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        is_of_a_vendor = kind.__module__ == registry.__name__
        if kind.__module__.startswith("netfw") and not is_of_a_vendor:
            yield kind


@pytest.mark.spec("API-04")
def test_every_declared_type_is_in_the_reference() -> None:
    page = render_error_types()
    for kind in refusals():
        assert f"| `{kind.api_type}` | " in page, kind
    rows = [row for table in error_types().values() for row in table]
    assert all(word and cause.endswith(".") for word, _, cause in rows)


@pytest.mark.spec("API-04")
def test_every_refusal_of_the_server_has_a_cause_and_a_listed_type() -> None:
    listed = {word for table in error_types().values() for word, _, _ in table}
    for kind in _reachable():
        assert vars(kind).get("__doc__"), f"{kind} has no docstring"
        if kind not in (RequestError, HttpError):
            assert kind.api_type in listed, f"declare {kind} in netfw/errors"


@pytest.mark.spec("API-04")
def test_a_response_has_the_type_of_its_error() -> None:
    for kind in refusals():
        error = kind.__new__(kind)
        Exception.__init__(error, "no")
        error.__dict__["challenge"] = "Token"
        response = to_response(error)
        assert response is not None
        expected = "HTTPNotFound" if kind.__name__ == "NotFound" else kind.api_type
        assert (response.word, response.message) == (expected, "no")


@pytest.mark.spec("API-04")
@pytest.mark.parametrize("name", ["subnet", "traffic_light"])
def test_a_plain_error_of_a_plugin_is_that_of_its_resource(name: str) -> None:
    resource = ApiResource(name=name, collection="things", attributes=())
    noun = {"subnet": "Subnet", "traffic_light": "TrafficLight"}[name]
    for error, word in ((NotFound("no"), "NotFound"), (InUse("no"), "InUse")):
        response = to_response(error, resource)
        assert response is not None
        assert response.word == f"{noun}{word}"


@pytest.mark.spec("API-04")
def test_every_http_error_has_its_status() -> None:
    found = 0
    for folder in ("http", "server"):
        for path in (SOURCES / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Call(
                        func=ast.Name("HttpError"),
                        args=[ast.Constant(int(status)), ast.Constant(str(word)), *_],
                    ):
                        assert HTTP_TYPES[word][0] == status, f"{path}:{node.lineno}"
                        found += 1
    assert found > 5
