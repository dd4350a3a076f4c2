"""The DHCP agent, put together from its configuration."""

from contextlib import suppress
from ipaddress import ip_interface
from uuid import UUID

import pytest

from netfw.agents.agenda import Pauses
from netfw.agents.replica import Change
from netfw.cli.dhcp_agent import main
from netfw.cli.dhcp_parts import PROGRAM, DhcpParts, dhcp_groups
from netfw.conf.reading import read, refuse_misspelt
from netfw.drivers.keys import NetworkKey
from netfw.errors import ConfigError
from netfw.model.binding import Binding
from netfw.model.ids import NetworkId, PortId, SubnetId
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.subnet import Subnet


def conf_of(tmp_path, agent="", more=""):
    path = tmp_path / "agent.conf"
    path.write_text(
        f"[DEFAULT]\nhost = here\nstate_path = {tmp_path}\n[agent]\n{agent}\n"
        f"[file]\npath = {tmp_path}/topology.yaml\n{more}"
    )
    files = ["--config-file", str(path)]
    return read(PROGRAM, files, dhcp_groups(files)).conf


@pytest.mark.spec("DHCP-01")
def test_drivers_are_chosen_by_name_and_bring_their_options(tmp_path):
    agent = "interface_driver = null\nnum_sync_threads = 7\nresync_interval = 3\n"
    conf = conf_of(
        tmp_path,
        f"{agent}availability_zone = north\nenable_isolated_metadata = true",
        "[dnsmasq]\ndhcp_lease_duration = 600\n",
    )
    assert refuse_misspelt(conf) == ()
    with DhcpParts(conf) as parts:
        assert str(parts) == (
            "host here, source file, interface driver null, DHCP driver dnsmasq, "
            "metadata driver haproxy"
        )
        assert parts.timing().pauses == Pauses(1.0, 3.0)
        assert parts.status_path() == tmp_path / "status" / "netfw-dhcp-agent.json"
        beat = parts.agent.heartbeat(start=True)
        said = beat.agent.configurations.content()
        assert (said["dhcp_driver"], said["dhcp_lease_duration"]) == ("dnsmasq", 600)
        assert said["enable_isolated_metadata"] is True
        assert (beat.agent.host, beat.agent.availability_zone) == ("here", "north")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("dhcp_driver = dnsmsq", "did you mean 'dnsmasq'"),
        ("dhcp_driver =", "dhcp_driver: name a driver"),
        ("metadata_driver =\nforce_metadata = true", "need a metadata_driver"),
        ("num_sync_threads = 0", "num_sync_threads"),
        ("retry_pause_max = 5", "not an option"),
    ],
)
def test_what_can_not_be_is_refused_with_what_to_change(tmp_path, capsys, agent, said):
    with suppress(ConfigError):
        conf_of(tmp_path, agent)
    assert main(["--config-file", str(tmp_path / "agent.conf"), "--once", "--timeout", "0"]) == 2
    assert said in capsys.readouterr().err


def test_without_a_metadata_driver_there_is_none(tmp_path):
    with DhcpParts(conf_of(tmp_path, "interface_driver = null\nmetadata_driver =")) as parts:
        assert parts.metadata is None
        assert "metadata driver none" in str(parts)


ROUTED = """
from netfw.drivers.base import Capability, DriverInfo
from netfw_drivers.null.interface import NullInterfaceDriver

class Routed(NullInterfaceDriver):
    def describe(self):
        return DriverInfo("routed", {Capability.GATEWAY_ADDRESSES})
"""


@pytest.fixture
def routed(tmp_path, monkeypatch):
    """A vendor's driver for a fabric that routes is installed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    site = tmp_path / "site"
    info = site / "routed-1.dist-info"
    info.mkdir(parents=True)
    (site / "a_routed_fabric.py").write_text(ROUTED)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: routed\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[netfw.interface_drivers]\nrouted = a_routed_fabric:Routed\n"
    )
    monkeypatch.syspath_prepend(str(site))
    return "interface_driver = routed"


@pytest.mark.spec("DHCP-21", "DHCP-45")
def test_in_a_fabric_that_routes_the_gateways_addresses_are_served_from(tmp_path, routed):
    network = Network(id=NetworkId(UUID(int=1)))
    subnet = Subnet(
        id=SubnetId(UUID(int=2)), network_id=network.id, cidr="10.0.0.0/24", gateway="10.0.0.1"
    )
    server = Port(
        id=PortId(UUID(int=3)),
        network_id=network.id,
        mac="fa:16:3e:00:00:03",
        device_owner="network:dhcp",
        binding=Binding(host="here"),
    )
    with DhcpParts(conf_of(tmp_path, routed)) as parts:
        parts.agent.learn(Change(put=(network, subnet, server), complete=True))
        dhcp, *_ = parts.agent.everything()
        wanted = dhcp.update.put[NetworkKey(network.id)]
        assert wanted.server.addresses == (ip_interface("10.0.0.1/24"),)
        plan = "\n".join(dhcp.driver.plan(dhcp.update, dhcp.driver.observe(dhcp.update)).lines())
        assert "--bind-dynamic" in plan
        assert "--bridge-interface=tap" in plan
