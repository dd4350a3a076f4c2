"""Security groups on two hosts, by agents with a firewall driver: real packets, all the time.

Streams are numbered packet by packet.  One that both the old and the new policy allow loses
nothing, one that both deny never gets through, whatever is done to file, agents and switches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from netfw.cli.commands.plan import CHANGES
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.l2.agent_host import BIN, PHYSNET, AgentHost, Flavour
from tests.system.l2.environment import Site
from tests.system.l2.topology import Port
from tests.system.streams import Connection, Stream, connects, introduce, streaming

pytestmark = pytest.mark.exclusive

GUARDED = Flavour(population=True, firewall="openflow")
HYBRID = Flavour(population=True, firewall="iptables_hybrid", hybrid=True)
NFTABLES = Flavour(population=True, firewall="nftables_hybrid", hybrid=True)
OUT = [{"direction": "egress"}, {"direction": "egress", "ethertype": "IPv6"}]
OPEN_UDP, NEW_UDP, DENIED_UDP, STEADY_UDP, WEB = 6000, 6001, 6002, 6003, 80


def allow(protocol: str, port: int, way: str = "ingress", **more: Any) -> dict[str, Any]:
    return {
        "direction": way, "protocol": protocol,
        "port_range_min": port, "port_range_max": port, **more,
    }  # fmt: skip


def introduce_ports(one: Instance, two: Instance, ports: tuple[Port, Port]) -> None:
    introduce(one, ports[1].mac, ports[1].v4, ports[1].v6)
    introduce(two, ports[0].mac, ports[0].v4, ports[0].v6)


class Pair:
    """Two instances on two hosts, a group for each, and streams between them."""

    def __init__(
        self, site: Site, kind: str = "vxlan", hosts: tuple[str, str] = ("host1", "host2")
    ):
        self.site = site
        self.rules = site.topology.groups
        self.rules["client"] = [*OUT]
        self.rules["server"] = [
            allow("udp", OPEN_UDP),
            allow("udp", STEADY_UDP, ethertype="IPv6"),
            allow("udp", STEADY_UDP, "egress", ethertype="IPv6"),
        ]
        net = site.network(kind)
        self.ports = (
            site.port(net, hosts[0], security_groups=["client"]),
            site.port(net, hosts[1], security_groups=["server"]),
        )
        site.topology.write()
        self.one, self.two = (site.plug(port) for port in self.ports)
        introduce_ports(self.one, self.two, self.ports)
        site.settle()
        wait_until(lambda: connects_udp(self))

    @property
    def target(self) -> str:
        return self.ports[1].v4

    def stream(self, port: int) -> Any:
        return streaming(self.one, self.two, self.target, port)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Check that a stream loses nothing whose packets and answers have a rule each.

        When filters come to a port that had none, the first packet of a connection that they meet
        may be an answer, which cannot be recognised as one.
        """
        target = self.ports[1].v6
        with streaming(self.one, self.two, target, STEADY_UDP, STEADY_UDP) as stream:
            stream.await_passing()
            first = stream.sent
            yield
            stream.stop()
            lost = [n for n in range(first, stream.sent) if n not in stream.answered]
            assert lost == [], f"{len(lost)} of {stream.sent - first}"

    @contextmanager
    def watched(self) -> Iterator[tuple[Stream, Stream]]:
        """Yield an allowed and a denied stream, and check that the denied one never passes."""
        with ExitStack() as stack:
            allowed = stack.enter_context(self.stream(OPEN_UDP))
            denied = stack.enter_context(self.stream(DENIED_UDP))
            allowed.await_passing()
            yield allowed, denied
            for each in (allowed, denied):
                each.stop()
            assert denied.sent > 10
            assert not denied.arrived, f"{len(denied.arrived)} of {denied.sent} got through"


def connects_udp(pair: Pair) -> bool:
    with pair.stream(OPEN_UDP) as stream:
        stream.await_passing()
    return True


@pytest.fixture(scope="module", params=[GUARDED], ids=str)
def whole_site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("firewall"), request.param, agents=2)
        site.start()
        yield site


@pytest.fixture
def site(whole_site: Site) -> Iterator[Site]:
    with whole_site.tidy():
        yield whole_site


@pytest.fixture
def pair(site: Site) -> Pair:
    return Pair(site)


every = pytest.mark.parametrize(
    "whole_site", [GUARDED, HYBRID, nightly(NFTABLES)], ids=str, indirect=True
)
always_every = pytest.mark.parametrize(
    "whole_site", [GUARDED, HYBRID, NFTABLES], ids=str, indirect=True
)


