"""A trace from a call of the API to the flows of a switch, over a real server and agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests import ROOT
from tests.unit.cli.runtime.otlp_receiver import OtlpReceiver, ReceivedSpan, otlp_receiver

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

PORT = 4318
CLIENT = "0af7651916cd43dd8448eb211c80319c"
"""The trace of the client."""


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Cloud, list[OtlpReceiver]]]:
    """Yield a server and an L2 agent that export their spans, and the receivers of both."""
    sandbox.require()
    with ExitStack() as stack:
        directory = stack.enter_context(temporary_directory("netfw-spans."))
        of_server = stack.enter_context(otlp_receiver(directory / "server"))
        options = {"tracing": {"otlp_endpoint": of_server.url}}
        cloud = stack.enter_context(make_cloud(options, hosts=1))
        (host,) = cloud.hosts
        of_agent = OtlpReceiver(PORT, directory / "agent")
        words = ["-m", "tests.unit.cli.runtime.otlp_receiver", str(PORT), str(directory / "agent")]
        stack.callback(end, host.host.spawn([sys.executable, *words], cwd=ROOT))
        cloud.server.start()
        host.agent.options["tracing"] = {"otlp_endpoint": of_agent.url}
        host.start()
        yield cloud, [of_server, of_agent]


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


SPANS = {
    ("netfw-server", "PUT /v2.0/ports"),
    ("netfw-server", "transaction"),
    ("netfw-ovs-agent", "converge"),
    ("netfw-ovs-agent", "openflow bundle"),
    ("netfw-ovs-agent", "report"),
    ("netfw-ovs-agent", "call report"),
    ("netfw-server", "answer report"),
}
"""Service and name of the spans of a changed port."""


@pytest.mark.spec("DRV-43")
def test_a_port_is_one_trace_from_the_request_to_its_flows_and_its_status(
    traced: tuple[Cloud, list[OtlpReceiver]],
) -> None:
    cloud, receivers = traced
    _change_port(cloud)

    def spans() -> list[ReceivedSpan]:
        found = [span for receiver in receivers for span in receiver.spans()]
        return [span for span in found if span.trace == CLIENT]

    def names() -> set[tuple[str, str]]:
        return {(span.service, span.name) for span in spans()}

    wait_until(lambda: names() >= SPANS, names)
    by_id = {span.id: span for span in spans()}

    def path(span: ReceivedSpan) -> list[str]:
        above = by_id.get(span.parent)
        return [*(path(above) if above else ()), span.name]

    paths = [path(span) for span in spans()]
    request = ["PUT /v2.0/ports", "transaction", "converge"]
    assert [*request, "openflow bundle"] in paths
    assert [*request, "report", "call report", "answer report", "transaction"] in paths
    (first,) = (span for span in spans() if span.name == "PUT /v2.0/ports")
    assert first.attributes["netfw.request_id"] == "req-traced"
    assert first.attributes["http.response.status_code"] == 200
    (bundle, *_) = (span for span in spans() if span.name == "openflow bundle")
    assert int(bundle.attributes["flows"]) > 0


def _change_port(cloud: Cloud) -> None:
    """Change a port that is plugged, by a request of a trace."""
    network = cloud.network.create_network(name="traced")
    cloud.network.create_subnet(network_id=network.id, cidr="10.8.0.0/24", ip_version=4)
    spare = cloud.network.create_port(network_id=network.id, binding_host_id="host1", name="spare")
    cloud.hosts[0].plug_port(spare)
    wait_until(lambda: cloud.status("spare") == "ACTIVE")
    header = {
        "traceparent": f"00-{CLIENT}-b7ad6b7169203331-01",
        "X-Openstack-Request-Id": "req-traced",
    }
    body = {"port": {"admin_state_up": False}}
    status, _ = cloud.server.request("PUT", f"/v2.0/ports/{spare.id}", body, header)
    assert status == 200
