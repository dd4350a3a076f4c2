"""``netfw trace`` between instances of one and of two hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.commands.trace import NOT_ARRIVED
from netfw.testing.lab.host import write_enter_script
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l2.agent_host import BIN, PHYSNET
from tests.system.l2.environment import Site
from tests.system.l2.test_l2_firewall import GUARDED, HYBRID, WEB, allow
from tests.system.l2.topology import Port
from tests.system.streams import connects

pytestmark = pytest.mark.spec("DRV-41", "FW-14")
NETFW = str(BIN / "netfw")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("trace"), GUARDED, agents=2)
        site.start()
        yield site


def enter_command(site: Site) -> str:
    """Return a command that runs another one on a host of the lab."""
    script = site.topology.path.parent / "on-host"
    write_enter_script([each.host for each in site.hosts.values()], script)
    return f"{script} {{host}}"


def trace(site: Site, source: Port, target: Port, *words: str) -> tuple[int, Any, str]:
    """Trace over both hosts; return status, data and text."""
    conf = Path(str(site["host1"].conf).replace("/host1/", "/{host}/"))
    command = [
        NETFW, "trace", source.id, target.id, "--protocol", "tcp", "--config-file", str(conf),
        "--via", enter_command(site), "--host", "host1", "--host", "host2", "--netfw", NETFW,
        *words,
    ]  # fmt: skip
    done = site["host1"].host.attempt([*command, "--json"])
    assert done.status in (0, NOT_ARRIVED), done.error
    found = json.loads(done.output)
    return done.status, found, "\n".join(found["lines"])


@pytest.mark.parametrize("kind", ["vxlan", nightly("geneve"), nightly("gre"), "vlan"])
def test_packet_is_followed_over_two_hosts_and_where_rules_drop_it(site: Site, kind: str) -> None:
    site.topology.groups["web"] = [allow("tcp", WEB)]
    net = site.network(kind)
    client = site.port(net, "host1")
    server = site.port(net, "host2", security_groups=["web"])
    site.topology.write()
    one, two = site.plug(client), site.plug(server)
    site.settle()
    status, found, text = trace(site, client, server, "--port", str(WEB))
    assert status == 0, text
    assert (found["arrives"], found["should_arrive"], found["differs"]) == (True, True, False)
    assert [hop["host"] for hop in found["hops"]] == ["host1", "host2"]
    wait_until(lambda: connects(one, two, server.v4, WEB))
    assert "allowed by rule" in text
    assert "table 82 rules-ingress" in text
    assert "it arrives at port" in text
    assert "it is for security group web" in text
    status, found, text = trace(site, client, server, "--port", str(WEB + 1))
    assert status == NOT_ARRIVED
    assert (found["arrives"], found["should_arrive"], found["differs"]) == (False, False, False)
    assert not connects(one, two, server.v4, WEB + 1)
    assert "host2 drops it" in text
    assert f"it is for ports {WEB}:{WEB}" in text


@pytest.mark.nightly
def test_live_state_that_differs_is_found_and_named(site: Site) -> None:
    net = site.network("vxlan")
    client, server = site.port(net, "host1"), site.port(net, "host2")
    site.topology.write()
    site.plug(client)
    site.plug(server)
    site.settle()
    assert trace(site, client, server, "--port", "80")[0] == 0
    host = site["host2"]
    host.kill()
    try:
        foreign = f"cookie=0x1,table=61,priority=30000,dl_dst={server.mac},actions=drop"
        host.ofctl("add-flow", "br-int", foreign)
        status, found, text = trace(site, client, server, "--port", "80")
        assert status == NOT_ARRIVED
        assert (found["arrives"], found["should_arrive"], found["differs"]) == (False, True, True)
        assert "DIFFERENT: it should arrive, and does not." in text
        assert "which netfw did not make" in text
        host.ofctl("del-flows", "br-int", "cookie=0x1/-1")
        host.ofctl("del-flows", "br-int", f"table=61,dl_dst={server.mac}")
        status, found, text = trace(site, client, server, "--port", "80")
        assert status == NOT_ARRIVED
        assert "What the agents of these hosts would change" in text
        assert any(server.mac in line for line in found["differences"])
    finally:
        host.start()
        host.await_ready()
    site.settle()
    assert trace(site, client, server, "--port", "80")[0] == 0


def test_one_host_is_followed_without_a_command_and_says_where_it_ends(site: Site) -> None:
    net = site.network("vxlan")
    client, near = site.port(net, "host1"), site.port(net, "host1")
    site.topology.write()
    site.plug(client)
    site.settle()
    host = site["host1"]
    command = [NETFW, "trace", "--config-file", str(host.conf), client.id]
    done = host.host.attempt([*command, near.id])
    assert done.status == NOT_ARRIVED, done.output
    site.plug(near)
    site.settle()
    done = host.host.attempt([*command, near.id])
    assert done.status == 0, done.output + done.error
    assert "it arrives at" in done.output
    done = host.host.attempt([*command, near.id, "-6", "--verbose"])
    assert done.status == 0, done.output + done.error
    assert near.v6 in done.output
    done = host.host.attempt([*command, "nobody"])
    assert (done.status, done.output) == (1, "")
    assert "name its host (--host), or the server's API (--api)" in done.error


@pytest.mark.nightly
def test_filters_outside_of_the_switch_are_not_taken_for_a_difference(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Lab(hosts=1, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("hybrid"), HYBRID, agents=1)
        site.topology.groups["web"] = [allow("tcp", WEB)]
        net = site.network("vxlan")
        client = site.port(net, "host1")
        server = site.port(net, "host1", security_groups=["web"])
        site.topology.write()
        site.start()
        site.plug(client)
        site.plug(server)
        site.settle()
        host = site["host1"]
        command = [NETFW, "trace", "--config-file", str(host.conf), client.id, server.id]
        command += ["--protocol", "tcp", "--port"]
        done = host.host.attempt([*command, str(WEB)])
        assert done.status == 0, done.output + done.error
        done = host.host.attempt([*command, str(WEB + 1)])
        assert done.status == NOT_ARRIVED, done.output + done.error
        assert "a filter behind them, which is not traced, should drop it" in done.output
