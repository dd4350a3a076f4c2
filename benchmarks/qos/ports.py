"""Bandwidth of a limited port, by the L2 agent with the extension ``qos``, against its limit.

Two instances on one host.  The limit counts frames; iperf3 counts payload, of which a full frame of
TCP has 96 %.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from benchmarks.figure import Figure
from benchmarks.iperf import bandwidth, deviation
from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until

LIMITS = (10, 100)
"""Megabits a second."""


def figures() -> Iterator[Figure]:
    """Yield the figures of this file."""
    sandbox.require()
    with Lab(hosts=1, bridges=["br-int"]) as lab:
        (host,) = lab.hosts.values()
        yield from _figures(host, lab)


def _figures(host: Host, lab: Lab) -> Iterator[Figure]:
    topology = host.directory / "topology.json"
    _write(topology, host.name, LIMITS[0])
    agent = PrivateAgent(host, host.directory / "l2", "netfw.cli.agents.l2", _options(host))
    agent.start()
    one, two = (
        host.instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=_mac(number),
                addresses=(f"10.0.0.{number}/24",),
                external_ids={
                    "iface-id": _id(number),
                    "attached-mac": _mac(number),
                    "iface-status": "active",
                },
            ),
        )
        for number in (1, 2)
    )
    wait_until(lambda: not one.ping("10.0.0.2").lost)
    for limit in LIMITS:
        _write(topology, host.name, limit)
        wait_until(lambda: f"rate={limit * 1000} " in _meters(host))  # noqa: B023
        for udp in (False, True):
            for reverse in (False, True):
                rate = bandwidth(one, two, "10.0.0.2", udp=udp, reverse=reverse, limit=limit)
                way = f"{'UDP' if udp else 'TCP'} {'to' if reverse else 'from'} the instance"
                yield deviation(f"qos: {limit} Mbit/s, {way}", rate, limit)
    agent.stop()


def _options(host: Host) -> dict[str, dict[str, object]]:
    return {
        "agent": {"extensions": "qos", "firewall_driver": ""},
        "file": {
            "path": host.directory / "topology.json",
            "status_path": host.directory / "said",
            "poll": 0.1,
            "debounce": 0,
        },
        "openvswitch": {
            "datapath_type": "netdev",
            "ovsdb_connection": host.ovs.remote,
            "tunnel_types": "",
        },
    }


def _write(topology: Path, host: str, limit: int) -> None:
    rules = [
        {
            "id": _id(10 + number),
            "type": "bandwidth_limit",
            "max_kbps": limit * 1000,
            "direction": direction,
        }
        for number, direction in enumerate(("ingress", "egress"))
    ]
    content = {
        "networks": [{"name": "net", "network_type": "local"}],
        "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/24"}],
        "qos_policies": [{"name": "limited", "rules": rules}],
        "ports": [
            {
                "name": f"port{number}",
                "id": _id(number),
                "network": "net",
                "host": host,
                "mac_address": _mac(number),
                "fixed_ips": [f"10.0.0.{number}"],
                **({"qos_policy": "limited"} if number == 1 else {}),
            }
            for number in (1, 2)
        ],
    }
    fresh = topology.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.rename(topology)


def _meters(host: Host) -> str:
    return host.ovs.ofctl("-O", "OpenFlow14", "dump-meters", host.ovs.management("br-int"))


def _id(number: int) -> str:
    return str(UUID(int=number << 96))


def _mac(number: int) -> str:
    return f"fa:16:3e:00:00:{number:02x}"
