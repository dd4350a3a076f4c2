"""The site of the compose file: its agents report, and instances of two hosts reach each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests import ROOT
from tests.containers.site import Site, running

pytestmark = [pytest.mark.timeout(1800), pytest.mark.spec("DRV-48")]
HOSTS = ("host1", "host2")
START_SECONDS = 300.0


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    listed = Path("/proc/net/dev").read_text().splitlines()[2:]
    links = {line.partition(":")[0].strip() for line in listed}
    assert links == {"lo"}, "make containers runs this in a network of its own"
    with running(ROOT / ".netfw" / "containers") as made:
        yield made


def agents(site: Site) -> set[tuple[str, str]]:
    done = site.try_on("server", "test", "-S", "/run/netfw/api.sock")
    if done.returncode:
        return set()
    found: list[dict[str, Any]] = site.api("GET", "/v2.0/agents")["agents"]
    return {(each["binary"], each["host"]) for each in found if each["alive"]}


def create(site: Site, kind: str, **values: object) -> dict[str, Any]:
    made: dict[str, Any] = site.api("POST", f"/v2.0/{kind}s", {kind: values})[kind]
    return made


def test_agents_of_both_hosts_report_to_the_server(site: Site) -> None:
    kinds = ("ovs", "dhcp", "l3", "metadata")
    wanted = {(f"netfw-{kind}-agent", host) for kind in kinds for host in HOSTS}
    wait_until(lambda: agents(site) == wanted, lambda: agents(site), seconds=START_SECONDS)
    status = site.on("server", "sh", "-c", "cat /proc/$(pgrep -o netfw-server)/status")
    assert "CapBnd:\t0000000000000000" in status


def test_instances_of_two_hosts_get_leases_and_reach_each_other(site: Site) -> None:
    network = create(site, "network", name="blue", **{"provider:network_type": "vxlan"})
    create(site, "subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    addresses = [plug(site, host, network["id"], number) for number, host in enumerate(HOSTS)]
    ping = ("ping", "-c", "1", "-W", "1", "-I", "tap1", addresses[1])
    wait_until(lambda: site.try_on("host1", *ping).returncode == 0, seconds=START_SECONDS)


def plug(site: Site, host: str, network: str, number: int) -> str:
    """Plug an instance into a host; return the address of its lease."""
    mac = f"fa:16:3e:00:00:0{number}"
    port = create(site, "port", network_id=network, mac_address=mac, **{"binding:host_id": host})
    ids = {"iface-id": port["id"], "attached-mac": f'"{mac}"', "iface-status": "active"}
    words = [f"external_ids:{name}={value}" for name, value in ids.items()]
    device = ("add-port", "br-int", "tap1", "--", "set", "Interface", "tap1", "type=internal")
    site.on(host, "ovs-vsctl", *device, f'mac="{mac}"', *words)
    up = ("ip", "link", "set", "tap1", "mtu", "1400", "up")
    wait_until(lambda: site.try_on(host, *up).returncode == 0)
    address: str = port["fixed_ips"][0]["ip_address"]
    lease = ("udhcpc", "-i", "tap1", "-n", "-q", "-f", "-t", "5", "-s", "/bin/true")
    expected = f"lease of {address}"
    wait_until(lambda: expected in site.try_on(host, *lease).stderr, seconds=START_SECONDS)
    site.on(host, "ip", "address", "add", f"{address}/24", "dev", "tap1")
    return address
