"""Requests by chance; ``make fuzz`` sends them for an hour."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import pytest

from netfw.server.api.resource_registry import build
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from tests.server.api.environment import api
from tests.server.api.strategies import Chance

LONG = bool(os.environ.get("NETFW_LONG"))
SECONDS = float(os.environ.get("NETFW_API_SECONDS", "3600" if LONG else "0"))
LEAST_REQUESTS = 1500
"""Requests that are sent however long they take; of 400, 6 were answered by 201 at the least."""


@pytest.mark.spec("API-13")
@pytest.mark.timeout(SECONDS + 600)
def test_no_request_is_answered_by_a_fault_of_the_server_and_nothing_grows(
    plugins: list[HandlerPlugin], record_property: Callable[[str, object], None]
) -> None:
    plugins.append(RouterPlugin(plugins[0].context))
    client = api(plugins)
    kept = [name for plugin in plugins for name in plugin.resource_names]
    seed = int(os.environ.get("NETFW_SEED") or time.time())
    record_property("seed", seed)
    chance = Chance(client, build(kept), seed)
    chance.prepare()
    end, settled, count = time.monotonic() + SECONDS, 0, 0
    while count < LEAST_REQUESTS or time.monotonic() < end:
        try:
            chance.step()
        except AssertionError as exc:
            raise AssertionError(f"seed {seed}, request {count}: {exc}") from exc
        count += 1
        if count == 20_000:
            settled = _resident()
    assert client.as_("root/admin").get("networks").status == 200
    assert {200, 201, 400, 404} <= set(chance.statuses), chance.statuses
    if settled:
        assert _resident() < settled + 50_000, "kilobytes of memory since 20,000 requests"


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
