"""What is counted, and that strangers cannot make it grow."""

from __future__ import annotations

import pytest

from netfw.cli.server.metrics import Metrics
from netfw.errors import BackendUnavailable


def app(environ, start):
    start("404 Not Found" if "ports" in environ["PATH_INFO"] else "200 OK", [])
    return [b""]


def ask(metrics, method, path):
    metrics.counting(app)(
        {"REQUEST_METHOD": method, "PATH_INFO": path}, lambda status, headers: None
    )


@pytest.fixture
def metrics():
    return Metrics({"ports", "networks"}, lambda: {"netfw_agents_alive": 3})


def test_requests_are_counted_by_collection_and_status(metrics):
    for _ in range(2):
        ask(metrics, "GET", "/v2.0/ports/7d5f")
    ask(metrics, "GET", "/v2.0/networks.json")
    text = metrics.text().decode()
    line = 'netfw_api_requests_total{collection="ports",method="GET",status="404"} 2.0'
    assert line in text
    assert 'collection="networks",method="GET",status="200"} 1.0' in text
    assert 'netfw_api_request_seconds_count{collection="ports",method="GET"} 2.0' in text


def test_what_strangers_ask_for_is_one_word(metrics):
    for number in range(50):
        ask(metrics, f"M{number}", f"/v2.0/x{number}")
    assert metrics.text().decode().count("netfw_api_requests_total{") == 1


def test_a_request_that_fails_is_counted(metrics):
    def broken(environ, start):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        metrics.counting(broken)({"REQUEST_METHOD": "GET", "PATH_INFO": "/v2.0/ports"}, None)
    assert 'collection="ports",method="GET",status="500"} 1.0' in metrics.text().decode()


def test_resource_metrics_are_exposed_while_the_database_answers(metrics):
    assert "netfw_agents_alive 3.0" in metrics.text().decode()

    def away():
        raise BackendUnavailable("gone")

    assert b"netfw_api_requests_total" in Metrics((), away).text()


@pytest.mark.spec("DRV-43")
def test_calls_of_agents_are_counted_by_method_and_error(metrics):
    metrics.count_call("changes", 0.01, "")
    metrics.count_call("changes", 0.01, "CursorLost")
    text = metrics.text().decode()
    assert 'netfw_rpc_requests_total{error="",method="changes"} 1.0' in text
    assert 'netfw_rpc_requests_total{error="CursorLost",method="changes"} 1.0' in text
    assert 'netfw_rpc_request_seconds_count{method="changes"} 2.0' in text


@pytest.mark.spec("DRV-43")
def test_metrics_tell_whether_the_database_answers(metrics):
    assert "netfw_database_up 1.0" in metrics.text().decode()

    def away():
        raise BackendUnavailable("gone")

    text = Metrics((), away).text().decode()
    assert "netfw_database_up 0.0" in text
    assert "process_resident_memory_bytes" in text
