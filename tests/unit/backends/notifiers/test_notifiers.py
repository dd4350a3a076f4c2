"""Notifiers against a real HTTP server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.notifier import Notifier
from netfw.errors import BackendBroken, BackendUnavailable, ConfigError
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw_drivers.notifiers.compute import ComputeNotifier, events
from netfw_drivers.notifiers.webhook import WebhookNotifier, signature
from tests.unit.backends.notifiers.http_receiver import Party, listening

NETWORK = Network(id=NetworkId(UUID(int=1)), name="blue", revision=4)
PORT = Port(
    id=PortId(UUID(int=2)),
    network_id=NETWORK.id,
    mac="fa:16:3e:00:00:01",
    device_owner="compute:nova",
    device_id="server-1",
    revision=7,
)
ACTIVE = evolve(PORT, status=Status.ACTIVE)
PLUGGED = Change(before=PORT, after=ACTIVE, request_id="req-1")


@pytest.fixture
def party() -> Iterator[Party]:
    with listening() as party:
        yield party


def options(kind: type[Notifier], **given: Any) -> dict[str, Any]:
    return {option.name: option.default for option in kind.OPTIONS} | given


def made(kind: type[Notifier], **given: Any) -> Notifier:
    return kind.from_conf(options(kind, **given), cast(Any, None))


def notifiers(party: Party, **given: Any) -> list[Notifier]:
    """Return one notifier of each type, towards *party*."""
    return [
        made(WebhookNotifier, urls=[f"{party.url}/hook"], **given),
        made(ComputeNotifier, endpoint=f"{party.url}/v2.1", auth="none", **given),
    ]


@pytest.mark.spec("API-14")
def test_a_webhook_posts_what_happened_with_id_and_revision(party: Party) -> None:
    webhook = made(WebhookNotifier, urls=[f"{party.url}/hook?key=1"])
    gone = Change(before=NETWORK, after=None)
    webhook.notify([Change(before=None, after=NETWORK), PLUGGED, gone])
    ((path, headers, _),) = party.requests
    assert path == "/hook?key=1"
    assert headers["Content-Type"] == "application/json"
    assert "X-Netfw-Signature" not in headers
    posted = party.bodies[0]["events"]
    assert [each["event_type"] for each in posted] == [
        "network.create",
        "port.update",
        "network.delete",
    ]
    assert [(each["id"], each["revision"]) for each in posted][1] == (str(PORT.id), 7)
    assert posted[1]["request_id"] == "req-1"
    assert (posted[1]["before"]["status"], posted[1]["after"]["status"]) == ("DOWN", "ACTIVE")
    assert posted[2]["after"] is None


@pytest.mark.spec("API-14")
def test_a_webhook_signs_what_it_posts_and_tells_all_addresses(party: Party) -> None:
    urls = [f"{party.url}/one", f"{party.url}/two"]
    made(WebhookNotifier, urls=urls, secret="s3cret").notify([PLUGGED])
    assert [path for path, _, _ in party.requests] == ["/one", "/two"]
    for _, headers, body in party.requests:
        signed = headers["X-Netfw-Signature"]
        at = int(signed.partition(",")[0].removeprefix("t="))
        assert abs(at - time.time()) < 60
        assert signed == signature("s3cret", at, body)
        assert signed != signature("other", at, body)


@pytest.mark.spec("API-14")
def test_a_webhook_tells_of_the_kinds_it_is_to_tell_of(party: Party) -> None:
    webhook = made(WebhookNotifier, urls=[party.url], resource_types=["port"])
    assert webhook.concerns(PLUGGED)
    assert not webhook.concerns(Change(before=None, after=NETWORK))


@pytest.mark.spec("API-14")
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (PORT, ACTIVE, ["network-vif-plugged completed"]),
        (None, PORT, []),
        (None, ACTIVE, ["network-vif-plugged completed"]),
        (ACTIVE, PORT, ["network-vif-unplugged completed"]),
        (PORT, evolve(PORT, status=Status.ERROR), ["network-vif-plugged failed"]),
        (ACTIVE, None, ["network-vif-deleted "]),
        (ACTIVE, evolve(ACTIVE, device_id="server-2"), ["network-vif-deleted "]),
        (ACTIVE, evolve(ACTIVE, description="x"), []),
        (PORT, evolve(PORT, mac="fa:16:3e:00:00:02"), ["network-changed "]),
        (
            evolve(PORT, device_owner="network:dhcp"),
            evolve(ACTIVE, device_owner="network:dhcp"),
            [],
        ),
        (None, NETWORK, []),
    ],
)
def test_a_compute_service_hears_of_its_instances_ports(
    before: Any, after: Any, message: list[str]
) -> None:
    found = events(Change(before=before, after=after))
    assert [f"{each['name']} {each.get('status', '')}" for each in found] == message
    assert all(each["tag"] == str(PORT.id) for each in found)
    assert all(each["server_uuid"] == "server-1" for each in found)


@pytest.mark.spec("API-14", "ML2-08")
def test_a_device_that_is_ready_at_the_target_of_a_migration_is_plugged(party: Party) -> None:
    ready = Change(before=ACTIVE, after=ACTIVE, ready_host="h2")
    (found,) = events(ready)
    assert found == {
        "name": "network-vif-plugged",
        "server_uuid": "server-1",
        "tag": str(PORT.id),
        "status": "completed",
    }
    assert events(evolve(ready, ready_host="")) == ()
    webhook = made(WebhookNotifier, urls=[party.url])
    assert not webhook.concerns(ready), "the port did not change"
    assert webhook.concerns(evolve(ready, before=PORT))


@pytest.mark.spec("API-14")
def test_events_for_a_compute_service_are_one_request_and_none_is_there_twice(
    party: Party,
) -> None:
    compute = made(ComputeNotifier, endpoint=f"{party.url}/v2.1/", auth="token", token="t0ken")
    fixed = FixedIp(subnet_id=SubnetId(UUID(int=3)), address="10.0.0.9")
    moved = Change(before=ACTIVE, after=evolve(ACTIVE, fixed_ips=[fixed]))
    down = Change(before=ACTIVE, after=PORT)
    compute.notify([PLUGGED, moved, down, PLUGGED])
    ((path, headers, _),) = party.requests
    assert path == "/v2.1/os-server-external-events"
    assert headers["X-Auth-Token"] == "t0ken"
    names = [each["name"] for each in party.bodies[0]["events"]]
    assert names == ["network-changed", "network-vif-unplugged", "network-vif-plugged"]
    compute.notify([Change(before=None, after=NETWORK)])
    assert len(party.requests) == 1


@pytest.mark.spec("API-14")
def test_instances_unknown_to_the_compute_service_are_not_retried(party: Party) -> None:
    compute = made(ComputeNotifier, endpoint=party.url, auth="none")
    party.answers = [(404, '{"itemNotFound": {"code": 404}}'), (207, "{}"), (404, "<html>")]
    compute.notify([PLUGGED])
    compute.notify([PLUGGED])
    with pytest.raises(BackendUnavailable, match="is endpoint right"):
        compute.notify([PLUGGED])


@pytest.mark.spec("API-14")
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_what_may_be_answered_otherwise_later_is_tried_again(party: Party, status: int) -> None:
    for notifier in notifiers(party):
        party.answers = [(status, "not\nnow")] * 2
        with pytest.raises(BackendUnavailable, match=f"answers {status}: not now"):
            notifier.notify([PLUGGED])


@pytest.mark.spec("API-14")
@pytest.mark.parametrize("status", [302, 400, 413, 422])
def test_what_is_refused_for_good_is_no_ones_to_repeat(party: Party, status: int) -> None:
    for notifier in notifiers(party):
        party.answers = [(status, "no")]
        with pytest.raises(BackendBroken, match=f"answers {status}"):
            notifier.notify([PLUGGED])
    assert not [path for path, _, _ in party.requests if "elsewhere" in path]


@pytest.mark.spec("API-14")
def test_notification_ends_after_its_timeout(party: Party) -> None:
    party.slow = 60.0
    for notifier in notifiers(party, timeout=0.1):
        began = time.monotonic()
        with pytest.raises(BackendUnavailable, match="does not answer"):
            notifier.notify([PLUGGED])
        assert time.monotonic() - began < 30, "it waited for the answer"


def test_unreachable_endpoint_is_retryable_and_its_error_hides_secrets() -> None:
    with listening() as gone:
        place = gone.url.replace("http://", "http://user:pass@")
    webhook = made(WebhookNotifier, urls=[f"{place}/?key=hidden"])
    with pytest.raises(BackendUnavailable) as caught:
        webhook.notify([PLUGGED])
    assert "pass" not in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "fault"),
    [
        (WebhookNotifier, {}, r"no address to notify: set urls in \[webhook\]"),
        (WebhookNotifier, {"urls": ["ftp://x"]}, "neither http"),
        (WebhookNotifier, {"urls": ["http://x"], "resource_types": ["prot"]}, "there is no prot"),
        (ComputeNotifier, {}, "endpoint, auth_url, username, password"),
        (ComputeNotifier, {"auth": "token", "endpoint": "http://x"}, "needs token"),
    ],
)
def test_notifier_without_a_usable_target_is_refused(
    kind: type[Notifier], given: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        made(kind, **given)
