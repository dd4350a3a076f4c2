"""The sample extension in the real agent, on a real switch, as its README says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until

SAMPLE = Path(__file__).parent / "l2_extension"
PORTS = {number: str(UUID(int=number)) for number in (1, 2, 3)}
CLINIC = "10.0.0.3"


class QuarantineHost:
    """A host whose agent runs with the extension; port 3 is the clinic."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        self.topology, self.list = directory / "topology.json", directory / "quarantine"
        self.status, self.conf = directory / "status.json", directory / "agent.conf"
        self.log = directory / "log"
        self.write()
        self.conf.write_text(f"""
[DEFAULT]
host = {host.name}
log_file = {self.log}
[agent]
extensions = quarantine
status_file = {self.status}
[openvswitch]
datapath_type = netdev
ovsdb_connection = {host.ovs.remote}
[quarantine]
clinic = {CLINIC}/32
list_file = {self.list}
[file]
path = {self.topology}
poll = 0.05
debounce = 0
""")
        write_distribution_metadata(directory / "site")
        path = os.pathsep.join([str(directory / "site"), str(SAMPLE / "src")])
        self.process: subprocess.Popen[bytes] = host.spawn(
            [sys.executable, "-m", "netfw.cli.agents.l2", "--config-file", str(self.conf)],
            env={**os.environ, "PYTHONPATH": path},
        )

    def write(self, **tags: list[str]) -> None:
        ports = [
            {
                "name": f"p{n}", "id": id, "network": "net", "host": self.host.name,
                "mac_address": f"fa:16:3e:00:00:0{n}", "fixed_ips": [f"10.0.0.{n}"],
                "tags": tags.get(f"p{n}", []),
            }
            for n, id in PORTS.items()
        ]  # fmt: skip
        content = {
            "hosts": {self.host.name: {}},
            "networks": [{"name": "net", "network_type": "local"}],
            "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/24"}],
            "ports": ports,
        }
        new = self.topology.with_suffix(".new")
        new.write_text(json.dumps(content))
        new.rename(self.topology)

    def instance(self, number: int) -> Instance:
        return self.host.instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=f"fa:16:3e:00:00:0{number}",
                addresses=(f"10.0.0.{number}/24",),
                external_ids={"iface-id": PORTS[number]},
            ),
        )

    def flows(self) -> list[str]:
        text = self.host.run(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "br-int", "table=100"])
        return [line for line in text.splitlines() if "priority=10," in line]


def write_distribution_metadata(directory: Path) -> None:
    """Write the metadata by which an installed sample is found."""
    metadata = directory / "acme_quarantine-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-quarantine\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[netfw.l2_extensions]\nquarantine = acme_quarantine:Quarantine\n"
    )


@pytest.fixture
def host(make_lab: Any, tmp_path: Path) -> Iterator[QuarantineHost]:
    lab = make_lab(hosts=1, bridges=["br-int"])
    host = QuarantineHost(lab.hosts["host1"], tmp_path)
    wait_until(host.status.exists)
    wait_until(lambda: json.loads(host.status.read_text())["ready"])
    yield host
    host.process.kill()
    host.process.wait()


@pytest.mark.spec("L2-25", "DRV-33")
def test_a_port_in_quarantine_reaches_only_the_clinic(host: QuarantineHost) -> None:
    sick, _, _ = (host.instance(number) for number in PORTS)
    wait_until(lambda: not sick.ping("10.0.0.2").lost)
    host.write(p1=["quarantine"])
    wait_until(lambda: len(host.flows()) == 1)
    assert sick.ping("10.0.0.2", count=1, timeout=0.3).lost
    wait_until(lambda: not sick.ping(CLINIC).lost)
    host.write()
    wait_until(lambda: not sick.ping("10.0.0.2").lost)
    assert host.flows() == []


def test_listed_ports_get_flows_again_after_deletion_and_restart(host: QuarantineHost) -> None:
    sick, _, _ = (host.instance(number) for number in PORTS)
    wait_until(lambda: not sick.ping("10.0.0.2").lost)
    host.list.write_text(PORTS[1])
    wait_until(host.flows)
    host.host.run(["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "br-int", "table=100"])
    wait_until(host.flows)
    host.host.restart_switch()
    wait_until(host.flows)
    wait_until(lambda: not sick.ping(CLINIC).lost)
    assert sick.ping("10.0.0.2", count=1, timeout=0.3).lost
    host.host.ovs.vsctl("del-port", "tap1")
    wait_until(lambda: not host.flows())


def test_an_invalid_list_changes_nothing(host: QuarantineHost) -> None:
    sick, _, _ = (host.instance(number) for number in PORTS)
    host.list.write_text(PORTS[1])
    wait_until(host.flows)
    host.list.write_text("all of them")
    wait_until(lambda: "not a list of port ids" in host.log.read_text())
    assert len(host.flows()) == 1
    assert sick.ping(CLINIC).lost == 0
