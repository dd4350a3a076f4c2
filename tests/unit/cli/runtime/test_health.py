"""The probes of a daemon, and what stands behind them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from netfw.cli.runtime.health import HealthEndpoints


def ask(app: Any, path: str) -> tuple[str, dict[str, str], bytes]:
    heard: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]]) -> None:
        heard.extend((status, dict(headers)))

    data = b"".join(app({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, start))
    return heard[0], heard[1], data


def test_clients_are_asked_to_come_again_until_the_server_has_started() -> None:
    starting, trouble = ["it is starting"], [""]

    def api(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"served"]

    app = HealthEndpoints(
        description="it has an API",
        starting=lambda: starting[0],
        ready=lambda: list(filter(None, trouble)),
        metrics=lambda: b"n 1\n",
        api=api,
    )
    status, headers, body = ask(app, "/v2.0/networks")
    assert (status[:3], headers["Retry-After"]) == ("503", "1")
    assert "it is starting" in json.loads(body)["NeutronError"]["message"]
    assert ask(app, "/healthz")[0] == "200 OK"
    assert json.loads(ask(app, "/readyz")[2]) == {
        "status": "waiting",
        "reason": "it is starting",
        "reasons": ["it is starting"],
    }
    starting[0] = ""
    assert ask(app, "/v2.0/networks")[2] == b"served"
    assert ask(app, "/readyz")[0] == "200 OK"
    trouble[0] = "the database is away"
    assert json.loads(ask(app, "/readyz")[2])["reason"] == "the database is away"
    assert ask(app, "/v2.0/networks")[2] == b"served"
    assert ask(app, "/metrics")[2] == b"n 1\n"


def test_a_server_without_an_api_has_its_probes_and_says_what_it_is() -> None:
    app = HealthEndpoints(description="it answers agents only", ready=list, metrics=bytes)
    assert ask(app, "/readyz")[0] == "200 OK"
    status, _, body = ask(app, "/v2.0/networks")
    assert status == "404 Not Found"
    assert "agents only" in json.loads(body)["NeutronError"]["message"]


@pytest.mark.spec("DRV-43")
def test_all_reasons_are_named_up_to_a_limit() -> None:
    reasons = [f"port {number}: refused" for number in range(25)]
    app = HealthEndpoints(description="", ready=lambda: reasons, metrics=bytes)
    status, _, body = ask(app, "/readyz")
    assert status == "503 Service Unavailable"
    answer = json.loads(body)
    assert (answer["reason"], answer["more_reasons"]) == (reasons[0], 5)
    assert answer["reasons"] == reasons[:20]


@pytest.mark.spec("DRV-43")
def test_a_stuck_daemon_is_not_alive() -> None:
    app = HealthEndpoints(
        description="", stuck=lambda: "a turn takes 301 s", ready=list, metrics=bytes
    )
    status, _, body = ask(app, "/healthz")
    assert (status[:3], json.loads(body)["reason"]) == ("503", "a turn takes 301 s")
