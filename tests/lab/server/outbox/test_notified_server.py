"""A whole server tells its drivers and outside parties, and ports wait for the drivers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from netfw.cli.server.components import PROGRAM, ServerComponents, server_groups
from netfw.conf.loader import load_config
from netfw.drivers.server.query import RequestContext
from tests.lab.server.l2.port_processes import active_report
from tests.server.core.agent_samples import beat
from tests.unit.backends.notifiers.http_receiver import listening

ADMIN = RequestContext(project_id="p", admin=True)
CONF = """
[DEFAULT]
state_path = {state}
notifiers = webhook, compute
[database]
connection = sqlite:///{state}/netfw.db
[ml2]
mechanism_drivers = openvswitch, logger
tenant_network_types = vxlan
[vxlan]
vni_ranges = 1:100
[webhook]
urls = {party}/hook
resource_types = port
[compute]
endpoint = {party}/v2.1
auth = none
"""


@pytest.mark.spec("API-14")
@pytest.mark.spec("ML2-03")
def test_a_plugged_port_is_active_and_the_compute_service_is_notified(
    tmp_path: Path,
) -> None:
    with listening() as party:
        file = tmp_path / "netfw.conf"
        file.write_text(CONF.format(state=tmp_path, party=party.url), encoding="utf-8")
        argv = ["--config-file", str(file)]
        with ServerComponents(load_config(PROGRAM, argv, server_groups(argv)).conf) as parts:
            parts.start()
            parts.handle_reports([beat("h1", tunnel_types=["vxlan"], bridge_mappings={})])
            port = _port(parts)
            assert port["binding:vif_type"] == "ovs"
            parts.handle_reports([active_report(port)])
            show = parts.plugins["port"].show
            _wait(lambda: show(ADMIN, "port", port["id"])["status"] == "ACTIVE")
            _wait(lambda: len(_events(party.bodies)) == 3)
            assert sorted(_events(party.bodies)) == [
                "network-vif-plugged",
                "port.create",
                "port.update",
            ]
            _wait(lambda: parts.state()["netfw_outbox_waiting"] == 0)
            assert parts.state()["netfw_outbox_refused"] == 0


@pytest.mark.spec("API-14", "ML2-08")
def test_the_compute_service_is_notified_when_the_target_of_a_migration_is_ready(
    tmp_path: Path,
) -> None:
    with listening() as party:
        file = tmp_path / "netfw.conf"
        file.write_text(CONF.format(state=tmp_path, party=party.url), encoding="utf-8")
        argv = ["--config-file", str(file)]
        with ServerComponents(load_config(PROGRAM, argv, server_groups(argv)).conf) as parts:
            parts.start()
            for host in ("h1", "h2"):
                parts.handle_reports([beat(host, tunnel_types=["vxlan"], bridge_mappings={})])
            port = _port(parts)
            parts.handle_reports([active_report(port)])
            _wait(lambda: _events(party.bodies).count("network-vif-plugged") == 1)
            body = {"port_id": port["id"], "host": "h2", "vnic_type": "normal", "profile": {}}
            parts.plugins["binding"].create(ADMIN, "binding", [body])
            prepared = parts.plugins["port"].show(ADMIN, "port", port["id"])
            ready = evolve(active_report(prepared), host="h2")
            for ignored in (evolve(ready, revision=1), evolve(ready, host="h3")):
                parts.handle_reports([ignored])
            parts.handle_reports([ready])
            _wait(lambda: parts.state()["netfw_outbox_waiting"] == 0)
            assert _events(party.bodies).count("network-vif-plugged") == 2
            assert _events(party.bodies).count("port.update") == 2  # its status, and its binding
            shown = parts.plugins["port"].show(ADMIN, "port", port["id"])
            assert (shown["status"], shown["binding:host_id"]) == ("ACTIVE", "h1")


def _port(parts: ServerComponents) -> Any:
    def create(name: str, **body: Any) -> Any:
        return parts.plugins[name].create(ADMIN, name, [{"project_id": "p", **body}])[0]

    network = create("network")["id"]
    create("subnet", network_id=network, cidr="10.0.0.0/24", ip_version=4, enable_dhcp=False)
    return create(
        "port",
        **{"network_id": network, "binding:host_id": "h1"},
        device_owner="compute:nova",
        device_id="server-1",
    )


def _events(bodies: list[Any]) -> list[str]:
    return [each.get("event_type") or each["name"] for body in bodies for each in body["events"]]


def _wait(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
