"""Limits and marks of ports, with real packets, by the agent with the extension ``qos``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.system.datagrams import Counter, Stream, flood
from tests.system.l2.agent_host import PHYSNET, AgentHost, Flavour
from tests.system.l2.environment import Site
from tests.system.l2.topology import Port

pytestmark = pytest.mark.spec("L2-80")
ID = "5e11ab1e-0000-4000-8000-0000000000"
KBPS, BURST_KILOBITS = 400, 400
KPPS = 1


def bandwidth(direction: str, kbps: int = KBPS, burst: int = BURST_KILOBITS) -> dict[str, Any]:
    own = {"id": f"{ID}0{len(direction)}", "type": "bandwidth_limit", "direction": direction}
    return {**own, "max_kbps": kbps, "max_burst_kbps": burst}


def packet_rate(direction: str) -> dict[str, Any]:
    own = {"id": f"{ID}1{len(direction)}", "type": "packet_rate_limit", "direction": direction}
    return {**own, "max_kpps": KPPS, "max_burst_kpps": KPPS}


class QosSite:
    """A host with three instances of one network; the first has the policy ``policy``."""

    def __init__(self, site: Site) -> None:
        self.site, self.host = site, site["host1"]
        net = site.network("vxlan")
        self.ports: list[Port] = [
            site.port(net, "host1", **({} if number else {"qos_policy": "policy"}))
            for number in range(3)
        ]
        site.topology.write()
        self.instances: list[Instance] = [site.plug(port) for port in self.ports]
        self.set_rules()

    def set_rules(self, *rules: dict[str, Any]) -> None:
        """Put these rules of the policy in force."""
        self.site.topology.policies = {"policy": list(rules)}
        self.site.settle()

    def meters(self) -> dict[int, tuple[str, int, int]]:
        return meters(self.host)

    def await_reach(self) -> None:
        first, others = self.instances[0], self.ports[1:]
        for port in others:
            wait_until(lambda port=port: not first.ping(port.v4, timeout=0.2).lost)


def meters(host: AgentHost) -> dict[int, tuple[str, int, int]]:
    """Return unit, rate and burst of each meter of br-int."""
    text = host.ofctl("dump-meters", "br-int")
    pattern = r"meter=(\d+) (\w+) burst bands=\s+type=drop rate=(\d+) burst_size=(\d+)"
    found = re.findall(pattern, text)
    return {int(id): (unit, int(rate), int(burst)) for id, unit, rate, burst in found}


@pytest.fixture(scope="module", params=["", "openflow"], ids=["unfiltered", "filtered"])
def whole(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QosSite]:
    flavour = Flavour(extensions="qos", firewall=request.param)
    with Lab(hosts=1, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("qos"), flavour, agents=1)
        site.topology.policies = {"policy": []}
        site["host1"].configure(agent="audit_interval = 2")
        site.start()
        made = QosSite(site)
        made.await_reach()
        yield made
        assert made.host.stop() == 0


@pytest.fixture
def qos(whole: QosSite) -> Iterator[QosSite]:
    """Yield a site without rules, and remove those of the test afterwards."""
    yield whole
    whole.set_rules()
    assert whole.meters() == {}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def transfer(
    stack: ExitStack, qos: QosSite, sender: int, receiver: int, **options: Any
) -> tuple[Stream, Counter]:
    counter = stack.enter_context(closing(Counter(qos.instances[receiver])))
    address = qos.ports[receiver].v4
    stream = Stream(qos.instances[sender], address, **options)
    return stack.enter_context(closing(stream)), counter


@pytest.mark.parametrize(("direction", "way"), [("egress", (0, 1)), ("ingress", (1, 0))])
def test_bandwidth_is_limited_in_the_direction_of_the_rule_alone(
    qos: QosSite, stack: ExitStack, direction: str, way: tuple[int, int]
) -> None:
    qos.set_rules(bandwidth(direction))
    stream, counter = transfer(stack, qos, *way)
    flood(stream, counter, KBPS * 1000, BURST_KILOBITS * 1000, stream.bits_of_one)
    most = KBPS * 1000 * stream.seconds + BURST_KILOBITS * 1000
    assert counter.count * stream.bits_of_one <= most
    wait_until(lambda: counter.read() >= BURST_KILOBITS * 1000 // stream.bits_of_one)
    back, others = transfer(stack, qos, *way[::-1])
    back.send_all(200, others)
    assert others.count == 200


@pytest.mark.parametrize(("direction", "way"), [("egress", (0, 1)), ("ingress", (1, 0))])
def test_packets_are_limited_in_the_direction_of_the_rule_alone(
    qos: QosSite, stack: ExitStack, direction: str, way: tuple[int, int]
) -> None:
    qos.set_rules(packet_rate(direction))
    stream, counter = transfer(stack, qos, *way, size=10, pause=0)
    flood(stream, counter, KPPS * 1000, KPPS * 1000)
    assert counter.count <= KPPS * 1000 * (stream.seconds + 1)
    assert counter.count


@pytest.mark.parametrize("rule", [bandwidth("ingress", 10, 80)], ids=["bandwidth"])
def test_a_limit_of_one_receiver_takes_broadcasts_from_no_other(
    qos: QosSite, stack: ExitStack, rule: dict[str, Any]
) -> None:
    qos.set_rules(rule)
    limited = stack.enter_context(closing(Counter(qos.instances[0])))
    other = stack.enter_context(closing(Counter(qos.instances[2])))
    stream = stack.enter_context(closing(Stream(qos.instances[1], "10.0.255.255")))
    stream.send_all(300, other)
    assert other.count == 300
    limited.read()
    stream.stop_clock()
    assert limited.count * stream.bits_of_one <= 10_000 * stream.seconds + 80_000


def test_packets_are_marked(qos: QosSite, stack: ExitStack) -> None:
    mark = {"id": f"{ID}20", "type": "dscp_marking", "dscp_mark": 26}
    qos.set_rules(mark, bandwidth("egress", 100_000, 100_000))
    stream, counter = transfer(stack, qos, 0, 1)
    stream.send(10)
    wait_until(lambda: counter.read() == 10)
    back, others = transfer(stack, qos, 1, 0)
    back.send(10)
    wait_until(lambda: others.read() == 10)
    assert ({each >> 2 for each in counter.traffic_classes}, others.traffic_classes) == ({26}, {0})


def test_limits_change_and_go_on_a_running_port_and_nothing_is_lost(qos: QosSite) -> None:
    qos.set_rules(bandwidth("egress"), bandwidth("ingress"))
    assert {each[1:] for each in qos.meters().values()} == {(KBPS, BURST_KILOBITS)}
    others = {text: age for text, age in qos.host.flows().items() if "meter" not in text}
    with qos.instances[0].pinging(qos.ports[1].v4) as pings:
        qos.set_rules(bandwidth("egress", 2000, 1000), bandwidth("ingress"))
        assert sorted(each[1:] for each in qos.meters().values()) == [(400, 400), (2000, 1000)]
        now = qos.host.flows()
        assert [text for text in others if now[text] < others[text]] == [], "only that limit"
        qos.set_rules(bandwidth("ingress"))
        assert [each[1:] for each in qos.meters().values()] == [(KBPS, BURST_KILOBITS)]
        qos.set_rules()
        assert qos.meters() == {}
        assert not pings.stop().lost


def test_a_restarted_agent_leaves_limits_as_they_are(qos: QosSite) -> None:
    qos.set_rules(bandwidth("egress"), packet_rate("ingress"))
    before, flows = qos.meters(), qos.host.flows()
    assert len(before) == 2
    with qos.instances[0].pinging(qos.ports[1].v4) as pings:
        qos.host.restart(AgentHost.kill)
        qos.host.await_settled()
        assert not pings.stop().lost
    now = qos.host.flows()
    assert now.keys() == flows.keys()
    younger = [text for text, age in now.items() if age < flows[text]]
    assert younger == [], (qos.host.log.read_text()[-3500:], younger)
    assert qos.meters() == before


def test_a_limit_that_changed_while_there_was_no_agent_is_in_force(qos: QosSite) -> None:
    qos.set_rules(bandwidth("egress"))
    qos.host.kill()
    qos.site.topology.policies = {"policy": [bandwidth("egress", 2000, 1000)]}
    qos.site.topology.write()
    qos.host.start()
    qos.host.await_settled()
    assert [each[1:] for each in qos.meters().values()] == [(2000, 1000)]


def test_limits_return_with_the_switch(qos: QosSite, stack: ExitStack) -> None:
    qos.set_rules(bandwidth("egress"))
    before = qos.meters()
    qos.host.host.ovs.kill_switch()
    qos.host.host.ovs.start_switch()
    qos.host.await_settled()
    qos.await_reach()
    assert qos.meters() == before
    stream, counter = transfer(stack, qos, 0, 1)
    flood(stream, counter, KBPS * 1000, BURST_KILOBITS * 1000, stream.bits_of_one)
    most = KBPS * 1000 * stream.seconds + BURST_KILOBITS * 1000
    assert counter.count * stream.bits_of_one <= most


@pytest.mark.parametrize("words", [("del-meters",), ("mod-meter", "kbps,burst,band=type=drop")])
def test_meters_that_another_program_deletes_or_changes_return(
    qos: QosSite, words: tuple[str, ...]
) -> None:
    qos.set_rules(bandwidth("egress"))
    before = qos.meters()
    (meter,) = before
    if words[0] == "mod-meter":
        qos.host.ofctl(words[0], "br-int", f"meter={meter},{words[1]},rate=1,burst_size=9")
    else:
        qos.host.ofctl(words[0], "br-int")
    wait_until(lambda: qos.meters() == before, qos.meters)
    qos.host.await_settled()
