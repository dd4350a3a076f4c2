"""Names that dnsmasq serves on a network that several projects use."""

from __future__ import annotations

import pytest

from netfw.testing.lab.dhcp_client import Udhcpc
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.dhcp.environment import Site

SERVER = "10.0.0.2"


def resolve(client: Udhcpc, name: str) -> set[str]:
    """Return the addresses of *name* by the DNS server of the network."""
    words = ["busybox", "nslookup", "-type=a", f"{name}.", SERVER]
    answer = client.instance.attempt(words, timeout=20).output.split("\n\n", 1)[-1]
    return {line.split()[-1] for line in answer.splitlines() if line.startswith("Address")}


@pytest.mark.spec("DHCP-48")
def test_a_member_takes_no_name_of_another_project_or_domain(site: Site) -> None:
    site.content["networks"][0] |= {"project_id": "owner", "dns_domain": "corp.example"}
    site.port(11, project_id="owner", dns_name="db")
    site.port(12, project_id="member", dns_name="web")
    for number, name in {13: "www", 14: "db", 15: "WEB", 16: "wpad", 17: "host-10-0-0-12"}.items():
        site.port(number, project_id="attacker", dns_name=name, dns_domain="bank.example")
    site.write()
    client = site.client(11)
    site.start()
    assert client.lease() is not None
    wait_until(lambda: resolve(client, "www.corp.example") == {"10.0.0.13"})
    assert resolve(client, "www.bank.example") == set()
    assert resolve(client, "db.corp.example") == {"10.0.0.11"}
    assert resolve(client, "web.corp.example") == set(), "neither project has it"
    assert resolve(client, "wpad.corp.example") == set()
    for number in (12, 14, 15, 16, 17):
        assert resolve(client, f"host-10-0-0-{number}.corp.example") == {f"10.0.0.{number}"}
    for number in (15, 17):
        site.remove(number)
    site.write()
    wait_until(lambda: resolve(client, "web.corp.example") == {"10.0.0.12"})
