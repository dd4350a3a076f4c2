"""The DHCP agent, put together from its configuration."""

import threading
from contextlib import suppress
from ipaddress import ip_interface
from typing import Any
from uuid import UUID

import pytest

from netfw.agents.common.agent import ConvergeRequest
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.cli.agents.dhcp import PROGRAM, DhcpAgentComponents, dhcp_groups, main
from netfw.conf.loader import load_config, refuse_misspelt
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import ConfigError
from netfw.model.binding import Binding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId, PortId, SubnetId


def conf_of(tmp_path, agent="", more=""):
    path = tmp_path / "agent.conf"
    path.write_text(
        f"[DEFAULT]\nhost = here\nstate_path = {tmp_path}\n[agent]\n{agent}\n"
        f"[file]\npath = {tmp_path}/topology.yaml\n{more}"
    )
    files = ["--config-file", str(path)]
    return load_config(PROGRAM, files, dhcp_groups(files)).conf


@pytest.mark.spec("DHCP-01")
def test_drivers_are_chosen_by_name_and_bring_their_options(tmp_path):
    agent = "interface_driver = null\nnum_sync_threads = 7\nresync_interval = 3\n"
    conf = conf_of(
        tmp_path,
        f"{agent}availability_zone = north\nenable_isolated_metadata = true",
        "[dnsmasq]\ndhcp_lease_duration = 600\n",
    )
    assert refuse_misspelt(conf) == ()
    with DhcpAgentComponents(conf) as parts:
        assert str(parts) == (
            "host here, source file, interface driver null, DHCP driver dnsmasq, "
            "metadata driver haproxy"
        )
        assert parts.timing().pauses == RetryBackoff(1.0, 3.0)
        assert parts.status_path() == tmp_path / "status" / "netfw-dhcp-agent.json"
        beat = parts.agent.heartbeat(start=True)
        configurations = beat.agent.configurations.content()
        assert (configurations["dhcp_driver"], configurations["dhcp_lease_duration"]) == (
            "dnsmasq",
            600,
        )
        assert configurations["enable_isolated_metadata"] is True
        assert (beat.agent.host, beat.agent.availability_zone) == ("here", "north")


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("dhcp_driver = dnsmsq", "did you mean 'dnsmasq'"),
        ("dhcp_driver =", "dhcp_driver: name a driver"),
        ("metadata_driver =\nforce_metadata = true", "need a metadata_driver"),
        ("num_sync_threads = 0", "num_sync_threads"),
        ("resync_intervall = 5", "did you mean 'resync_interval'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_change(tmp_path, capsys, agent, message):
    with suppress(ConfigError):
        conf_of(tmp_path, agent)
    assert main(["--config-file", str(tmp_path / "agent.conf"), "--once", "--timeout", "0"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", ["token_file", "tls_ca", "tls_certificate"])
def test_missing_file_of_the_transport_ends_the_start(tmp_path, capsys, option):
    missing = tmp_path / "missing"
    conf_of(
        tmp_path, "state_source = server", f"[socket]\n{option} = {missing}\ntls_key = /dev/null"
    )
    assert main(["--config-file", str(tmp_path / "agent.conf"), "--once", "--timeout", "0"]) == 2
    error = capsys.readouterr().err
    assert f"[socket] {option}: " in error
    assert str(missing) in error


def test_without_a_metadata_driver_there_is_none(tmp_path):
    with DhcpAgentComponents(
        conf_of(tmp_path, "interface_driver = null\nmetadata_driver =")
    ) as parts:
        assert parts.metadata is None
        assert "metadata driver none" in str(parts)


ROUTED = """
from netfw.drivers.base import DriverInfo
from netfw.drivers.interface import InterfaceCapability
from netfw_drivers.null.interface import NullInterfaceDriver

class Routed(NullInterfaceDriver):
    def describe(self):
        return DriverInfo("routed", {InterfaceCapability.GATEWAY_ADDRESSES})
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs drivers of a vendor from entry points and a module."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = tmp_path / "site"
    info = site / "vendor-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor\nVersion: 1\n")

    def install(points, code=""):
        (site / "a_vendor_module.py").write_text(code)
        (info / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(str(site))

    return install


def a_network(number, **server):
    """Return a network, a subnet of it, and the port that it is served from here."""
    network = Network(id=NetworkId(UUID(int=number)))
    subnet = Subnet(
        id=SubnetId(UUID(int=number)),
        network_id=network.id,
        cidr="10.0.0.0/24",
        gateway="10.0.0.1",
    )
    port = Port(
        id=PortId(UUID(int=number)),
        network_id=network.id,
        mac=f"fa:16:3e:00:00:{number:02x}",
        device_owner="network:dhcp",
        binding=Binding(host="here"),
        **server,
    )
    return network, subnet, port


def apply_all(agent, *resources):
    changes = agent.resources.apply({ref(resource): resource for resource in resources})
    return agent.apply_delta(ReplicaDelta(changes=changes, complete=True))


@pytest.mark.spec("DHCP-21", "DHCP-45")
def test_in_a_fabric_that_routes_the_gateways_addresses_are_served_from(tmp_path, install):
    install("[netfw.interface_drivers]\nrouted = a_vendor_module:Routed\n", ROUTED)
    network, *rest = a_network(1)
    with DhcpAgentComponents(conf_of(tmp_path, "interface_driver = routed")) as parts:
        apply_all(parts.agent, network, *rest)
        dhcp, *_ = parts.agent.everything()
        wanted = dhcp.update.put[NetworkKey(network.id)]
        assert wanted.server.addresses == (ip_interface("10.0.0.1/24"),)
        driver: Any = dhcp.driver
        plan = "\n".join(driver.plan(dhcp.update, driver.observe(dhcp.update)).lines())
        assert "--bind-dynamic" in plan
        assert "--bridge-interface=tap" in plan


@pytest.mark.spec("DHCP-01", "DHCP-04")
def test_as_many_networks_are_worked_on_at_once_as_the_operator_says(tmp_path, install):
    install("[netfw.dhcp_drivers]\nfake = netfw.testing.fakes.dhcp:FakeDhcp\n")
    chosen = "interface_driver = null\ndhcp_driver = fake\nnum_sync_threads = 3"
    with DhcpAgentComponents(conf_of(tmp_path, chosen)) as parts:
        resources = []
        for number in range(1, 6):
            address = FixedIp(subnet_id=SubnetId(UUID(int=number)), address="10.0.0.2")
            resources += a_network(number, fixed_ips=(address,))
        gate = threading.Event()
        driver: Any = parts.dhcp
        driver.gates = {NetworkId(UUID(int=number)): gate for number in range(1, 6)}
        keys = apply_all(parts.agent, *resources)
        others = set(threading.enumerate())
        parts.agent.converge(ConvergeRequest(keys=keys))
        new = set(threading.enumerate()) - others
        workers = [each for each in new if each.name.startswith("netfw-worker-")]
        gate.set()
        assert len(workers) == 3
