"""What monitors see of a server and of each agent: watchdog, health checks, metrics."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from netfw.cli.demo.server import Cloud, make_cloud
from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.nightly import nightly
from tests.system.prometheus_files import METRIC, PAGE, named_metrics, promtool

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

FIRST_PORT = 9701


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    sandbox.require()


@pytest.mark.spec("DRV-43", "DRV-48")
@pytest.mark.parametrize("workers", [nightly("1"), "2"])
def test_server_reports_to_the_watchdog_that_it_is_alive(tmp_path: Path, workers: str) -> None:
    server = PrivateNetfw(tmp_path / "server", arguments=["--workers", workers])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(TIMEOUT)
        server.environment = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "2000000",
        }
        with server:
            signs = [manager.recv(4096).decode() for _ in range(4)]
    assert signs == ["READY=1", *["WATCHDOG=1"] * 3]


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """Yield a server, and a host with all four agents, each with a port for monitors."""
    sandbox.require()
    with make_cloud(hosts=1) as made:
        made.server.start()
        for number, agent in enumerate(made.hosts[0].agents):
            agent.options["agent"]["metrics_bind"] = FIRST_PORT + number
            agent.spawn()
        for agent in made.hosts[0].agents:
            agent.wait_for(lambda status: bool(status.get("ready")))
        yield made


def get(agent: PrivateAgent, path: str) -> tuple[int, str]:
    """Return status and body of the port for monitors of an agent, from its own host."""
    url = f"http://127.0.0.1:{agent.options['agent']['metrics_bind']}{path}"
    done = agent.host.attempt(["curl", "-sS", "-m", str(TIMEOUT), "-w", "\n%{http_code}", url])
    body, _, status = done.output.strip().rpartition("\n")
    return int(status), body


def exported(text: str) -> set[str]:
    """Return the names of the series and families of an exposition."""
    families = list(text_string_to_metric_families(text))
    return {sample.name for each in families for sample in each.samples} | {
        each.name for each in families
    }


@pytest.mark.spec("DRV-43")
def test_every_agent_is_alive_and_ready_and_shows_its_metrics(cloud: Cloud) -> None:
    for agent in cloud.hosts[0].agents:
        assert get(agent, "/healthz")[0] == 200
        assert get(agent, "/readyz") == (200, '{"status": "ready"}')
        status, text = get(agent, "/metrics")
        assert status == 200
        assert 'host="host1"' in text
        promtool("check", "metrics", stdin=text)


@pytest.mark.spec("DRV-43")
def test_every_metric_of_the_rules_the_dashboard_and_the_page_is_exported(cloud: Cloud) -> None:
    cloud.network.create_network(name="counted")
    _, of_server = cloud.server.request("GET", "/metrics")
    promtool("check", "metrics", stdin=of_server)
    texts = [of_server, *(get(agent, "/metrics")[1] for agent in cloud.hosts[0].agents)]
    found = set().union(*map(exported, texts))
    assert named_metrics() - found == set()
    of_page = {name for name in METRIC.findall(PAGE.read_text()) if not name.endswith("_")}
    assert of_page - found == set()
    documented = PAGE.read_text()
    ours = {name for name in found if name.startswith("netfw_")}
    shared = ("_bucket", "_sum", "_count", "_created", "_total")
    undocumented = {
        name
        for name in ours
        if name not in documented
        and not name.endswith(shared)
        and f"`{name.removeprefix('netfw_agent')}`" not in documented
    }
    assert undocumented == set()


@pytest.mark.spec("DRV-43")
def test_readiness_of_an_agent_names_what_it_waits_for_and_metrics_count_it(cloud: Cloud) -> None:
    agent, ghost = cloud.hosts[0].agent, "tap-ghost"
    network = cloud.network.create_network(name="ghost")
    cloud.network.create_subnet(network_id=network.id, cidr="10.9.0.0/24", ip_version=4)
    port = cloud.network.create_port(network_id=network.id, binding_host_id="host1")
    ids = {"iface-id": port.id, "attached-mac": port.mac_address}
    words = [f'external_ids:{key}="{value}"' for key, value in ids.items()]
    ovs = cloud.hosts[0].host.ovs
    ovs.vsctl("add-port", "br-int", ghost, "--", "set", "Interface", ghost, *words)

    def refused() -> bool:
        status, body = get(agent, "/readyz")
        return status == 503 and any(ghost in each for each in json.loads(body)["reasons"])

    wait_until(refused, lambda: get(agent, "/readyz"))
    counted = samples(get(agent, "/metrics")[1])
    assert counted["netfw_agent_ready"] == 0
    assert counted["netfw_agent_degraded"] + counted["netfw_agent_waiting"] >= 1
    assert counted["netfw_agent_pending"] >= 1
    assert counted["netfw_agent_desired_resources"] >= 3
    ovs.vsctl("del-port", "br-int", ghost)
    wait_until(lambda: get(agent, "/readyz")[0] == 200, lambda: get(agent, "/readyz"))


def samples(text: str) -> Mapping[str, float]:
    """Return the sums of the samples by name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
