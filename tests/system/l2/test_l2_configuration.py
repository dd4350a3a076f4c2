"""Configurations that cannot be: refused at once, with a sentence, and nothing is touched."""

import pytest

from netfw.cli.agents.l2 import PROGRAM
from netfw.testing.lab.wait import wait_until
from tests.system.l2.agent_host import BIN, MESH4, AgentHost
from tests.system.l2.environment import Site

pytestmark = pytest.mark.flavours(MESH4)


@pytest.mark.spec("L2-01")
@pytest.mark.parametrize(
    ("switch", "agent", "sentence"),
    [
        ("", "enable_distributed_routing = true", "l2_population = true"),
        ("bridge_mappings = physnet1:br-none", "", "there is no bridge br-none"),
        ("overlay_ip_version = 6", "", "is not IPv6"),
        ("local_ip = 198.18.0.x", "", "local_ip"),
        ("local_ip =", "", "local_ip"),
        ("arp_responder = true", "", "l2_population"),
        ("tunnel_types = stt", "", "vxlan"),
        ("datapath_type = ebpf", "", "datapath_type"),
        ("bridge_mappings = physnet1:br-int", "", "br-int"),
        ("", "switch_driver = openvswich", "openvswitch"),
        ("", "state_source =", "state_source"),
    ],
)
def test_an_impossible_configuration_is_refused(
    shared_site: Site, switch: str, agent: str, sentence: str
):
    # This holds also where the agent of the host runs already.
    host = shared_site["host1"]
    flows, rows = host.flows(), host.rows()
    running = host.conf.read_text()
    try:
        conf = host.configure(switch, agent).rename(host.directory / "wrong.conf")
    finally:
        host.conf.write_text(running)
    done = host.host.attempt([str(BIN / PROGRAM), "--config-file", str(conf)], timeout=30)
    assert done.status == 2, done
    message = done.error.strip()
    assert sentence in message
    assert "Traceback" not in message
    assert len(message.splitlines()) <= 2, message
    assert (host.flows().keys(), host.rows()) == (flows.keys(), rows)
    assert host.status()["ready"]


@pytest.mark.spec("DRV-40")
def test_a_plan_tells_and_touches_nothing(site: Site):
    host = site["host1"]
    site.couple("vxlan", "host1", "host2")
    site.settle()
    flows, rows = host.flows(), host.rows()
    assert _plan(host) == (0, "switch: nothing to be done\n")
    assert host.flows().keys() == flows.keys()
    assert host.rows() == rows


def test_a_plan_leaves_the_reports_of_the_agent_alone(site: Site):
    host = site["host1"]
    couple = site.couple("vxlan", "host1", "host2")
    site.settle()
    wait_until(lambda: host.reported(couple.ports[0]).get("status") == "ACTIVE")
    _plan(host)
    assert host.reported(couple.ports[0]).get("status") == "ACTIVE"


def _plan(host: AgentHost) -> tuple[int, str]:
    done = host.host.attempt([str(BIN / "netfw"), "plan", "--config-file", str(host.conf)])
    return done.status, done.output
