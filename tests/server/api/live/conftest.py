"""The API with a live page, and the commits that a test announces."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.http.event_streams import EventStreams, StreamSettings
from netfw.server.api.live.page import ChangeSource, LivePage
from netfw.server.api.request_body import RequestLimits
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.server_context import ServerContext
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import Client, api
from tests.server.api.live.environment import Commits


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def streams() -> EventStreams:
    return EventStreams(StreamSettings(most=2, most_per_owner=1))


@pytest.fixture
def client(
    plugins: list[HandlerPlugin], commits: Commits, streams: EventStreams, request: Any
) -> Client:
    """Return a client; the parameter is the largest page."""
    changes = ChangeSource(cursor=lambda: commits.cursor, listen=commits.listen)
    routers = RouterPlugin(plugins[0].context)
    limits = RequestLimits(page=getattr(request, "param", None))
    return api([*plugins, routers], limits=limits, live=LivePage(changes, streams))


@pytest.fixture
def context(plugins: list[HandlerPlugin]) -> ServerContext:
    return plugins[0].context


@pytest.fixture
def admin(client: Client) -> Client:
    return client.as_("ops/admin")
