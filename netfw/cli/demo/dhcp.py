"""Demo section 5: instances get their addresses by DHCP, and fetch metadata."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from typing import Any

from netfw.cli.demo.agents import becomes_true, files_named, reached
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.server import Cloud
from netfw.model.values.device_names import DHCP_NAMESPACE
from netfw.testing.lab.dhcp_client import Udhcpc
from netfw.testing.lab.dhcp_lease import ClientLease
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

METADATA = "http://169.254.169.254/latest/meta-data/instance-id"
DNS = "192.0.2.53"
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def demo_dhcp(report: DemoReport, cloud: Cloud) -> None:
    """Start DHCP and metadata agents; boot an instance up to its metadata."""
    _start(report, cloud)
    clients = _lease(report, cloud)
    try:
        _fetch(report, clients["mint1"])
        _die(report, cloud, clients["mint1"])
        _remove(report, cloud)
    finally:
        for client in clients.values():
            client.close()


def use_routes(instance: Instance, lease: ClientLease) -> None:
    """Install the routes of a lease as the instance's own system would."""
    commands = [f"route replace {each.destination} via {each.nexthop}" for each in lease.routes]
    commands += [f"route replace default via {gateway}" for gateway in lease.gateways]
    instance.namespaces.ip(*commands)


def fetch(instance: Instance, headers: dict[str, str] | None = None) -> str:
    """Fetch a metadata path from within an instance."""
    request = urllib.request.Request(METADATA, headers=headers or {})

    def ask() -> str:
        with _DIRECTLY.open(request, timeout=10) as answer:
            return str(answer.read().decode())

    return instance.call(ask)


def _start(report: DemoReport, cloud: Cloud) -> None:
    report.step(
        "Start DHCP and metadata agents on both hosts",
        [
            "netfw-dhcp-agent runs dnsmasq and haproxy; netfw-metadata-agent signs what they pass",
            "on to the metadata service: here a small one of the lab, which answers who asked, and",
            "403 to a wrong signature",
        ],
    )
    for each in cloud.hosts:
        each.service.start()
        seconds = each.metadata.start() + each.dhcp.start()
        report.say(f"ready on {each.host.name} after {seconds:.1f} s")
    wait_until(lambda: len(list(cloud.network.agents())) == 6, "all agents are known")
    report.check("six agents are alive", all(each.is_alive for each in cloud.network.agents()))


def _lease(report: DemoReport, cloud: Cloud) -> dict[str, Udhcpc]:
    report.step("Boot instances that know nothing", ["ports by the API, then a real DHCP client:"])
    mint = cloud.network.create_network(name="mint")
    cloud.network.create_subnet(
        network_id=mint.id,
        cidr="10.3.0.0/24",
        ip_version=4,
        dns_nameservers=[DNS],
        host_routes=[{"destination": "198.51.100.0/24", "nexthop": "10.3.0.9"}],
    )
    clients = {}
    for number, each in enumerate(cloud.hosts, 1):
        name = f"mint{number}"
        began = time.monotonic()
        port = cloud.network.create_port(
            network_id=mint.id, name=name, device_id=f"vm-{name}", binding_host_id=each.host.name
        )
        client = clients[name] = Udhcpc(each.plug_port(port, addressed=False))
        lease = client.lease()
        took = time.monotonic() - began
        wanted = port.fixed_ips[0]["ip_address"]
        first = ", its network's server included" if number == 1 else ""
        report.check(
            f"{name} has {wanted} by DHCP, {took:.1f} s after its port was asked for{first}",
            lease is not None and str(lease.ip) == wanted,
        )
        if lease is not None:
            use_routes(client.instance, lease)
            if number == 1:
                _describe(report, lease)
    target = cloud.named("mint2").fixed_ips[0]["ip_address"]
    ok = reached(clients["mint1"].instance, target)
    report.check("and the two ping each other across hosts", ok)
    return clients


def _describe(report: DemoReport, lease: ClientLease) -> None:
    received: dict[str, Any] = {
        "gateway": ", ".join(map(str, lease.gateways)),
        "DNS": ", ".join(map(str, lease.dns)),
        "MTU": lease.mtu,
        "domain": lease.domain,
        "routes": ", ".join(sorted(str(each.destination) for each in lease.routes)),
    }
    report.quote(f"{name}: {value}" for name, value in received.items())


def _fetch(report: DemoReport, client: Udhcpc) -> None:
    report.step("Ask who I am", [f"from mint1: GET {METADATA}"])
    answer = fetch(client.instance).split()
    report.quote([" ".join(answer)])
    report.check("the metadata service knows the instance, by a signed id", answer[0] == "vm-mint1")
    claims = {"X-Instance-ID": "vm-mint2", "X-Forwarded-For": "10.3.0.77"}
    report.say("the same, with headers of its own:")
    report.quote(f"{name}: {value}" for name, value in claims.items())
    forged = fetch(client.instance, claims)
    report.check("a forged instance id is ignored", forged.split() == answer)


def _die(report: DemoReport, cloud: Cloud, client: Udhcpc) -> None:
    report.step("Kill it all", ["kill -9: the DHCP agents; later dnsmasq, too"])
    before = client.renew()
    for each in cloud.hosts:
        each.dhcp.kill()
    report.check("without any agent, mint1 renews its lease", client.renew() == before)
    for each in cloud.hosts:
        for pid_file in each.dhcp.directory.glob("dhcp/*/pid"):
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
            report.say(f"the dnsmasq of {each.host.name} is dead; the agents are started again")
    for each in cloud.hosts:
        each.dhcp.start()
    report.check("and again it renews, for the same address", client.renew() == before)


def _remove(report: DemoReport, cloud: Cloud) -> None:
    report.step("Delete the network", ["and look for what was made for it"])
    for port in list(cloud.network.ports(device_owner="")):
        cloud.network.delete_port(port.id)
    mint = cloud.network.find_network("mint", ignore_missing=False)
    cloud.network.delete_network(mint.id)

    gone = becomes_true(lambda: not _remains(cloud, str(mint.id)))
    report.check("no namespace, process or file of it is left", gone)


def _remains(cloud: Cloud, network: str) -> list[str]:
    """Return namespaces, files and processes that have the id of the network in their name."""
    found = []
    for each in cloud.hosts:
        words = each.host.run(["ip", "netns"]).split()
        found += [name for name in words if name.startswith(DHCP_NAMESPACE)]
        found += files_named(each.dhcp.directory, network)
        found += each.host.attempt(["pgrep", "-f", network]).output.split()
    return found
