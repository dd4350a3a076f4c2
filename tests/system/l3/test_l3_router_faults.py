"""Processes, addresses, routes and rules of a router that are killed or removed by hand."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from netfw.testing.lab.ini import ini
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.environment import fetch, is_answered, is_reached, stays_reached
from tests.system.l3.spare_router import external_address

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
METADATA_PORT = 9697


def gateway_device(edge: EdgeSite) -> str:
    ports = edge.network.ports(device_id=edge.router.id, device_owner="network:router_gateway")
    return f"qg-{next(iter(ports)).id}"[:14]


@pytest.mark.spec("L3-26", "L3-28")
@pytest.mark.parametrize(
    "fault", [signal.SIGKILL, nightly(signal.SIGSTOP)], ids=["killed", "stopped"]
)
@pytest.mark.parametrize("program", ["radvd", "haproxy"])
def test_a_killed_or_stopped_process_of_a_router_is_replaced(
    edge: EdgeSite, program: str, fault: signal.Signals
) -> None:
    before = edge.processes()
    with edge.traffic() as traffic:
        os.kill(before[program], fault)
        wait_until(lambda: edge.processes().get(program, before[program]) != before[program])
        traffic.check()
    (other,) = before.keys() - {program}
    assert edge.processes()[other] == before[other]
    web = edge.web
    wait_until(lambda: fetch(web.instance).startswith(f"vm-web {web.address(4)}"))


@pytest.mark.spec("MD-03", "MD-10")
def test_headers_of_an_instance_do_not_reach_the_metadata_service(edge: EdgeSite) -> None:
    forged = {
        "X-Forwarded-For": edge.db.address(4),
        "X-Neutron-Router-ID": edge.db.port.id,
        "X-Neutron-Network-ID": edge.green.network.id,
        "X-Instance-ID": "vm-db",
    }
    answer = fetch(edge.web.instance, forged)
    assert answer.strip() == f"vm-web {edge.web.address(4)}"
    last = edge.router_host.service.requests()[-1]["headers"]
    assert last["x-forwarded-for"] == edge.web.address(4)
    assert not {name for name in last if name.startswith("x-neutron")}


@pytest.mark.spec("L3-28", "MD-03")
def test_the_port_of_the_metadata_proxy_is_closed_to_everybody(edge: EdgeSite) -> None:
    outside = external_address(edge, edge.router)
    inside6 = f"[{edge.blue.v6.gateway_ip}]"
    assert stays_reached(edge.world, outside)
    inside = (edge.blue.v4.gateway_ip, edge.green.v4.gateway_ip, outside, inside6)
    attempts = [(edge.world, address) for address in (outside, inside6)]
    attempts += [(edge.web.instance, address) for address in inside]

    def is_open(attempt: tuple[Instance, str]) -> bool:
        instance, address = attempt
        return is_answered(instance, address, METADATA_PORT)

    with ThreadPoolExecutor(len(attempts)) as pool:  # each waits until its time is over
        found = dict(zip(attempts, pool.map(is_open, attempts), strict=True))
    assert not any(found.values()), found


@pytest.mark.spec("L3-21", "L3-22", "L3-24")
def test_what_is_changed_by_hand_is_repaired_without_an_audit(edge: EdgeSite) -> None:
    # The audit interval of the site is a day.
    device = gateway_device(edge)
    floating = edge.floating_ip.floating_ip_address
    cases: dict[str, tuple[list[str], Any]] = {
        "address": (["ip", "address", "del", f"{floating}/32", "dev", device],
                    lambda: floating in edge.in_router("ip", "address")),
        "default route": (["ip", "route", "del", "default"],
                          lambda: "default via" in edge.in_router("ip", "route")),
        "NAT rules": (["iptables", "-t", "nat", "-F"],
                      lambda: f"{floating}/32" in edge.in_router("iptables-save", "-t", "nat")),
        "policy rule": (["ip", "rule", "add", "pref", "77", "to", "203.0.113.0/24", "unreachable"],
                        lambda: "77:" not in edge.in_router("ip", "rule")),
        "policy rule of a protocol": (["ip", "rule", "add", "pref", "78", "ipproto", "tcp",
                                       "prohibit"],
                                      lambda: "78:" not in edge.in_router("ip", "rule")),
        "second default route": (["ip", "route", "prepend", "default", "dev", "lo"],
                                 lambda: "default dev lo" not in edge.in_router("ip", "route")),
        "foreign iptables rule": (["iptables", "-I", "FORWARD", "-j", "DROP"],
                                  lambda: "-A FORWARD -j DROP" not in edge.in_router(
                                      "iptables-save", "-t", "filter")),
    }  # fmt: skip
    for name, (words, is_back) in cases.items():
        assert is_back(), name
        edge.in_router(*words)
        wait_until(is_back, name)
    edge.await_reached()
    edge.await_converged()


@pytest.mark.spec("L3-24", "L3-20")
def test_rules_and_sysctls_changed_by_hand_are_repaired_by_an_audit(edge: EdgeSite) -> None:
    floating = edge.floating_ip.floating_ip_address
    edge.in_router("iptables", "-t", "nat", "-F")
    edge.in_router("sysctl", "-qw", "net.ipv4.ip_forward=0")
    agent = edge.l3
    for seconds in (0.5, 86400):
        agent.options["agent"]["audit_interval"] = seconds
        agent.conf.write_text(ini(agent.options))
        os.kill(agent.pid, signal.SIGHUP)
        wait_until(lambda: is_reached(edge.world, floating))
    edge.await_converged()


def neighbour(instance: Instance, address: str) -> str:
    """Return the MAC address that an instance has for a neighbour, empty if it has none."""
    shown = json.loads(instance.run(["ip", "-j", "neigh", "show", address]) or "[]")
    return "".join(str(each.get("lladdr", "")) for each in shown)


@contextmanager
def former_holder(edge: EdgeSite, *addresses: str) -> Iterator[str]:
    """Yield the MAC of a machine that had *addresses*, which the world learnt, and is gone now."""
    host = edge.hosts[0]
    port = edge.network.create_port(
        network_id=edge.outside.network.id, name="former", binding_host_id=host.host.name,
        fixed_ips=[{"ip_address": each} for each in addresses], port_security_enabled=False,
        security_groups=[],
    )  # fmt: skip
    former = host.plug_port(port, f"former{len(host.host.instances)}", addressed=False)
    former.configure([f"{each}/{64 if ':' in each else 24}" for each in addresses])
    for each in addresses:
        wait_until(lambda each=each: is_reached(edge.world, each))
    former.run(["ip", "link", "set", "eth0", "down"])
    edge.network.delete_port(port)
    host.unplug_port(port)
    assert {neighbour(edge.world, each) for each in addresses} == {port.mac_address}
    yield port.mac_address


@pytest.mark.spec("L3-24")
def test_a_former_holder_of_a_floating_ip_is_superseded(
    edge: EdgeSite, record_property: Any
) -> None:
    """Check that the world follows the announcement: it sends nothing itself."""
    address, outside = "203.0.113.150", edge.outside.network.id
    with former_holder(edge, address) as mac:
        floating = edge.network.create_ip(
            floating_network_id=outside, floating_ip_address=address, port_id=edge.db.port.id
        )
        words = ["iptables-save", "-t", "nat"]
        wait_until(lambda: f"{address}/32" in edge.in_router(*words), pause=0)
        in_force = time.monotonic()
        wait_until(lambda: neighbour(edge.world, address) != mac, pause=0)
        record_property("superseded after", f"{1000 * (time.monotonic() - in_force):.0f} ms")
        assert stays_reached(edge.world, address)
        edge.network.delete_ip(floating)
        wait_until(lambda: not is_reached(edge.world, address))


@pytest.mark.spec("L3-22")
def test_a_former_holder_of_a_gateway_address_is_superseded(edge: EdgeSite) -> None:
    addresses = "203.0.113.151", "2001:db8:ff::151"
    with former_holder(edge, *addresses) as mac:
        gateway = {
            "network_id": edge.outside.network.id,
            "external_fixed_ips": [{"ip_address": each} for each in addresses],
        }
        router = edge.network.create_router(name="follower", external_gateway_info=gateway)
        for each in addresses:
            wait_until(lambda each=each: neighbour(edge.world, each) != mac, each)
            assert stays_reached(edge.world, each)
        edge.network.delete_router(router)
    wait_until(lambda: not edge.has_namespace(router))
