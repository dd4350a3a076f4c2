"""Which networks have a metadata proxy, and in whose name it asks: the operator's choices."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from netfw.testing.conformance.metadata.recording_agent import RecordingAgent
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.dhcp.environment import NETWORK, Site

ROUTER, OTHER = str(UUID(int=77)), str(UUID(int=78))
PROXY = (b"haproxy",)


@pytest.fixture
def upstream() -> Iterator[RecordingAgent]:
    """Yield a metadata agent in a directory that the users of proxies can enter."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        with RecordingAgent(directory / "socket") as made:
            yield made


def router_port(site: Site, number: int, router: str, address: str) -> None:
    owner = {"device_owner": "network:router_interface", "device_id": router}
    site.port(number, **owner, fixed_ips=[address])


def choose(site: Site, upstream: RecordingAgent, name: str) -> None:
    site.dhcp.options["agent"][name] = "true"
    site.dhcp.options["haproxy"] = {
        "metadata_proxy_syslog": "",
        "metadata_proxy_socket": upstream.path,
    }


def asked_for(upstream: RecordingAgent) -> list[tuple[list[str], list[str]]]:
    """Return the networks and routers in whose name requests were made."""
    names = ("x-neutron-network-id", "x-neutron-router-id")
    return [tuple(each.values(name) for name in names) for each in upstream.take()]


@pytest.mark.nightly
@pytest.mark.spec("DHCP-60", "MD-01", "MD-02")
def test_where_it_is_forced_a_proxy_runs_also_where_a_router_leads(site, upstream):
    choose(site, upstream, "force_metadata")
    site.port(11)
    router_port(site, 1, ROUTER, "10.0.0.1")
    site.write()
    client = site.client(11)
    site.start()
    assert client.lease() is not None
    assert site.answer(client) == "200"
    assert asked_for(upstream) == [([NETWORK], [])]
    site.content["subnets"][0]["enable_dhcp"] = False
    site.write()
    wait_until(lambda: not site.processes(), "without DHCP there is neither server nor proxy")


@pytest.mark.spec("DHCP-60", "DHCP-61", "MD-01", "MD-10")
def test_a_metadata_network_has_the_proxy_of_its_one_router(site, upstream):
    choose(site, upstream, "enable_metadata_network")
    site.content["subnets"][0]["cidr"] = "169.254.0.0/16"
    site.content["ports"][0]["fixed_ips"] = ["169.254.0.2"]
    site.port(11, fixed_ips=["169.254.0.11"])
    router_port(site, 1, ROUTER, "169.254.0.1")
    site.write()
    client = site.client(11)
    site.start()
    assert client.lease() is not None
    assert fetched(client) == "200"
    assert asked_for(upstream) == [([], [ROUTER])]
    proxies = site.processes(ROUTER, PROXY)
    site.dhcp.kill()
    site.dhcp.start()
    assert site.processes(ROUTER, PROXY) == proxies, "whose it is outlives the agent"
    router_port(site, 3, OTHER, "169.254.0.3")
    site.write()
    site.dhcp.wait_for(lambda status: "remove all but one" in str(status["degraded"]))
    wait_until(lambda: not site.processes(ROUTER, PROXY), "it is nobody's")
    assert client.renew() is not None
    site.dhcp.kill()
    site.remove(1)
    site.write()
    site.dhcp.start()
    assert fetched(client) == "200"
    assert asked_for(upstream) == [([], [OTHER])]


def fetched(client) -> str:
    words = ["curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"]
    return client.instance.attempt([*words, "http://169.254.169.254/latest"]).output
