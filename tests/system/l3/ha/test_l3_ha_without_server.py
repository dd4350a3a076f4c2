"""A highly available router of a file on two hosts: the agents, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from attrs import frozen

from netfw.testing.lab import sandbox
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests import ROOT
from tests.system.file_hosts import FileHost
from tests.system.l3.environment import (
    FileSite,
    fetch,
    file_site,
    is_reached,
    prefer_switch,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.nightly]
SAMPLE = ROOT / "samples/topologies/ha-router.yaml"
FLOATING_IP, OUTSIDE = "203.0.113.100", "203.0.113.1"


@frozen
class HaFileSite:
    """Two hosts of a router, an instance behind it, and a machine outside."""

    site: FileSite
    web: Instance
    world: Instance

    @property
    def hosts(self) -> Mapping[str, FileHost]:
        return self.site.hosts

    def roles(self) -> Mapping[str, str]:
        """Return the roles in the status files, by host."""
        found: dict[str, str] = {}
        for name in self.hosts:
            text = Path(f"{self.site.path}.status.{name}.l3.json").read_text()
            lines = json.loads(text)["resources"]
            found.update((name, line["role"]) for line in lines if "role" in line)
        return found

    def await_one_active(self) -> tuple[FileHost, FileHost]:
        """Wait until one host is active by the reports; return it and the other one."""

        def by_role() -> dict[str, str] | None:
            roles = {role: name for name, role in self.roles().items()}
            return roles if roles.keys() == {"active", "standby"} else None

        found = wait_until(by_role, self.roles)
        assert found is not None
        return self.hosts[found["active"]], self.hosts[found["standby"]]

    def await_roles(self, active: FileHost, standby: FileHost) -> None:
        """Wait until the hosts have reported these roles."""
        expected = {active.host.name: "active", standby.host.name: "standby"}
        wait_until(lambda: self.roles() == expected, self.roles)

    def await_traffic(self) -> None:
        """Wait until the gateway, the floating IP and metadata work."""
        wait_until(lambda: is_reached(self.web, OUTSIDE))
        wait_until(lambda: is_reached(self.world, FLOATING_IP))
        wait_until(lambda: fetch(self.web).startswith("vm-web1 10.0.1.11"), lambda: fetch(self.web))


@pytest.fixture(scope="module")
def site() -> Iterator[HaFileSite]:
    """Yield a site that works; each test leaves it so."""
    sandbox.require()
    with file_site(SAMPLE) as made:
        for host in made.hosts.values():
            prefer_switch(host.host)
        yield HaFileSite(made, made.boot("web1", "10.0.1.1"), made.boot("world"))


def stop_keepalived(host: FileHost) -> None:
    """Stop the keepalived of the router on a host, as an operator would."""
    host.host.run(["pkill", "-TERM", "-o", "-f", f"^keepalived .*{host.serving.directory}"])


def addresses(host: FileHost) -> str:
    """Return the addresses of the router on a host, but for those of the HA network."""
    (netns,) = (n.split()[0] for n in host.host.run(["ip", "netns"]).splitlines() if "qrouter" in n)
    lines = host.host.run(["ip", "-n", netns, "-br", "address"]).splitlines()
    return "\n".join(line for line in lines if line.startswith(("qr-", "qg-")))


@pytest.mark.spec("L3-40", "L3-41", "L3-42", "MD-03")
def test_restart_of_the_agents_changes_no_role_and_loses_nothing(site: HaFileSite) -> None:
    active, standby = site.await_one_active()
    site.await_traffic()
    assert "10.0.1.1/24" in addresses(active)
    assert FLOATING_IP in addresses(active)
    assert "/" not in addresses(standby), "a standby has an address"
    with (
        site.web.pinging(OUTSIDE, timeout=TIMEOUT) as out,
        site.world.pinging(FLOATING_IP, timeout=TIMEOUT) as inside,
    ):
        for host in site.hosts.values():
            host.serving.kill()
            host.serving.start()
        site.await_roles(active, standby)
        assert [ping.stop().lost for ping in (out, inside)] == [0, 0]


@pytest.mark.spec("L3-41", "L3-42", "MD-03")
def test_failover_without_agents_is_complete_and_reported_afterwards(site: HaFileSite) -> None:
    active, standby = site.await_one_active()
    site.await_traffic()
    for host in site.hosts.values():
        host.serving.kill()
    stop_keepalived(active)
    wait_until(lambda: FLOATING_IP in addresses(standby))
    site.await_traffic()
    for host in site.hosts.values():
        host.serving.start()
    site.await_roles(standby, active)
    site.await_traffic()


@pytest.mark.spec("L3-41", "DRV-21")
def test_status_files_have_no_role_of_a_router_that_is_not_on_the_host(site: HaFileSite) -> None:
    active, standby = site.await_one_active()
    assignments = site.site.content["assignments"]
    (left,) = (each for each in assignments if each["host"] == active.host.name)
    assignments.remove(left)
    site.site.write()
    wait_until(lambda: site.roles() == {standby.host.name: "active"}, site.roles)
    assignments.append(left)
    (router,) = site.site.content["routers"]
    router["admin_state_up"] = False
    site.site.write()
    wait_until(lambda: site.roles() == dict.fromkeys(site.hosts, "fault"), site.roles)
    del router["admin_state_up"]
    site.site.write()
    site.await_one_active()
    site.await_traffic()
