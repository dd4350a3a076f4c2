"""An instance, a real proxy, the real agent, and what the metadata service is told in the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from netfw.agents.metadata.headers import signature
from netfw.drivers.metadata import MetadataDriver, MetadataProxy
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey
from netfw.model.values.ids import NetworkId
from netfw.plan import Update
from netfw.testing.conformance.metadata.lab_environment import ClientNetns, ip
from netfw.testing.conformance.metadata.requests import MALFORMED, request
from netfw.testing.lab import sandbox
from tests.lab.agents.metadata.environment import NETWORK, PROJECT, SECRET, Agent
from tests.lab.agents.metadata.recording_service import RecordingService, Response

DEVICE = "tap-meta"
METADATA = ip_address("169.254.169.254")
METADATA6 = ip_address("fe80::a9fe:a9fe")
CLIENT = "10.9.8.5"
GUEST6 = "fe80::f816:3eff:fe00:105"
TOPOLOGY = f"""
hosts: {{host1: {{}}}}
networks: [{{id: {NETWORK}, name: blue, network_type: local}}]
subnets: [{{name: blue4, network: blue, cidr: 10.9.8.0/24}}]
ports:
  - {{name: guest, network: blue, project_id: {PROJECT}, host: host1, device_id: guest-1,
     mac_address: "fa:16:3e:00:01:05", fixed_ips: [{CLIENT}]}}
  - {{name: victim, network: blue, project_id: {PROJECT}, host: host1, device_id: victim-1,
     fixed_ips: [10.9.8.6]}}
"""
ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"


class Way:
    """From a guest in a namespace to a service."""

    def __init__(self, directory: Path) -> None:
        self.service = RecordingService()
        user = "" if ONE_USER else "haproxy"
        self.agent = Agent(
            directory / "agent", self.service.port, metadata={"metadata_proxy_user": user}
        )
        self.agent.topology.write_text(TOPOLOGY)
        self.agent.start()
        self.room = ClientNetns("meta", DEVICE)
        ip("-n", "meta-guest", "addr", "delete", "fe80::5/64", "dev", "eth0")
        ip("-n", "meta-guest", "addr", "add", f"{GUEST6}/64", "dev", "eth0", "nodad")
        values = {
            "metadata_proxy_socket": str(self.agent.socket),
            "metadata_proxy_confs": str(directory / "confs"),
            "metadata_proxy_user": user or None,
            "metadata_proxy_syslog": "",
        }
        self.driver = create(MetadataDriver, "haproxy", values, LocalHostResources())
        proxy = MetadataProxy(netns="meta", addresses=(METADATA,), device=DEVICE)
        self.outcome = self.driver.converge(Update(put={NetworkKey(NetworkId(NETWORK)): proxy}))

    def close(self) -> None:
        self.driver.gc(())
        self.driver.close()
        self.room.remove()
        self.agent.stop()
        self.service.close()


@pytest.fixture(scope="module")
def whole_way() -> Iterator[Way]:
    sandbox.require()
    directory = Path(tempfile.mkdtemp(prefix="way-", dir="/run"))
    directory.chmod(0o755)
    way = Way(directory)
    yield way
    way.close()
    shutil.rmtree(directory)


@pytest.fixture
def way(whole_way: Way) -> Way:
    assert whole_way.outcome.ok, whole_way.outcome
    whole_way.service.seen.clear()
    whole_way.service.behave = lambda _: Response(body=b"for you\n")
    return whole_way


def check_arrivals(way: Way, source: str) -> None:
    """Check that each request that arrived names the guest, signed, and no other instance."""
    for seen in way.service.seen:
        assert seen.values("X-Instance-ID") == ["guest-1"], seen
        assert seen.values("X-Instance-ID-Signature") == [signature(SECRET, "guest-1")]
        assert seen.values("X-Tenant-ID") == [PROJECT]
        assert seen.values("X-Forwarded-For") == [source]
        assert not seen.values("X-Neutron-Network-ID")
        assert "hidden" not in seen.target


@pytest.mark.spec("MD-01", "MD-05", "MD-06", "MD-10")
@pytest.mark.parametrize(
    ("address", "source"), [(METADATA, CLIENT), (METADATA6, GUEST6)], ids=["IPv4", "IPv6"]
)
def test_an_instance_gets_its_own_metadata(way: Way, address: object, source: str) -> None:
    answer = way.room.ask(address, 80, request(line=b"GET /openstack?x=1 HTTP/1.1"))  # type: ignore[arg-type]
    assert answer.startswith(b"HTTP/1.1 200 "), (answer, way.agent.log.read_text()[-2000:])
    assert answer.endswith(b"for you\n")
    assert [seen.target for seen in way.service.seen] == ["/openstack?x=1"]
    check_arrivals(way, source)


@pytest.mark.spec("MD-10")
@pytest.mark.parametrize("name", MALFORMED)
def test_whatever_a_guest_sends_it_is_itself(way: Way, name: str) -> None:
    way.room.ask(METADATA, 80, MALFORMED[name])
    check_arrivals(way, CLIENT)
    assert way.room.ask(METADATA, 80, request()).endswith(b"for you\n")
    check_arrivals(way, CLIENT)


def test_an_instance_can_store_its_password(way: Way) -> None:
    word = request(
        b"Content-Length: 8", line=b"POST /openstack/latest/password HTTP/1.1", body=b"password"
    )
    assert way.room.ask(METADATA, 80, word).startswith(b"HTTP/1.1 200 ")
    [seen] = way.service.seen
    assert (seen.method, seen.body) == ("POST", b"password")


@pytest.mark.spec("MD-07")
def test_an_agent_that_is_away_is_503_and_comes_back(way: Way) -> None:
    way.agent.stop()
    try:
        answer = way.room.ask(METADATA, 80, request())
        assert answer.startswith(b"HTTP/1.1 503 "), answer
    finally:
        way.agent.start()
    assert way.room.ask(METADATA, 80, request()).endswith(b"for you\n")
