"""Physical bridges that are joined to ``br-int`` by veth pairs instead of patch ports."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from netfw.drivers.values.events import FeedLost
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.ovs.switch.environment import mac, network, port

FRAME = f"dl_src={mac(7)},dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0x9999"
VETH = {"use_veth_interconnection": True}
PHYSICAL = {"bridge_mappings": {"physnet1": "br-ex"}, **VETH}
NETWORKS = {
    **network(1, network_type="vlan", physical_network="physnet1", segmentation_id=500),
    **network(2, network_type="flat", physical_network="physnet1"),
}
ENDS = ("int-br-ex", "phy-br-ex")


class Joined:
    """A host with a physical bridge; its driver works where the host's devices are."""

    def __init__(self, host, there) -> None:
        self.host, self.ovs, self.there = host, host.ovs, there
        self.everything = Update(put=NETWORKS, complete=True)

    def start(self, **options):
        self.there.configure(**options)
        self.there.start()

    def converge(self):
        return self.host.call(self.there.driver.converge, self.everything)

    def plan(self):
        observed = self.host.call(self.there.driver.observe, None)
        return self.there.driver.plan(self.everything, observed)

    def apply(self, plan, checkpoint) -> None:
        self.host.call(self.there.driver.apply, plan, checkpoint)

    def is_right(self) -> bool:
        return self.converge().ok and self.plan().stages == ()

    def devices(self) -> dict[str, dict]:
        """Return the ends that are there, as ``ip`` shows them."""
        shown = json.loads(self.host.run(["ip", "-json", "-details", "link", "show"]))
        return {link["ifname"]: link for link in shown if link["ifname"] in ENDS}

    def up(self) -> set[str]:
        return {name for name, link in self.devices().items() if "UP" in link["flags"]}

    def numbers(self) -> list[str]:
        return [self.ovs.vsctl("get", "Interface", end, "ofport").strip() for end in ENDS]

    def plug(self, number: int):
        """Plug instance *number* into the VLAN network if odd, else into the flat one."""
        machine = self.there.instance(number)
        self.host.call(self.there.driver.observe, None)  # what was plugged is known
        wanted = port(number, 2 - number % 2)
        self.everything = Update(put={**self.everything.put, **wanted}, complete=True)
        return machine


@pytest.fixture
def joined(make_lab, hosts):
    """Return a function that makes joined hosts; each leads to the same physical network."""

    def make(count: int = 1, **options) -> list[Joined]:
        found = []
        for host in make_lab(hosts=count, provider=["physnet1"]).hosts.values():
            host.ovs.add_bridge("br-ex")
            host.ovs.vsctl("add-port", "br-ex", "physnet1")
            host.namespaces.ip("link set physnet1 up")
            found.append(Joined(host, hosts(host, **{**PHYSICAL, **options})))
        return found

    return make


@pytest.fixture
def one_joined(joined):
    (host,) = joined()
    assert host.is_right()
    host.heard = []
    host.there.driver.watch(host.heard.append)
    return host


class Death(Exception):
    """The end of a process."""


def die_at_last(left: Iterator[int]) -> None:
    if next(left) == 1:
        raise Death


def reach(machines) -> None:
    """Wait until one and three, and two and four, reach each other."""
    for one, other in ((0, 2), (1, 3)):
        wait_until(lambda one=one, other=other: not machines[one].ping(f"10.0.0.{other + 1}").lost)
        wait_until(lambda one=one, other=other: not machines[one].ping(f"fd00:1::{other + 1}").lost)


@pytest.mark.spec("L2-01", "L2-03")
def test_hosts_talk_over_veths_and_over_patches_and_can_change_between_them(joined):
    first, second = joined(2)
    assert first.converge().ok
    assert second.converge().ok
    machines = [first.plug(1), first.plug(2), second.plug(3), second.plug(4)]
    assert first.is_right()
    assert second.is_right()
    assert {link["mtu"] for link in first.devices().values()} == {9000}
    reach(machines)
    numbers = first.numbers()
    for use_veth in (False, True):
        first.start(use_veth_interconnection=use_veth)
        assert first.is_right()
        assert set(first.devices()) == (set(ENDS) if use_veth else set())
        assert first.numbers() == numbers
        reach(machines)


