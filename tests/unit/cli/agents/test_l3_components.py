"""The L3 agent, put together from its configuration."""

import pytest

from netfw.agents.common.retry_queue import RetryBackoff
from netfw.cli.agents.dhcp import PROGRAM as DHCP_PROGRAM
from netfw.cli.agents.dhcp import DhcpAgentComponents, dhcp_groups
from netfw.cli.agents.l3 import PROGRAM, L3AgentComponents, l3_groups, main
from netfw.conf.loader import load_config, refuse_misspelt
from netfw.errors import BackendLocked, ConfigError
from netfw.plan import Update


def conf_of(tmp_path, agent="", more="", program=PROGRAM, groups=l3_groups):
    path = tmp_path / f"{program}.conf"
    path.write_text(
        f"[DEFAULT]\nhost = here\nstate_path = {tmp_path}\n[agent]\ninterface_driver = null\n"
        f"{agent}\n[file]\npath = {tmp_path}/topology.yaml\n{more}"
    )
    files = ["--config-file", str(path)]
    return load_config(program, files, groups(files)).conf


@pytest.mark.spec("L3-01", "L3-13")
def test_drivers_are_chosen_by_name_and_bring_their_options(tmp_path):
    conf = conf_of(
        tmp_path,
        "num_sync_threads = 7\nretry_interval_max = 9\navailability_zone = north\n"
        "handle_internal_only_routers = false\nipv6_gateway = fe80::1\n"
        "log_agent_heartbeats = true",
    )
    assert refuse_misspelt(conf) == ()
    with L3AgentComponents(conf) as parts:
        assert str(parts) == (
            "host here, source file, interface driver null, router driver linux, "
            "metadata driver haproxy, "
            "extensions router_firewall, port_forwarding, conntrack_helper, ndp_proxy"
        )
        assert parts.timing().pauses == RetryBackoff(1.0, 9.0)
        assert parts.timing().log_reports
        assert parts.status_path() == tmp_path / "status" / "netfw-l3-agent.json"
        beat = parts.agent.heartbeat(start=True)
        content = beat.agent.configurations.content()
        assert (content["router_driver"], content["interface_driver"]) == ("linux", "null")
        assert content["handle_internal_only_routers"] is False
        assert (beat.agent.host, beat.agent.availability_zone) == ("here", "north")
        assert beat.start


@pytest.mark.spec("L3-01", "L3-13")
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("router_driver =", "router_driver: name a driver"),
        ("external_network_bridge = br-ex", "bridge_mappings of the L2 agent"),
        ("ipv6_gateway = 2001:db8::1", "not a link-local address"),
        ("ipv6_gateway = 10.0.0.1", "not an IPv6 address"),
        ("gateway_external_network_id = outside", "not the id of a network"),
        ("metadata_driver =", "enable_metadata_proxy needs a metadata_driver"),
    ],
)
def test_impossible_configuration_is_refused_with_a_sentence(tmp_path, agent, words):
    with pytest.raises(ConfigError, match=words):
        L3AgentComponents(conf_of(tmp_path, agent))


def test_wrong_configuration_ends_the_program_with_status_2(tmp_path, capsys):
    path = tmp_path / "agent.conf"
    path.write_text("[agent]\nagent_mode = other\n")
    assert main(["--config-file", str(path)]) == 2
    assert "agent_mode" in capsys.readouterr().err


@pytest.mark.spec("MD-01")
def test_l3_and_dhcp_agents_with_default_options_lock_different_directories(tmp_path):
    l3 = conf_of(tmp_path)
    dhcp = conf_of(tmp_path, program=DHCP_PROGRAM, groups=dhcp_groups)
    with L3AgentComponents(l3) as one, DhcpAgentComponents(dhcp) as other:
        one.metadata.converge(Update(complete=True))
        other.metadata.converge(Update(complete=True))
        locked = {path.parent.name for path in tmp_path.glob("ns-metadata-proxy*/holder")}
        assert locked == {"ns-metadata-proxy", "ns-metadata-proxy-l3"}
        with L3AgentComponents(l3) as second, pytest.raises(BackendLocked):
            second.metadata.converge(Update(complete=True))
