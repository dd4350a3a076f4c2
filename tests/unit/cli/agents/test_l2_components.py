"""The L2 agent, put together from its configuration: its firewall driver."""

from pathlib import Path

import pytest

from netfw.cli.agents.l2 import PROGRAM, L2AgentComponents, l2_groups
from netfw.cli.runtime.driver_options import values
from netfw.conf.loader import load_config
from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.switch import SwitchDriver
from netfw.errors import ConfigError

SWITCH = "[openvswitch]\novsdb_connection = unix:/nowhere/db.sock\nintegration_bridge = br-mine\n"


def conf_of(tmp_path: Path, agent: str, more: str = ""):
    path = tmp_path / "agent.conf"
    path.write_text(f"[agent]\n{agent}\n[file]\npath = {tmp_path}/topology.yaml\n{SWITCH}{more}")
    files = ["--config-file", str(path)]
    return load_config(PROGRAM, files, l2_groups(files)).conf


@pytest.mark.spec("DRV-22")
def test_a_firewall_driver_is_named_by_an_option_and_there_is_none_without(tmp_path):
    with L2AgentComponents(conf_of(tmp_path, "")) as parts:
        assert parts.firewall is None
        assert "firewall driver none" in str(parts)
    with L2AgentComponents(conf_of(tmp_path, "firewall_driver = openflow")) as parts:
        assert parts.host.driver(FirewallDriver) is parts.firewall
        assert "firewall driver openflow" in str(parts)


def test_firewall_driver_inherits_options_of_the_switch_driver(tmp_path):
    def firewall_options(more: str = ""):
        conf = conf_of(tmp_path, "firewall_driver = openflow", more)
        return values(conf, FirewallDriver, "openflow", values(conf, SwitchDriver, "openvswitch"))

    assert firewall_options()["ovsdb_connection"] == "unix:/nowhere/db.sock"
    assert firewall_options()["integration_bridge"] == "br-mine"
    other = firewall_options("[openflow]\nintegration_bridge = br-other\n")
    assert other["integration_bridge"] == "br-other"
    assert other["ovsdb_connection"] == "unix:/nowhere/db.sock"


def test_a_driver_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    with pytest.raises(ConfigError, match="openflw") as caught:
        conf_of(tmp_path, "firewall_driver = openflw")
    assert "openflow" in str(caught.value)


def test_drivers_of_before_are_made_with_their_options(tmp_path):
    agent = "firewall_driver = noop\nretired_firewall_drivers = openflow"
    with L2AgentComponents(conf_of(tmp_path, agent)) as parts:
        assert [driver.describe().name for driver in parts.retired] == ["openflow"]


def test_a_driver_is_not_used_and_retired_at_once(tmp_path):
    agent = "firewall_driver = openflow\nretired_firewall_drivers = openflow"
    with pytest.raises(ConfigError, match="take it out of retired_firewall_drivers"):
        L2AgentComponents(conf_of(tmp_path, agent))


@pytest.mark.spec("FW-13")
def test_a_driver_for_hybrid_plugs_is_made_beside_one_in_the_switch(tmp_path):
    agent = "firewall_driver = openflow\nhybrid_firewall_driver = iptables_hybrid"
    with L2AgentComponents(conf_of(tmp_path, agent)) as parts:
        assert parts.hybrid is not None
        assert parts.hybrid.describe().name == "iptables_hybrid"
        assert parts.host.driver(FirewallDriver) is parts.firewall


@pytest.mark.spec("FW-13")
@pytest.mark.parametrize(
    ("firewall", "hybrid", "more", "message"),
    [
        ("openflow", "iptables", "", "'iptables' does not filter at hybrid plugs"),
        ("iptables_hybrid", "iptables_hybrid", "", "set firewall_driver = openflow"),
        ("", "iptables_hybrid", "", "set firewall_driver = openflow"),
        (
            "openflow",
            "iptables_hybrid",
            "retired_firewall_drivers = iptables_hybrid",
            "'iptables_hybrid' cannot be hybrid_firewall_driver and retired at once",
        ),
    ],
)
def test_a_driver_for_hybrid_plugs_that_makes_no_sense_is_refused(
    tmp_path, firewall, hybrid, more, message
):
    agent = f"firewall_driver = {firewall}\nhybrid_firewall_driver = {hybrid}\n{more}"
    with pytest.raises(ConfigError, match=message):
        L2AgentComponents(conf_of(tmp_path, agent))
