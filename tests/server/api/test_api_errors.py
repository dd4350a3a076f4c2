"""Errors as clients get them: a status, a word that they look at, and a sentence."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from netfw.errors import BackendUnavailable
from netfw.http.http_error import HttpError
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, api

SOMEWHERE = str(uuid4())


@pytest.mark.spec("API-04")
def test_the_word_of_an_error_says_what_is_missing_taken_or_in_use(client: Client) -> None:
    network = client.network()
    subnet = client.make("subnets", network_id=network["id"], cidr="192.0.2.0/30")
    port = client.make("ports", network_id=network["id"])
    one = {"network_id": network["id"]}
    for reply, status, word in (
        (client.get(f"ports/{SOMEWHERE}"), 404, "PortNotFound"),
        (client.delete(f"subnets/{SOMEWHERE}"), 404, "SubnetNotFound"),
        (client.post("ports", {"port": {"network_id": SOMEWHERE}}), 404, "NetworkNotFound"),
        (
            client.post(
                "ports", {"port": {**one, "security_groups": [SOMEWHERE], "fixed_ips": []}}
            ),
            404,
            "SecurityGroupNotFound",
        ),
        (client.delete(f"networks/{network['id']}"), 409, "NetworkInUse"),
        (client.delete(f"subnets/{subnet['id']}"), 409, "SubnetInUse"),
        (client.post("ports", {"port": one}), 409, "IpAddressGenerationFailure"),
        (
            client.post("ports", {"port": {**one, "fixed_ips": port["fixed_ips"]}}),
            409,
            "IpAddressAlreadyAllocated",
        ),
        (
            client.post(
                "ports", {"port": {**one, "mac_address": port["mac_address"], "fixed_ips": []}}
            ),
            409,
            "MacAddressInUse",
        ),
    ):
        assert (reply.status, reply.error["type"]) == (status, word), reply.data
        assert reply.error["message"]
        assert reply.headers["Content-Type"] == "application/json"


@pytest.mark.spec("API-04")
def test_unavailable_database_is_503_and_a_bug_500(
    plugins: list[HandlerPlugin], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        raise BackendUnavailable("the database at secret.example does not answer")

    client = api(plugins)
    monkeypatch.setattr(plugins[0], "find", lost)
    reply = client.get("networks")
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert b"secret" not in reply.data


@pytest.mark.spec("API-04")
@pytest.mark.parametrize("fault", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_driver_that_breaks_or_exits_ends_its_request_and_nothing_else(
    plugins: list[HandlerPlugin], monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    def broken(*_: Any) -> Any:
        raise fault("of secret.example")

    client = api(plugins)
    monkeypatch.setattr(plugins[0], "find", broken)
    reply = client.get("networks")
    assert reply.status == 500
    assert b"secret" not in reply.data


def test_what_clients_read_in_messages_is_there(client: Client) -> None:
    group = client.make("security-groups", name="g")
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    refused = client.post(
        "security-group-rules", {"security_group_rule": {**rule, "port_range_min": -16}}
    )
    assert (refused.status, "Invalid value for port -16" in refused.error["message"]) == (400, True)
    network = client.network()
    twice = {"network_id": network["id"], "security_groups": [group["id"], group["id"]]}
    refused = client.post("ports", {"port": twice})
    assert (refused.status, refused.error["message"]) == (
        400,
        "security_groups: one of them is there twice",
    )


@pytest.mark.spec("API-09", "API-13")
def test_requests_without_identity_are_refused_before_their_body_is_received(
    client: Client,
) -> None:
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v2.0/networks"}
    client.app.admit({**environ, "HTTP_X_TEST_WHO": "alice/member"})
    with pytest.raises(HttpError, match="say who you are") as refusal:
        client.app.admit(environ)
    assert refusal.value.status == 401
    assert "WWW-Authenticate" in refusal.value.headers
