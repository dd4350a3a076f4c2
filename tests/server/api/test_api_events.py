"""API events reach the plugins that subscribe to them."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.server.components import PROGRAM, ServerComponents, server_groups
from netfw.cli.server.listeners import ApiBundle
from netfw.conf.loader import load_config
from netfw.drivers.server.api_event import ApiEvent
from netfw.server.api.events import find_subscribers
from netfw.server.core.document_handler import DocumentsPlugin
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import api


class AuditPlugin(DocumentsPlugin):
    """A service plugin without resources that records API events."""

    def __init__(self, plugin: HandlerPlugin) -> None:
        super().__init__(plugin.context, [])
        self.events: list[ApiEvent] = []

    def handle_api_event(self, event: ApiEvent) -> None:
        self.events.append(event)


class FailingSubscriber:
    """A subscriber with a bug."""

    def handle_api_event(self, event: ApiEvent) -> None:
        raise ZeroDivisionError


@pytest.mark.spec("API-03")
def test_subscribers_get_an_event_before_and_after_each_change(
    plugins: list[HandlerPlugin], caplog: pytest.LogCaptureFixture
) -> None:
    audit = AuditPlugin(plugins[0])
    subscribers = find_subscribers([FailingSubscriber(), *plugins, audit])
    assert subscribers[1:] == (audit,)
    client = api(plugins, subscribers=subscribers)
    with caplog.at_level(logging.ERROR):
        network = client.network(name="n")
    assert "event network.create.start: subscriber failed" in caplog.text
    client.put(f"networks/{network['id']}", {"network": {"name": "m"}})
    client.put(f"networks/{network['id']}/tags/red")
    client.post("networks", {"network": {"name": 7}})
    client.get("quotas/alice/default")
    client.delete(f"networks/{network['id']}")
    assert [event.name for event in audit.events] == [
        "network.create.start",
        "network.create.end",
        "network.update.start",
        "network.update.end",
        "network.add_tags.start",
        "network.add_tags.end",
        "network.delete.start",
        "network.delete.end",
    ]
    assert (audit.events[0].body["name"], audit.events[0].id) == ("n", "")
    assert {event.id for event in audit.events[1:]} == {network["id"]}
    assert {event.requester.project_id for event in audit.events} == {"alice"}


@pytest.mark.spec("API-03")
def test_a_failed_request_has_no_end_event(plugins: list[HandlerPlugin]) -> None:
    audit = AuditPlugin(plugins[0])
    client = api(plugins, subscribers=find_subscribers([audit]))
    network = client.network()
    subnet = {"network_id": network["id"], "cidr": "192.0.2.0/24", "ip_version": 4}
    client.make("subnets", **subnet)
    audit.events.clear()
    assert client.post("subnets", {"subnet": subnet}).status == 400
    assert [event.name for event in audit.events] == ["subnet.create.start"]


@pytest.mark.spec("API-03")
def test_a_server_subscribes_its_service_plugins(tmp_path: Path) -> None:
    file = tmp_path / "netfw.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[identity]\nnoauth_on_loopback = true\n")
    argv = ["--config-file", str(file)]
    with ServerComponents(load_config(PROGRAM, argv, server_groups(argv)).conf) as components:
        components.prepare()
        assert isinstance(components.plugin, HandlerPlugin)
        audit = AuditPlugin(components.plugin)
        components.services.append(audit)
        data = json.dumps({"network": {"name": "n"}}).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/v2.0/networks",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "127.0.0.1",
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.input": io.BytesIO(data),
        }
        ApiBundle(components, {}).app(environ, lambda status, headers: None)
    assert [event.name for event in audit.events] == ["network.create.start", "network.create.end"]