@pytest.mark.spec("FW-01", "FW-04", "FW-09", "FW-15")
@always_every
def test_a_rule_comes_and_goes_and_takes_its_connections_with_it(pair: Pair):
    site, rules = pair.site, pair.rules["server"]
    assert pair.one.ping(pair.target, 2, timeout=0.3).received == 0
    with pair.watched() as (allowed, _), pair.stream(NEW_UDP) as stream:
        assert stream.is_cut()
        assert not connects(pair.one, pair.two, pair.target, WEB)
        rules += [allow("tcp", WEB), allow("udp", NEW_UDP)]
        site.topology.write()
        stream.await_passing()
        connection = Connection(pair.one, pair.two, pair.target, WEB)
        assert connection.carries()
        del rules[3:]
        site.settle()
        stream.await_cut()
        assert not connection.carries(0.3)
        connection.close()
    assert allowed.lost == 0, f"{allowed.lost} of {allowed.sent}"


@pytest.mark.spec("FW-03", "FW-04", "FW-09", "FW-15")
@every
def test_members_come_and_go_on_the_other_host(site: Site):
    groups = site.topology.groups
    groups["client"], groups["app"] = [*OUT], []
    groups["server"] = [{"direction": "ingress", "remote_group": "app"}]
    net = site.network("vlan")
    server = site.port(net, "host1", security_groups=["server"])
    member, guest = (
        site.port(net, "host2", security_groups=names) for names in (["client", "app"], ["client"])
    )
    site.topology.write()
    instance, inside, outside = (site.plug(port) for port in (server, member, guest))
    introduce_ports(outside, instance, (guest, server))
    site.settle()
    with (
        streaming(inside, instance, server.v4, OPEN_UDP) as steady,
        streaming(outside, instance, server.v4, NEW_UDP) as stream,
    ):
        steady.await_passing()
        assert stream.is_cut()
        first = steady.sent
        for _ in range(2):
            guest.more["security_groups"] = ["client", "app"]
            site.topology.write()
            stream.await_passing()
            guest.more["security_groups"] = ["client"]
            site.topology.write()
            stream.await_cut()
        steady.stop()
    lost = [number for number in range(first, steady.sent) if number not in steady.answered]
    assert lost == []


@pytest.mark.spec("FW-10", "FW-09", "L2-40", "FW-15")
@every
@pytest.mark.parametrize(
    "end", [nightly(AgentHost.stop), AgentHost.kill], ids=["stopped", "killed"]
)
def test_connections_live_on_while_agents_are_restarted(
    pair: Pair, end: Callable[[AgentHost], object]
):
    pair.rules["server"].append(allow("tcp", WEB))
    pair.site.settle()
    connection = Connection(pair.one, pair.two, pair.target, WEB)
    hosts = pair.site.hosts.values()
    before = [host.flows() for host in hosts]
    with pair.watched() as (allowed, _):
        for host in hosts:
            end(host)
            assert connection.carries()
        for host in hosts:
            host.start()
        for host in hosts:
            host.await_ready()
        assert connection.carries()
        connection.close()
    assert allowed.lost == 0, f"{allowed.lost} of {allowed.sent}"
    for host, flows in zip(hosts, before, strict=True):
        now = host.flows()
        assert now.keys() == flows.keys()
        assert [text for text, age in now.items() if age < flows[text]] == []


@pytest.mark.spec("FW-01", "L2-13", "L2-41")
def test_nothing_that_is_denied_passes_while_a_switch_is_restarted(pair: Pair):
    pair.rules["server"].append(allow("tcp", WEB))
    pair.site.settle()
    connection = Connection(pair.one, pair.two, pair.target, WEB)
    host = pair.site["host2"]
    flows = host.flows().keys()
    with pair.watched() as (allowed, _):
        host.host.restart_switch()
        wait_until(lambda: host.flows().keys() == flows, host.last_words)
        allowed.await_passing()
        assert connection.carries()  # the switch has forgotten it, and a rule allows it
        connection.close()
    host.await_ready()


@pytest.mark.spec("FW-01", "L2-11")
def test_filters_that_are_deleted_by_hand_are_back_and_nothing_denied_passes_meanwhile(pair: Pair):
    with pair.watched() as (allowed, _):
        for host in pair.site.hosts.values():
            flows = host.flows().keys()
            for table in (71, 72, 73, 81, 82):
                host.ofctl("del-flows", "br-int", f"table={table}")
            wait_until(lambda host=host, flows=flows: host.flows().keys() == flows, host.last_words)
        allowed.await_passing()


