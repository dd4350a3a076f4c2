"""Agents whose physical bridges are joined by veth pairs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.system.l2.agent_host import BIN, MESH4, PHYSNET, PROVIDER, AgentHost
from tests.system.l2.environment import Couple, Site

BY_VETH = "use_veth_interconnection = true"
ENDS = f"int-{PROVIDER}", f"phy-{PROVIDER}"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Site]:
    """Yield two hosts; the first is joined by veths, the second by patch ports."""
    sandbox.require()
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path, MESH4, agents=2)
        site["host1"].configure(BY_VETH)
        site.start()
        yield site
        for host in site.hosts.values():
            assert host.stop() == 0


def plan(host: AgentHost) -> str:
    """Return the output of ``netfw plan`` on the host."""
    done = host.host.attempt([str(BIN / "netfw"), "plan", "--config-file", str(host.conf)])
    assert done.status in {0, 3}, done
    return done.output


def devices(host: AgentHost) -> list[str]:
    return [end for end in ENDS if not host.host.attempt(["ip", "link", "show", end]).status]


def couples(site: Site) -> tuple[Couple, ...]:
    return tuple(site.couple(kind, "host1", "host2") for kind in ("vlan", "flat"))


@pytest.mark.spec("L2-01", "L2-03")
def test_instances_reach_each_other_while_bridge_links_change_between_veth_and_patch(
    pair: Site,
):
    joined = couples(pair)
    one, two = pair["host1"], pair["host2"]
    assert (devices(one), devices(two)) == (list(ENDS), [])
    for couple in joined:
        couple.await_reach()
    two.configure(BY_VETH)
    planned = plan(two)
    assert f"links: ip link add {ENDS[0]} type veth peer name {ENDS[1]}" in planned
    assert devices(two) == []
    for switch, there in ((BY_VETH, list(ENDS)), ("", [])):
        two.configure(switch)
        two.restart()
        assert devices(two) == there
        wait_until(lambda: "nothing to be done" in plan(two), two.last_words)
        for couple in joined:
            couple.await_reach()


@pytest.mark.parametrize(
    "harm",
    [f"link delete {ENDS[0]}", f"link set {ENDS[1]} down", f"link set {ENDS[0]} mtu 1200"],
)
@pytest.mark.spec("L2-03")
def test_an_agent_repairs_its_veths(pair: Site, harm: str):
    (couple, _) = couples(pair)
    couple.await_reach()
    host = pair["host1"]
    host.host.namespaces.ip(harm)
    wait_until(lambda: "nothing to be done" in plan(host), host.last_words)
    couple.await_reach()