@pytest.mark.spec("L2-03")
def test_no_veth_is_up_before_both_bridges_are_ready(joined):
    (host,) = joined()
    ready = []

    def seen(stage) -> None:
        ready.append((stage.backend, len(host.up())))
        left = set()
        if "br-int" in host.ovs.vsctl("list-br").split():
            left = host.ovs.leaves_by("br-int", f"in_port=int-br-ex,{FRAME}")
        assert not set(left) - {"physnet1"}

    host.everything = Update(put=network(3))
    host.apply(host.plan(), seen)
    backends = [backend for backend, _ in ready]
    flows = backends.index("flows/br-ex"), backends.index("flows/br-int")
    assert all(count == 0 for _, count in ready[: max(flows) + 1])
    assert ready[-1][1] == 2
    left = host.ovs.leaves_by("br-ex", f"in_port=phy-br-ex,{FRAME}")
    assert not set(left)


@pytest.mark.parametrize(
    "harm",
    ["link delete int-br-ex", "link set phy-br-ex down", "link set int-br-ex down",
     "link set phy-br-ex mtu 1400"],
)  # fmt: skip
@pytest.mark.spec("L2-03")
def test_foreign_changes_of_a_veth_are_noticed_and_repaired(one_joined, harm):
    one_joined.host.namespaces.ip(harm)
    wait_until(lambda: any(isinstance(event, FeedLost) for event in one_joined.heard))
    assert one_joined.is_right()
    assert one_joined.up() == set(ENDS)
    assert {link["mtu"] for link in one_joined.devices().values()} == {9000}


def test_a_removed_port_is_plugged_again_with_both_ends_down(one_joined):
    one_joined.ovs.vsctl("del-port", "phy-br-ex")
    wait_until(lambda: any(isinstance(event, FeedLost) for event in one_joined.heard))
    up = []
    one_joined.apply(one_joined.plan(), lambda stage: up.append((stage.backend, one_joined.up())))
    assert all(not ends for backend, ends in up if backend == "ovsdb")
    assert one_joined.up() == set(ENDS)
    assert one_joined.plan().stages == ()


def test_another_size_is_set_at_the_next_start(one_joined):
    one_joined.start(veth_mtu=2000)
    assert [stage.backend for stage in one_joined.plan().stages] == ["links"] * 2
    assert one_joined.is_right()
    assert {link["mtu"] for link in one_joined.devices().values()} == {2000}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.spec("L2-03")
def test_a_crash_after_any_step_is_repaired_by_the_next_run(joined, before):
    (host,) = joined(use_veth_interconnection=before)
    assert host.is_right()
    for steps in count(1):
        left = iter(range(steps, 0, -1))
        host.start(use_veth_interconnection=not before)
        try:
            host.apply(host.plan(), lambda stage, left=left: die_at_last(left))
        except Death:
            assert host.is_right()
            assert bool(host.devices()) != before
            host.start(use_veth_interconnection=before)
            assert host.is_right()
            assert bool(host.devices()) == before
        else:
            break
    assert steps > 3


@pytest.mark.parametrize(
    "taken",
    ["link add int-br-ex type bridge", "link add phy-br-ex type veth peer name other"],
)
@pytest.mark.spec("L2-03")
def test_a_foreign_device_is_named_and_left_alone(joined, taken):
    (host,) = joined()
    host.host.namespaces.ip(taken)
    name = taken.split()[2]
    outcome = host.converge()
    assert outcome.failed.keys() == NETWORKS.keys()
    for error in outcome.failed.values():
        assert f"ip link delete {name}" in str(error)
    assert set(host.devices()) == {name}
    host.host.namespaces.ip(f"link delete {name}")
    assert host.is_right()


def test_a_veth_pair_without_its_ports_is_removed_when_the_option_is_off(joined):
    (host,) = joined(use_veth_interconnection=False)
    host.host.namespaces.ip("link add int-br-ex type veth peer name phy-br-ex")
    assert host.is_right()
    assert host.devices() == {}


def test_the_host_sends_nothing_on_a_veth(one_joined):
    # Its packets would come from ``br-int``, as those of a flat network.
    for end in ENDS:
        assert one_joined.host.run(["ip", "address", "show", end]).count("inet") == 0


@pytest.mark.parametrize("before", [True, False])
def test_what_the_driver_does_itself_is_no_news(joined, before):
    (host,) = joined(use_veth_interconnection=before)
    assert host.is_right()
    host.start(use_veth_interconnection=not before)
    heard = []
    host.there.driver.watch(heard.append)
    assert host.is_right()
    assert heard == []


@pytest.mark.spec("L2-03")
def test_bridge_and_switch_may_go_and_come_back(one_joined):
    one_joined.ovs.vsctl("del-br", "br-ex")
    one_joined.ovs.add_bridge("br-ex")
    wait_until(one_joined.is_right)
    assert one_joined.up() == set(ENDS)
    one_joined.host.restart_switch()
    wait_until(lambda: any(isinstance(event, FeedLost) for event in one_joined.heard))
    one_joined.start()
    assert one_joined.is_right()
    assert one_joined.up() == set(ENDS)
