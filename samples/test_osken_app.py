"""The sample application of os-ken beside a real agent with its firewall, as its README says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until

PROGRAM = Path(__file__).parent / "osken_app" / "beacon.py"
PORTS = {number: str(UUID(int=number)) for number in (1, 2)}
ASK = """
import socket
frame = bytes.fromhex("0200000000fe fa163e000001 88b5") + bytes(46)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88b5)) as sock:
    sock.bind((DEVICE, 0x88b5))
    sock.settimeout(1)
    for attempt in range(20):
        sock.send(frame)
        try:
            print(sock.recv(2048)[14:22].hex())
            break
        except TimeoutError:
            pass
"""


def write_topology(path: Path, host: str) -> None:
    """Write two ports of which the second can be pinged and reached by nothing else."""
    content = {
        "hosts": {host: {}},
        "networks": [{"name": "net", "network_type": "local"}],
        "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/24"}],
        "security_groups": [
            {"name": "open", "rules": [{"direction": "egress"},
                                       {"direction": "ingress", "protocol": "icmp"}]},
            {"name": "closed", "rules": [{"direction": "egress"}]},
        ],
        "ports": [
            {
                "name": f"p{n}", "id": id, "network": "net", "host": host,
                "mac_address": f"fa:16:3e:00:00:0{n}", "fixed_ips": [f"10.0.0.{n}"],
                "security_groups": [group],
            }
            for (n, id), group in zip(PORTS.items(), ("closed", "open"), strict=True)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(content))


@pytest.fixture
def host(make_lab: Any, tmp_path: Path) -> Iterator[Host]:
    """Yield a host whose agent filters by the firewall in the switch."""
    found: Host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    topology, status, conf = (tmp_path / name for name in ("topology.json", "status.json", "conf"))
    write_topology(topology, found.name)
    conf.write_text(f"""
[DEFAULT]
host = {found.name}
[agent]
firewall_driver = openflow
status_file = {status}
[openvswitch]
datapath_type = netdev
ovsdb_connection = {found.ovs.remote}
[file]
path = {topology}
""")
    agent = [sys.executable, "-m", "netfw.cli.agents.l2", "--config-file", str(conf)]
    target = found.ovs.management("br-int")
    processes = [found.spawn(agent), found.spawn([sys.executable, str(PROGRAM), target])]
    try:
        wait_until(status.exists)
        wait_until(lambda: json.loads(status.read_text())["ready"])
        yield found
    finally:
        for process in processes:
            process.kill()
            process.wait()


def instance(host: Host, number: int) -> Instance:
    return host.instance(
        f"vm{number}",
        Plug(
            bridge="br-int",
            device=f"tap{number}",
            mac=f"fa:16:3e:00:00:0{number}",
            addresses=(f"10.0.0.{number}/24",),
            external_ids={"iface-id": PORTS[number]},
        ),
    )


def beacons(host: Host) -> list[str]:
    text = host.run(["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", "br-int"])
    return [line for line in text.splitlines() if "cookie=0xbeac" in line]


def answer(asking: Instance) -> str:
    return asking.run([sys.executable, "-c", ASK.replace("DEVICE", repr(asking.device))]).strip()


@pytest.mark.spec("DRV-49")
def test_beacons_are_answered_and_the_firewall_filters_all_the_rest(host: Host) -> None:
    first, second = instance(host, 1), instance(host, 2)
    wait_until(lambda: not first.ping("10.0.0.2").lost)
    assert second.ping("10.0.0.1", count=1, timeout=0.5).lost, "the firewall does not filter"
    wait_until(lambda: len(beacons(host)) == 2)
    bridge_id = host.ovs.vsctl("get", "Bridge", "br-int", "datapath_id").strip().strip('"')
    assert answer(first) == bridge_id
    host.restart_switch()
    wait_until(lambda: len(beacons(host)) == 2)
    wait_until(lambda: not first.ping("10.0.0.2").lost)
    assert answer(first) == bridge_id
    assert second.ping("10.0.0.1", count=1, timeout=0.5).lost
