"""What cables between bridges are made of, by value."""

from collections.abc import Iterable

import pytest
from attrs import evolve

from netfw.drivers.values.keys import NetworkKey
from netfw.errors import ConfigError, Conflict
from netfw.linux.ip.operations import AddVeth, DelLink, SetMtu, SetUp
from netfw.linux.ip.values import Link
from netfw.ovs.ovsdb.operations import AddPort
from netfw.plan import Operation, Update
from netfw_drivers.ovs.switch.options import OPTIONS, settings_from
from netfw_drivers.ovs.switch.plan.outline import PlanOutline, outline
from netfw_drivers.ovs.switch.plan.settings import Settings
from tests.unit.backends.ovs.switch.samples import SETTINGS, Database, network, network_key, rows

VETH = evolve(SETTINGS, use_veth=True)
PUT = network(1, "vlan", physical_network="physnet1", segmentation_id=5)
ENDS = ("int-br-ex", "phy-br-ex")


class Machine:
    """A database and the host's devices, kept in step with operations."""

    def __init__(self) -> None:
        self.database = Database()
        self.links: dict[str, Link] = {}

    def outline(self, settings: Settings) -> PlanOutline:
        observed = evolve(self.database.observed(), links=dict(self.links))
        return outline(Update(put=PUT), observed, settings)

    def do(self, settings: Settings) -> list[str]:
        """Carry it out; what was done, in order."""
        found = self.outline(settings)
        for stage in (*found.draft.before(), *found.draft.after()):
            self.database.run(stage.operations)
            self.change(stage.operations)
        return rows(found)

    def add(self, *names: str, kind: str = "veth", mtu: int = 1500) -> None:
        """Add devices; two devices are each other's peers."""
        indices = {name: len(self.links) + 1 + at for at, name in enumerate(names)}
        for name, other in zip(names, reversed(names), strict=True):
            self.links[name] = Link(
                name=name,
                index=indices[name],
                kind=kind,
                mtu=mtu,
                up=False,
                state="down",
                peer=indices[other] if name != other else None,
            )

    def change(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation.payload:
                case AddVeth(name=name, peer=peer):
                    assert not self.links.keys() & {name, peer}
                    self.add(name, peer)
                case DelLink():
                    self.links.clear()
                case SetMtu(name, mtu):
                    self.links[name] = evolve(self.links[name], mtu=mtu)
                case SetUp(name, up):
                    self.links[name] = evolve(self.links[name], up=up)

    def types(self) -> list[str]:
        return [self.database.ports[end].interface.type for end in ENDS]

    def numbers(self) -> list[int | None]:
        return [self.database.ports[end].interface.ofport for end in ENDS]


@pytest.fixture
def joined() -> Machine:
    machine = Machine()
    machine.do(VETH)
    return machine


def ours(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if any(end in text for end in ENDS)]


@pytest.mark.spec("L2-03")
def test_veths_are_made_before_their_ports_and_raised_after_the_flows():
    found = Machine().outline(VETH)
    before = [operation.text for stage in found.draft.before() for operation in stage.operations]
    assert ours(before) == [
        "ip link add int-br-ex type veth peer name phy-br-ex",
        "ip link set int-br-ex mtu 9000",
        "ip link set phy-br-ex mtu 9000",
        "add port int-br-ex to br-int ofport_request=32513",
        "add port phy-br-ex to br-ex ofport_request=32512",
    ]
    after = [operation.text for stage in found.draft.after() for operation in stage.operations]
    assert ours(after) == [
        "sysctl -w net/ipv6/conf/int-br-ex/disable_ipv6=1",
        "ip link set int-br-ex up",
        "sysctl -w net/ipv6/conf/phy-br-ex/disable_ipv6=1",
        "ip link set phy-br-ex up",
    ]


@pytest.mark.spec("L2-01", "L2-03")
def test_a_second_plan_has_nothing_to_do(joined: Machine):
    assert joined.do(VETH) == []
    assert joined.types() == ["", ""]
    assert all(link.up for link in joined.links.values())


def test_only_links_to_physical_bridges_are_veths(joined: Machine):
    assert joined.database.ports["patch-tun"].interface.type == "patch"
    assert joined.links.keys() == set(ENDS)


@pytest.mark.spec("L2-03")
def test_from_patches_to_veths_and_back_the_flows_can_stay():
    machine = Machine()
    machine.do(SETTINGS)
    numbers = machine.numbers()
    for settings, types in ((VETH, ["", ""]), (SETTINGS, ["patch", "patch"])):
        done = ours(machine.do(settings))
        removed = [text for text in done if text.startswith("remove port")]
        assert len(removed) == 2
        assert done.index(removed[1]) < min(
            at for at, text in enumerate(done) if text.startswith("add port")
        )
        assert (machine.types(), machine.numbers()) == (types, numbers)
        assert machine.links.keys() == (set(ENDS) if settings is VETH else set())
        assert machine.do(settings) == []


def test_a_pair_goes_before_its_ports_so_that_they_tell_of_it(joined: Machine):
    done = ours(joined.do(SETTINGS))
    assert done[:2] == ["ip link delete int-br-ex", "remove port int-br-ex"]


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_is_down_is_raised_and_nothing_else(joined: Machine, end: str):
    joined.links[end] = evolve(joined.links[end], up=False)
    assert ours(joined.do(VETH)) == [
        f"sysctl -w net/ipv6/conf/{end}/disable_ipv6=1",
        f"ip link set {end} up",
    ]


def test_a_size_that_is_not_as_wanted_is_set_and_nothing_else(joined: Machine):
    joined.links["phy-br-ex"] = evolve(joined.links["phy-br-ex"], mtu=1500)
    assert joined.do(VETH) == ["ip link set phy-br-ex mtu 9000"]
    assert joined.do(evolve(VETH, veth_mtu=1600)) == [
        "ip link set int-br-ex mtu 1600",
        "ip link set phy-br-ex mtu 1600",
    ]


@pytest.mark.spec("L2-03")
def test_an_end_is_plugged_while_both_are_down(joined: Machine):
    del joined.database.ports["phy-br-ex"]
    texts = ours(joined.do(VETH))
    assert texts[:2] == ["ip link set int-br-ex down", "ip link set phy-br-ex down"]
    assert texts[2].startswith("add port phy-br-ex")
    assert all(link.up for link in joined.links.values())


def test_a_pair_that_is_gone_is_made_again_with_its_ports(joined: Machine):
    joined.links.clear()
    for end in ENDS:
        port = joined.database.ports[end]
        broken = evolve(port.interface, ofport=-1, error="No such device")
        joined.database.ports[end] = evolve(port, interfaces=(broken,))
    done = ours(joined.do(VETH))
    assert done[0] == "ip link add int-br-ex type veth peer name phy-br-ex"
    assert sum(text.startswith("remove port") for text in done) == 2
    assert joined.do(VETH) == []


def strangers() -> dict[str, Machine]:
    machines = {name: Machine() for name in ("no veth", "half", "other peer", "elsewhere")}
    machines["no veth"].add("int-br-ex", kind="bridge")
    machines["half"].add("int-br-ex", "other")
    for end in ENDS:
        machines["other peer"].add(end, f"other-{end}")
        machines["elsewhere"].add(end)
    return machines


@pytest.mark.parametrize("kind", strangers())
@pytest.mark.spec("L2-03")
def test_a_foreign_device_is_named_and_left_alone(kind: str):
    machine = strangers()[kind]
    before = dict(machine.links)
    found = machine.outline(VETH)
    (key,) = PUT
    assert isinstance(key, NetworkKey)
    refusal = found.draft.refused[key]
    assert isinstance(refusal, Conflict)
    assert "ip link delete int-br-ex" in str(refusal)
    machine.do(VETH)
    assert machine.links == before
    assert not machine.database.ports.keys() & set(ENDS)


def test_patch_ports_do_not_care_what_devices_are_called():
    machine = strangers()["no veth"]
    assert not machine.outline(SETTINGS).draft.refused
    machine.do(SETTINGS)
    assert machine.links.keys() == {"int-br-ex"}


def test_a_port_with_a_foreign_device_is_not_replaced_by_a_patch():
    machine = Machine()
    machine.do(SETTINGS)
    del machine.database.ports["int-br-ex"]
    machine.database.add_port(AddPort(bridge="br-int", name="int-br-ex", ofport_request=3))
    machine.add("int-br-ex", kind="bridge")
    assert machine.outline(SETTINGS).draft.refused.keys() == {network_key(1)}


def options(**given: object) -> dict[str, object]:
    return {**{option.dest: option.default for option in OPTIONS}, **given}


@pytest.mark.spec("L2-01")
def test_options_choose_what_links_are_made_of():
    assert not settings_from(options()).use_veth
    mappings = {"physnet1": "br-ex", "physnet2": "br-provider", "physnet3": "br-provider1"}
    found = settings_from(
        options(use_veth_interconnection=True, veth_mtu=2000, bridge_mappings=mappings)
    )
    assert {cable.veth_mtu for cable in found.bridge_links()} == {2000}
    assert found.physical_ends == (
        *ENDS,
        "int-br-provider",
        "phy-br-provider",
        "int-br-prcebb81",
        "phy-br-prcebb81",
    )


@pytest.mark.spec("L2-01")
def test_a_bridge_that_no_device_can_be_named_after_is_refused_with_veths_alone():
    given = options(bridge_mappings={"physnet1": "br:x"})
    settings_from(given)
    with pytest.raises(ConfigError, match=r"int-br:x.*use_veth_interconnection = false"):
        settings_from({**given, "use_veth_interconnection": True})
