"""Guaranteed bandwidth of ports, with real packets that contend for a device."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import wait_until
from tests.nightly import nightly
from tests.system.datagrams import Counter, Stream
from tests.system.l2.agent_host import PHYSNET, PROVIDER, AgentHost, Flavour
from tests.system.l2.environment import Site
from tests.system.l2.topology import Port

pytestmark = pytest.mark.spec("L2-80")
ID = "5e11ab1e-0000-4000-8000-0000000001"
KBPS = 4000
GUARANTEED = 2400
GUARANTEED_PAUSE, GREEDY_PAUSE = 0.005, 0.0005
"""Of datagrams with 1,000 octets: 1.7 Mbit/s at most, and many times the device."""
MOST_LOST = 18
"""Of 600 datagrams within a guarantee."""
HTB = "htb 6e66:"
AUDITED = "audit_interval = 2"


def guarantee(kbps: int) -> dict[str, Any]:
    return {"id": f"{ID}01", "type": "minimum_bandwidth", "direction": "egress", "min_kbps": kbps}


class GuaranteeSite:
    """Two senders on one host and their receivers on another; the first has ``policy``."""

    def __init__(self, site: Site, kind: str) -> None:
        self.site, self.host = site, site["host1"]
        net = site.network(kind)
        self.net = net
        named = {"qos_policy": "policy"}
        self.senders: list[Port] = [site.port(net, "host1", **named), site.port(net, "host1")]
        self.receivers: list[Port] = [site.port(net, "host2") for _ in range(2)]
        site.topology.write()
        self.sending: list[Instance] = [site.plug(port) for port in self.senders]
        self.receiving: list[Instance] = [site.plug(port) for port in self.receivers]
        self.set_rules()
        for instance, port in zip(self.sending, self.receivers, strict=True):
            wait_until(lambda i=instance, p=port: not i.ping(p.v4, timeout=0.2).lost)

    def set_rules(self, *rules: dict[str, Any]) -> None:
        """Put these rules of the policy in force."""
        self.write_rules(*rules)
        self.site.settle()

    def write_rules(self, *rules: dict[str, Any]) -> None:
        self.site.topology.policies = {"policy": list(rules)}
        self.site.topology.write()

    def tc(self, *words: str) -> str:
        return self.host.host.run(["tc", *words])

    def qdisc(self) -> str:
        return self.tc("qdisc", "show", "dev", PHYSNET)

    def rates(self) -> set[str]:
        """Return the guaranteed rate of each class."""
        words = [line.split() for line in self.tc("class", "show", "dev", PHYSNET).splitlines()]
        return {line[line.index("rate") + 1] for line in words}

    def sent_octets(self) -> int:
        """Return what the class of the whole device has sent; a new class begins with 0."""
        found = json.loads(self.tc("-s", "-j", "qdisc", "show", "dev", PHYSNET))
        return sum(int(each["bytes"]) for each in found if each["handle"] == "6e66:")

    def await_audit(self) -> None:
        """Wait until the agent has read the device once more: the next audit but one begins."""
        before = self._audits()
        wait_until(lambda: self._audits() > before + 1)

    def _audits(self) -> int:
        return self.host.log.read_text().count("audit: comparing everything")

    def why(self, port: Port) -> str:
        return json.dumps(self.host.reported(port))


@pytest.fixture(scope="module", params=["vlan", nightly("flat")])
def whole(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuaranteeSite]:
    flavour = Flavour(extensions="qos", bandwidths=f"{PROVIDER}:{KBPS}:")
    with Lab(hosts=2, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("guarantee"), flavour, agents=2)
        site.topology.policies = {"policy": []}
        site["host1"].configure(agent=AUDITED)
        site.start()
        yield GuaranteeSite(site, request.param)
        assert site["host1"].stop() == 0


@pytest.fixture
def made(whole: GuaranteeSite) -> Iterator[GuaranteeSite]:
    """Yield a site without rules; remove the rules afterwards and check the device."""
    before = whole.qdisc()
    yield whole
    whole.set_rules()
    assert whole.qdisc() == before
    assert HTB not in before


@contextmanager
def flooding(made: GuaranteeSite) -> Iterator[Counter]:
    """Let the port without a guarantee send as much as it can."""
    with ExitStack() as stack:
        counter = stack.enter_context(closing(Counter(made.receiving[1])))
        address = made.receivers[1].v4
        stream = stack.enter_context(closing(Stream(made.sending[1], address, pause=GREEDY_PAUSE)))
        ended = threading.Event()

        def flood() -> None:
            while not ended.is_set():
                stream.send(20)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            yield counter
        finally:
            ended.set()
            thread.join()
        assert counter.read() < stream.sent, "nothing was lost: there was no contention"


def assert_guaranteed(made: GuaranteeSite) -> None:
    """See that a port within its guarantee loses nothing while its neighbour fills the device."""
    with flooding(made) as greedy, ExitStack() as stack:
        counter = stack.enter_context(closing(Counter(made.receiving[0])))
        address = made.receivers[0].v4
        stream = stack.enter_context(
            closing(Stream(made.sending[0], address, pause=GUARANTEED_PAUSE))
        )
        wait_until(lambda: greedy.read() > 300)
        for _ in range(12):  # a switch that waits for a core has no room for all of them
            stream.send(50)
            wait_until(lambda: counter.read() >= stream.sent - MOST_LOST, lambda: counter.count)


def test_a_port_keeps_its_bandwidth_against_a_greedy_neighbour(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    assert made.rates() == {"4Mbit", "2400Kbit", "1600Kbit"}
    assert_guaranteed(made)


def test_a_guarantee_changes_on_a_running_port_and_nothing_is_lost(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    with made.sending[0].pinging(made.receivers[0].v4) as pings:
        made.set_rules(guarantee(1000))
        assert made.rates() == {"4Mbit", "1Mbit", "3Mbit"}
        made.set_rules(guarantee(KBPS))
        assert made.rates() == {"4Mbit", "40Kbit"}, "a little is left to others"
        assert not pings.stop().lost


def test_a_restarted_agent_leaves_guarantees_as_they_are(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    made.sending[0].ping(made.receivers[0].v4)
    before = made.sent_octets()
    assert before
    made.host.restart(AgentHost.kill)
    made.host.await_settled()
    assert made.sent_octets() >= before
    assert made.rates() == {"4Mbit", "2400Kbit", "1600Kbit"}


def test_a_guarantee_that_went_while_there_was_no_agent_is_removed(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    made.host.kill()
    made.write_rules()
    made.host.start()
    made.host.await_settled()
    assert HTB not in made.qdisc()


@pytest.fixture
def without_audits(made: GuaranteeSite) -> Iterator[None]:
    made.host.configure(agent="audit_interval = 3600")
    made.host.restart()
    yield
    made.host.configure(agent=AUDITED)
    made.host.restart()


@pytest.mark.usefixtures("without_audits")
def test_guarantees_return_with_the_switch(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    made.host.host.ovs.kill_switch()
    made.host.host.ovs.start_switch()
    made.host.await_settled()
    for instance, port in zip(made.sending, made.receivers, strict=True):
        wait_until(lambda i=instance, p=port: not i.ping(p.v4, timeout=0.2).lost)
    wait_until(lambda: made.rates() == {"4Mbit", "2400Kbit", "1600Kbit"}, made.qdisc)
    assert_guaranteed(made)


@pytest.mark.parametrize(
    "words",
    [
        ("qdisc", "del", "dev", PHYSNET, "root"),
        ("filter", "del", "dev", PHYSNET, "parent", "6e66:"),
        ("class", "change", "dev", PHYSNET, "parent", "6e66:ffff", "classid", "6e66:fffe", "htb",
         "rate", "8kbit"),
    ],
    ids=lambda words: f"{words[0]}-{words[1]}",
)  # fmt: skip
def test_what_another_program_changes_returns(made: GuaranteeSite, words: tuple[str, ...]) -> None:
    made.set_rules(guarantee(GUARANTEED))

    def state() -> tuple[set[str], str]:
        return made.rates(), made.tc("filter", "show", "dev", PHYSNET)

    before = state()
    made.tc(*words)
    assert state() != before
    wait_until(lambda: state() == before, state)


def test_the_queueing_discipline_of_another_owner_stays_and_the_port_is_refused(
    made: GuaranteeSite,
) -> None:
    made.await_audit()  # so that the agent has seen the device without it
    made.tc("qdisc", "add", "dev", PHYSNET, "root", "handle", "1:", "tbf", "rate", "50mbit",
            "burst", "50k", "latency", "50ms")  # fmt: skip
    try:
        made.write_rules(guarantee(GUARANTEED))
        wait_until(lambda: "of another owner" in made.why(made.senders[0]), lambda: _said(made))
        assert "tbf 1:" in made.qdisc()
    finally:
        made.tc("qdisc", "del", "dev", PHYSNET, "root")
    wait_until(lambda: HTB in made.qdisc(), lambda: _said(made))
    made.host.await_settled()
    assert "of another owner" not in made.why(made.senders[0])


def _said(made: GuaranteeSite) -> tuple[str, str]:
    return made.why(made.senders[0]), made.host.log.read_text()[-3000:]


def _more(made: GuaranteeSite, kind: str) -> tuple[Port, Callable[[], None]]:
    """Plug one more port with the policy; return it, and what removes it."""
    topology = made.site.topology
    nets, ports = list(topology.nets), list(topology.ports)
    net = made.net if kind == "same" else made.site.network(kind)
    port = made.site.port(net, "host1", qos_policy="policy")
    topology.write()
    made.site.plug(port)

    def remove() -> None:
        made.site.unplug(port)
        topology.nets, topology.ports = nets, ports
        made.site.settle()

    return port, remove


def test_no_more_than_the_device_has_is_guaranteed(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    port, remove = _more(made, "same")
    try:
        wait_until(lambda: "only 1600 are not guaranteed" in made.why(port), lambda: made.why(port))
        assert made.rates() == {"4Mbit", "2400Kbit", "1600Kbit"}
    finally:
        remove()


def test_a_port_on_a_tunnelled_network_is_refused(made: GuaranteeSite) -> None:
    made.set_rules(guarantee(GUARANTEED))
    port, remove = _more(made, "vxlan")
    try:
        wait_until(lambda: "a network of type vxlan" in made.why(port), lambda: made.why(port))
    finally:
        remove()