@pytest.mark.spec("DRV-40")
def test_a_dry_run_shows_what_the_firewall_would_do(pair: Pair):
    host = pair.site["host2"]
    host.kill()
    plan = [str(BIN / "netfw"), "plan", "--config-file", str(host.conf)]
    planned = host.host.attempt(plan)
    assert (planned.status, planned.output.splitlines()) == (
        0, ["switch: nothing to be done", "firewall: nothing to be done"],
    )  # fmt: skip
    host.ofctl("del-flows", "br-int", "table=82")
    planned = host.host.attempt(plan)
    assert planned.status == CHANGES
    assert "firewall: nothing" not in planned.output
    assert "add cookie=0x6e66020000000000, table=82" in planned.output
    host.start()
    host.await_settled()


@pytest.mark.spec("L2-13", "FW-01")
@every
def test_a_port_is_never_live_without_its_filters(site: Site):
    # The traffic starts before the ids of the ports are set on their devices.
    groups = site.topology.groups
    groups["client"], groups["mute"], groups["any"] = [*OUT], [], [*OUT, {"direction": "ingress"}]
    net = site.network("vxlan")
    sink = site.port(net, "host1", security_groups=["any"])
    source = site.port(net, "host2", security_groups=["any"])
    site.topology.write()
    heard, loud = site.plug(sink), site.plug(source)
    site.settle()
    for host in ("host1", "host2"):
        mute, deaf = (site.port(net, host, security_groups=["mute"]) for _ in range(2))
        site.topology.write()
        sender, receiver = (site.plug(port, unknown=True) for port in (mute, deaf))
        introduce_ports(sender, heard, (mute, sink))
        introduce_ports(loud, receiver, (source, deaf))
        with (
            streaming(sender, heard, sink.v4, DENIED_UDP) as outward,
            streaming(loud, receiver, deaf.v4, DENIED_UDP) as inward,
        ):
            wait_until(lambda out=outward, into=inward: min(out.sent, into.sent) > 5)
            for port in (mute, deaf):
                site[host].vsctl(
                    "set", "Interface", port.device, f"external_ids:iface-id={port.id}"
                )
            for port in (mute, deaf):
                wait_until(
                    lambda port=port, host=host: site[host].reported(port).get("status") == "ACTIVE"
                )
            wait_until(lambda out=outward, last=outward.sent: out.sent > last + 20)
            assert not outward.arrived
            groups["mute"] = [*OUT]  # so that it is seen that they would get through
            site.topology.write()
            outward.await_passing()
            groups["mute"] = []
            site.topology.write()
            outward.await_cut()
        assert inward.sent > 20
        assert not inward.arrived


@pytest.mark.spec("FW-07", "FW-09")
@every
def test_port_security_is_taken_off_and_put_on_without_losing_what_is_allowed_anyway(pair: Pair):
    port = pair.ports[1]
    with pair.undisturbed(), pair.stream(DENIED_UDP) as denied:
        assert denied.is_cut()
        for _ in range(2):
            port.more = {"port_security_enabled": False}
            pair.site.topology.write()
            denied.await_passing()
            port.more = {"security_groups": ["server"]}
            pair.site.topology.write()
            denied.await_cut()


@pytest.mark.spec("FW-09", "FW-01")
def test_a_host_gets_and_loses_its_firewall_without_losing_what_is_allowed_anyway(pair: Pair):
    host = pair.site["host2"]
    with pair.undisturbed(), pair.stream(DENIED_UDP) as denied:
        assert denied.is_cut()
        host.configure(agent="retired_firewall_drivers = openflow", firewall="")
        host.restart()
        denied.await_passing()
        assert "not enforced" in str(host.status()["warnings"])
        wait_until(lambda: "actions=ct(" not in str(host.flows().keys()), host.last_words)
        host.configure()
        host.restart()
        denied.await_cut()


@pytest.mark.spec("FW-09", "FW-01")
@pytest.mark.parametrize("whole_site", [HYBRID], ids=str, indirect=True)
def test_a_host_changes_its_firewall_driver_and_nothing_passes_unfiltered_meanwhile(pair: Pair):
    host = pair.site["host2"]
    before, chains = host.flows().keys(), _chains(host)
    with pair.undisturbed(), pair.watched():
        host.configure(agent="retired_firewall_drivers = iptables_hybrid", firewall="openflow")
        host.restart()
        wait_until(lambda: not _chains(host), host.last_words)
        host.configure(agent="retired_firewall_drivers = openflow")
        host.restart()
        wait_until(lambda: host.flows().keys() == before, host.last_words)
        host.configure()
    assert _chains(host) == chains


def _chains(host: AgentHost) -> set[str]:
    lines = host.host.run(["iptables-save"]).splitlines()
    return {line.split()[0] for line in lines if line.startswith(":nf")}
