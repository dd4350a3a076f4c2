"""The OpenAPI document against the running server, with requests drawn from the document."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
import schemathesis
from attrs import field, frozen
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from netfw.testing.lab import sandbox
from tests.system.server.environment import RunningServer, running_server

LONG = bool(os.environ.get("NETFW_LONG"))
EXAMPLES = 100 if LONG else 4
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
Ids = dict[str, list[str]]
Case = schemathesis.Case[Any]

schemathesis.openapi.format(
    "ip-prefix",
    st.one_of(
        st.builds("10.{}.{}.0/24".format, st.integers(0, 255), st.integers(0, 255)),
        st.builds("fd00:{:x}::/64".format, st.integers(0, 65535)),
    ),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server of its own: generated requests may delete what other tests need."""
    sandbox.require()
    with running_server(tmp_path_factory.mktemp("openapi"), 9697) as found:
        yield found
        assert "Traceback" not in found.log, found.log


@frozen
class Requests:
    """Requests of one operation, on resources that exist where the document has ids."""

    ids: Ids
    statuses: Counter[int] = field(factory=Counter)

    def send(self, case: Case, choice: int) -> None:
        self._use_known_ids(case, choice)
        response = case.call()
        self.statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)
        if response.status_code == 400:
            error = response.json()["NeutronError"]
            assert "unknown attribute" not in error["message"], error

    def _use_known_ids(self, case: Case, choice: int) -> None:
        parameters: dict[str, Any] = case.path_parameters
        for collection, name in re.findall(r"/([\w-]+)/\{(\w+)\}", case.operation.path):
            if found := self.ids.get(collection):
                parameters[name] = found[choice % len(found)]
        if isinstance(case.body, dict):
            case.body = _replaced(case.body, self.ids, choice)


def _replaced(value: Any, ids: Ids, choice: int) -> Any:
    """Return *value* with known ids under names like ``network_id``."""
    if isinstance(value, list):
        return [_replaced(each, ids, choice + at) for at, each in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    return {name: _with_id(name, each, ids, choice) for name, each in value.items()}


def _with_id(name: str, value: Any, ids: Ids, choice: int) -> Any:
    kind = next((each for each in _KINDS if name.endswith(f"{each}_id")), None)
    known = ids.get(_KINDS[kind], []) if kind else []
    if known and isinstance(value, str) and choice % 3:
        return known[choice % len(known)]
    return _replaced(value, ids, choice)


_KINDS = {
    "network": "networks",
    "subnet": "subnets",
    "port": "ports",
    "router": "routers",
    "security_group": "security-groups",
}


def _prepare(url: str) -> Ids:
    """Create some of each resource; return the ids by collection."""
    ids: Ids = defaultdict(list)

    def make(collection: str, **attributes: Any) -> str:
        singular = collection.removesuffix("s").replace("-", "_")
        reply = requests.post(f"{url}/v2.0/{collection}", json={singular: attributes}, timeout=60)
        assert reply.status_code == 201, reply.text
        ids[collection].append(reply.json()[singular]["id"])
        return ids[collection][-1]

    outside = make("networks", **{"router:external": True})
    make("subnets", network_id=outside, cidr="192.0.2.0/24")
    for number in range(2):
        network = make("networks")
        subnet = make("subnets", network_id=network, cidr=f"10.255.{number}.0/24")
        router = make("routers", external_gateway_info={"network_id": outside})
        url_of = f"{url}/v2.0/routers/{router}/add_router_interface"
        assert requests.put(url_of, json={"subnet_id": subnet}, timeout=60).ok
        port = make("ports", network_id=network)
        make("floatingips", floating_network_id=outside, port_id=port)
        make("floatingips", floating_network_id=outside)
        make("security-groups", name="some")
    return ids


def _send_some(operation: Any, ids: Ids) -> Counter[int]:
    """Send requests of one operation; return how many were answered with each status."""
    sent = Requests(ids)

    @settings(
        max_examples=EXAMPLES,
        derandomize=not LONG,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), choice=st.integers(0, 1000))
    def send(case: Case, choice: int) -> None:
        sent.send(case, choice)

    send()
    return sent.statuses


@pytest.mark.nightly
@pytest.mark.spec("API-20")
@pytest.mark.timeout(3600 if LONG else 600)
def test_the_server_answers_as_its_document_says(running: RunningServer) -> None:
    document = schemathesis.openapi.from_url(f"{running.url}/v2.0/openapi.json")
    ids = _prepare(running.url)
    found: dict[str, Counter[int]] = {}
    for result in document.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]  # an error would raise here
        found[operation.label] = _send_some(operation, ids)
    assert len(found) > 100
    accepted = [label for label, statuses in found.items() if min(statuses) < 300]
    assert len(accepted) > len(found) / 3, found
