"""Who asks, and what the metadata service is told of it."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.agents.metadata.headers import (
    RequestingInstance,
    request_headers,
    response_headers,
    signature,
)
from netfw.agents.metadata.request_origin import parse_origin
from netfw.agents.metadata.state_report import (
    MetadataSettings,
    RunAs,
    make_state_report,
    socket_mode,
)
from netfw.drivers.values.agent_requests import FindPorts
from netfw.errors import ConfigError
from netfw.http.http_error import HttpError
from netfw.model.values.ids import NetworkId, RouterId

ID = UUID(int=77)
NET = {"X-Neutron-Network-Id": str(ID)}
ROUTER = {"X-Neutron-Router-Id": str(ID)}
ME = ip_address("10.0.0.7")
INSTANCE = RequestingInstance("i-1", "project")
FORGED = """
X-Instance-Id x-instance-id X_Instance_ID X-Instance-ID-Signature X-Tenant-Id X-TENANT_ID
X-Forwarded-For X-Forwarded-Host Forwarded X-Neutron-Network-Id X-Neutron-Router-Id
X-Metadata-Provider X-Metadata-Provider-Signature X-Real-Ip X-Roles X-User-Id X-Identity-Status
X-Project-Id X-Service-Token Via Host Client-IP True-Client-IP X-Cluster-Client-IP X-Client-IP
X-Original-URL X-HTTP-Method-Override
"""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("fe80::f816:3eff:fe00:1", "fe80::f816:3eff:fe00:1"),
    ],
)
def test_the_proxy_says_address_and_network_or_router(text: str, address: str) -> None:
    headers = {"X-Forwarded-For": text}
    on_network = FindPorts(address=ip_address(address), network=NetworkId(ID))
    assert parse_origin({**headers, **NET}) == on_network
    behind_router = FindPorts(address=ip_address(address), router=RouterId(ID))
    assert parse_origin({**headers, **ROUTER}) == behind_router


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "10.0.0.7"},
        {"X-Forwarded-For": "10.0.0.7", **NET, **ROUTER},
        {"X-Forwarded-For": "10.0.0.7", "X-Neutron-Network-Id": ""},
        {"X-Forwarded-For": "10.0.0.7", "X-Neutron-Network-Id": f"{ID}, {ID}"},
        {"X-Forwarded-For": "10.0.0.7", "X-Neutron-Network-Id": f"{{{ID}}}"},
        {"X-Forwarded-For": "10.0.0.7", "X-Neutron-Router-Id": "x" * 5000},
        NET,
        {"X-Forwarded-For": "", **NET},
        {"X-Forwarded-For": "10.0.0.7, 10.0.0.8", **NET},
        {"X-Forwarded-For": "10.0.0.7:80", **NET},
        {"X-Forwarded-For": "10.0.0.300", **NET},
        {"X-Forwarded-For": "167772167", **NET},
        {"X-Forwarded-For": "fe80::1%eth0", **NET},
        {"X-Forwarded-For": "\u0661.1.1.1", **NET},
        {"X-Forwarded-For": "unknown", **NET},
    ],
)
def test_a_request_that_says_too_little_or_two_things_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(HttpError) as refused:
        parse_origin(headers)
    assert refused.value.status == 400
    assert len(str(refused.value)) < 120


def test_a_guest_cannot_speak_for_the_agent() -> None:
    forged = dict.fromkeys(FORGED.split(), "forged")
    harmless = {"Accept": "a", "User-Agent": "b", "X-Aws-Ec2-Metadata-Token": "c"}
    assert request_headers({**forged, **harmless}, ME, INSTANCE, "secret") == (
        *harmless.items(),
        ("X-Forwarded-For", "10.0.0.7"),
        ("X-Instance-ID", "i-1"),
        ("X-Tenant-ID", "project"),
        ("X-Instance-ID-Signature", signature("secret", "i-1")),
    )


def test_what_is_for_the_neighbour_goes_no_further() -> None:
    headers = {
        "Connection": "close, X-Secret, X_Other",
        "X-Secret": "1",
        "X-Other": "2",
        "Te": "trailers",
        "Transfer-Encoding": "chunked",
        "Upgrade": "h2c",
        "Content-Length": "4",
        "Expect": "100-continue",
        "Accept": "a",
    }
    assert request_headers(headers, ME, INSTANCE, "")[0] == ("Accept", "a")
    assert len(request_headers(headers, ME, INSTANCE, "")) == 5
    answer = (
        ("Content-Type", "text/plain"),
        ("Connection", "x-hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Transfer-Encoding", "chunked"),
        ("content-length", "5"),
        ("Set-Cookie", "a"),
        ("Set-Cookie", "b"),
        ("X-Folded", "a\r\n b"),
        ("Bad Name", "x"),
    )
    assert response_headers(answer) == (
        ("Content-Type", "text/plain"),
        ("Set-Cookie", "a"),
        ("Set-Cookie", "b"),
        ("X-Folded", "a b"),
    )


def test_the_signature_is_the_hmac_of_the_instance() -> None:
    digest = hmac.new(b"s\xc3\xa9cret", b"i-1", hashlib.sha256).hexdigest()
    assert signature("sécret", "i-1") == digest


@pytest.mark.parametrize(
    ("id", "project", "can"),
    [
        ("i-1", "p", True),
        ("i-1", "", True),
        ("", "p", False),
        ("a b", "p", False),
        ("a\r\nX: y", "p", False),
        ("é", "p", False),
        ("i-1", "p\n", False),
    ],
)
def test_only_what_can_stand_in_a_header_is_named(id: str, project: str, can: bool) -> None:
    assert RequestingInstance(id, project).fits_header is can


ROOT, AGENT = RunAs(user=0, group=0), RunAs(user=10, group=20)


@pytest.mark.parametrize(
    ("word", "proxy", "mode"),
    [
        ("user", ROOT, 0o644),
        ("group", ROOT, 0o664),
        ("all", ROOT, 0o666),
        ("0600", ROOT, 0o600),
        ("660", ROOT, 0o660),
        ("deduce", AGENT, 0o644),
        ("deduce", ROOT, 0o644),
        ("deduce", RunAs(user=11, group=20), 0o664),
        ("deduce", RunAs(user=11, group=21), 0o666),
    ],
)
def test_the_mode_of_the_socket_is_a_word_or_a_number(word: str, proxy: RunAs, mode: int) -> None:
    assert socket_mode(word, AGENT, proxy) == mode


@pytest.mark.parametrize("word", ["", "everybody", "0o660", "999", "17777", "-1"])
def test_other_modes_are_refused_with_what_can_be(word: str) -> None:
    with pytest.raises(ConfigError, match="deduce, user, group, all"):
        socket_mode(word, AGENT, ROOT)


def test_the_state_report_has_what_operators_know_and_no_secret() -> None:
    settings = MetadataSettings(
        host="h1", socket=Path("/run/m.sock"), service_host="nova", service_port=8775
    )
    beat = make_state_report(settings, {"requests": 3}, start=True)
    assert (beat.agent.agent_type, beat.agent.binary, beat.agent.host) == (
        "Metadata agent",
        "netfw-metadata-agent",
        "h1",
    )
    assert beat.agent.configurations.content() == {
        "metadata_proxy_socket": "/run/m.sock",
        "nova_metadata_host": "nova",
        "nova_metadata_port": 8775,
        "metadata_workers": 32,
    }
    assert (dict(beat.counts), beat.start) == ({"requests": 3}, True)


@given(
    st.sampled_from(["x-instance-id", "x-tenant-id", "x-instance-id-signature", "x-forwarded-for"]),
    st.lists(st.booleans(), min_size=24, max_size=24),
    st.lists(st.booleans(), min_size=24, max_size=24),
)
def test_no_spelling_of_a_claim_passes(name: str, upper: list[bool], under: list[bool]) -> None:
    letters = [
        "_" if letter == "-" and dashed else letter.upper() if shouted else letter
        for letter, shouted, dashed in zip(name, upper, under, strict=False)
    ]
    headers = request_headers({"".join(letters): "forged"}, ME, INSTANCE, "secret")
    assert "forged" not in [value for _, value in headers]
    assert len(headers) == 4
