"""The port of an agent for monitors, over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

from netfw.agents.common.agent import ConvergeResult
from netfw.agents.common.loop_tasks import LoopTask
from netfw.agents.common.status import AgentStatus
from netfw.cli.agents.common import MetricsTargets
from netfw.cli.agents.metrics_exporters import AgentMetricsExporters
from netfw.cli.agents.metrics_port import LIMITS
from netfw.cli.agents.runner import unready_reasons
from netfw.errors import BackendUnavailable, ConfigError, Conflict, NetfwError
from netfw.plan import Outcome
from netfw.testing.lab.wait import TIMEOUT, wait_until

BINARY, HOST = "netfw-ovs-agent", "host1"
STATUS = AgentStatus(
    binary=BINARY, host=HOST, ready=True, desired={"port": 3}, counts={"wired_ports": 2}, pending=1
)
LABELS = {"agent": BINARY, "host": HOST}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Served:
    """An agent's monitors, and a client of their port."""

    def __init__(self) -> None:
        self.port, self.stuck = free_port(), ""
        targets = MetricsTargets(bind=str(self.port))
        self.monitors = AgentMetricsExporters(
            targets, BINARY, HOST, unready_reasons, lambda: self.stuck
        )

    def publish(self, status: AgentStatus) -> None:
        for target in self.monitors.targets:
            target(status)

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    with served.monitors:
        yield served


@pytest.mark.spec("DRV-43")
def test_metrics_have_the_status_and_what_the_loop_did(served: Served) -> None:
    served.publish(evolve(STATUS, errors={LoopTask.PULL: "the server is away"}))
    refused: dict[str, NetfwError] = {"port 1": Conflict("taken"), "port 2": Conflict("taken")}
    outcome = Outcome(failed={**refused, "port 3": BackendUnavailable("gone")})
    served.monitors.observer.passed(ConvergeResult(outcome=outcome), 0.2)
    served.monitors.observer.pulled()
    samples = served.samples()
    assert samples["netfw_agent_ready"] == [(LABELS, 1)]
    assert samples["netfw_agent_pending"] == [(LABELS, 1)]
    assert samples["netfw_agent_desired_resources"] == [({**LABELS, "kind": "port"}, 3)]
    assert samples["netfw_agent_resources"] == [({**LABELS, "kind": "wired_ports"}, 2)]
    failing = {each["task"]: value for each, value in samples["netfw_agent_task_failing"]}
    assert (failing["pull"], sum(failing.values()), len(failing)) == (1, 1, len(LoopTask))
    failures = {each["error"]: value for each, value in samples["netfw_agent_key_failures_total"]}
    assert failures == {"Conflict": 2, "BackendUnavailable": 1}
    assert samples["netfw_agent_pass_duration_seconds_sum"] == [(LABELS, 0.2)]
    assert samples["netfw_agent_last_pull_timestamp_seconds"][0][1] > 1_700_000_000
    assert samples["process_resident_memory_bytes"][0][1] > 1_000_000


@pytest.mark.spec("DRV-43")
def test_readiness_names_the_reasons_and_liveness_what_is_stuck(served: Served) -> None:
    status, body = served.get("/readyz")
    assert (status, json.loads(body)["reason"]) == (503, "it has not converged yet")
    served.publish(evolve(STATUS, ready=False, degraded={"port 1": "no such device"}))
    status, body = served.get("/readyz")
    assert (status, json.loads(body)["reasons"]) == (503, ["port 1: no such device"])
    served.publish(STATUS)
    assert served.get("/readyz") == (200, '{"status": "ready"}')
    assert served.get("/healthz")[0] == 200
    served.stuck = "a turn of the loop takes 301 s"
    status, body = served.get("/healthz")
    assert (status, json.loads(body)["reason"]) == (503, served.stuck)
    status, body = served.get("/v2.0/ports")
    assert (status, "this is netfw-ovs-agent" in body) == (404, True)


@pytest.mark.slow
@pytest.mark.spec("DRV-43")
def test_clients_that_hang_neither_block_the_agent_nor_take_more_than_their_share(
    served: Served,
) -> None:
    hanging = []
    try:
        for number in range(LIMITS.connections * 2):
            each = socket.create_connection(("127.0.0.1", served.port), TIMEOUT)
            each.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * (number % 2))
            hanging.append(each)
        served.publish(STATUS)  # returns at once: it only stores the status
        # Overload is answered by 503: the threads may still read what all of them sent at once.
        wait_until(lambda: served.get("/readyz")[0] == 200)

        def closed() -> int:
            return sum(not is_open(each) for each in hanging)

        wait_until(lambda: closed() >= LIMITS.connections)
        assert served.get("/metrics")[0] == 200
    finally:
        for each in hanging:
            each.close()


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(65536))
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("nowhere", "is not like 127.0.0.1:9696"),
        ("127.0.0.1:99999", "is not like 127.0.0.1:9696"),
        ("70000", "is not like 127.0.0.1:9696"),
        ("192.0.2.1:9697", "nothing can listen on 192.0.2.1 port 9697"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=r"\[agent\] metrics_bind") as refused:
        AgentMetricsExporters(MetricsTargets(bind=address), BINARY, HOST, unready_reasons, str)
    assert problem in str(refused.value)


def test_a_port_that_is_taken_is_refused_and_free_again_after_the_end() -> None:
    first = Served()
    targets = MetricsTargets(bind=f"127.0.0.1:{first.port}")
    with first.monitors, pytest.raises(ConfigError, match=r"change \[agent\] metrics_bind"):
        AgentMetricsExporters(targets, BINARY, HOST, unready_reasons, str)
    with AgentMetricsExporters(targets, BINARY, HOST, unready_reasons, str):
        pass
    wait_until(lambda: "netfw-metrics" not in {each.name for each in threading.enumerate()})
