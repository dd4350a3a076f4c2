"""``netfw explain port|router|floatingip`` on a server with two hosts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.commands.explain import DENIED
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import RoutedCloud, make_edge_router, routed_cloud

pytestmark = [
    pytest.mark.spec("DRV-42"),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
NETFW = Path(sys.executable).with_name("netfw")


@pytest.fixture(scope="module")
def routed() -> Iterator[RoutedCloud]:
    sandbox.require()
    with routed_cloud({"scheduling": {"agent_down_time": 6}}) as made:
        yield made


def explain(routed: RoutedCloud, kind: str, id: str, *words: str) -> tuple[int, list[str]]:
    """Return the status and the sentences, those that hold it up first."""
    api = f"unix:{routed.cloud.server.socket}"
    done = subprocess.run(
        [NETFW, "explain", kind, id, "--json", "--api", api, *words],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, DENIED), done.stderr
    found = json.loads(done.stdout)
    return done.returncode, [each["text"] for each in found["reasons"] if each["blocks"]]


def says(routed: RoutedCloud, kind: str, id: str, *parts: str) -> None:
    """Wait until every one of *parts* is in a sentence that holds the resource up."""

    def holds() -> bool:
        status, texts = explain(routed, kind, id)
        return status == DENIED and all(any(part in text for text in texts) for part in parts)

    wait_until(holds, lambda: explain(routed, kind, id))


def test_ports_say_why_they_are_unbound_or_not_wired(routed: RoutedCloud) -> None:
    network = routed.network
    red, _ = routed.make_network("red", "10.0.9.0/24")
    free = network.create_port(network_id=red.id, name="free")
    says(routed, "port", free.id, "It is bound to no host")
    lost = network.create_port(network_id=red.id, name="lost", binding_host_id="nowhere")
    says(
        routed, "port", "lost",
        "No mechanism driver binds it to host nowhere", "No L2 agent has ever reported from host",
    )  # fmt: skip
    off = network.create_port(network_id=red.id, name="off", is_admin_state_up=False)
    says(routed, "port", off.id, "It is switched off")
    port = network.create_port(network_id=red.id, name="bare", binding_host_id="host1")
    says(routed, "port", port.id, "host1: it is not plugged on this host")
    instance = routed.hosts[0].plug_port(port, "bare")
    wait_until(lambda: explain(routed, "port", port.id) == (0, []))
    with_files = ["--config-file", str(routed.hosts[0].agent.conf)]
    routed.hosts[0].agent.kill()
    status, texts = explain(routed, "port", port.id, *with_files)
    assert status == DENIED
    assert any("On this host, netfw-ovs-agent is dead" in text for text in texts), texts
    says(routed, "port", port.id, "It waits for the Open vSwitch agent of host1, which is dead")
    routed.hosts[0].agent.start()
    wait_until(lambda: explain(routed, "port", port.id) == (0, []))
    routed.hosts[0].unplug_port(port)
    assert instance is not None
    for each in (free, lost, off, port):
        network.delete_port(each.id)


def test_router_and_floating_ip_say_who_they_wait_for(routed: RoutedCloud) -> None:
    network = routed.network
    bare = network.create_router(name="bare")
    says(routed, "router", bare.id, "neither interface nor gateway")
    edge = make_edge_router(routed)
    router: Any = network.find_router("edge", ignore_missing=False)
    wait_until(lambda: explain(routed, "router", "edge") == (0, []))
    address = edge.floating_ip.floating_ip_address
    assert explain(routed, "floatingip", address) == (0, [])
    routed.l3.kill()
    says(routed, "router", router.id, "It waits for the L3 agent of host2, which is dead")
    says(routed, "floatingip", edge.floating_ip.id, "the L3 agent of host2, which is dead")
    routed.l3.start()
    wait_until(lambda: explain(routed, "floatingip", address) == (0, []))
    network.update_ip(edge.floating_ip.id, port_id=None)
    status, texts = explain(routed, "floatingip", address)
    assert (status, texts) == (0, [])


def test_resource_that_does_not_exist_is_an_error(routed: RoutedCloud) -> None:
    api = f"unix:{routed.cloud.server.socket}"
    for kind in ("port", "router", "floatingip"):
        done = subprocess.run(
            [NETFW, "explain", kind, "no-such", "--api", api],
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "is called 'no-such'" in done.stderr
