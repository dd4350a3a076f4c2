"""The interface driver on a machine that is not as it should be."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from netfw.drivers.interface import Attachment
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Update
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import TIMEOUT
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.nightly import nightly

MAC = "fa:16:3e:00:00:01"
PLACE = "qodd"


@pytest.fixture
def ovsdb(ovs: PrivateOvs) -> Iterator[Ovsdb]:
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=5) as ovsdb:
        yield ovsdb


@pytest.fixture
def namespace() -> Iterator[str]:
    netns.ensure(PLACE)
    yield PLACE
    netns.delete(PLACE)


def port_id() -> PortId:
    return PortId(uuid4())


def links(place: str | None = None) -> set[str]:
    with NetlinkClient(place) as network:
        return set(network.links())


@pytest.mark.parametrize("name", ["foo bar", "a+b", ".hidden", "ü", "x,y"])
def test_a_foreign_namespace_of_any_name_is_ignored(ovsdb, name):
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        driver, key = OvsInterfaceDriver(ovsdb), port_id()
        wanted = Update(put={key: Attachment(device="tap1", mac=MAC)})
        assert driver.converge(wanted).ok
        assert not driver.plan(wanted, driver.observe(None))
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


STRANGE = {
    "netfw-netns": ["../../etc/passwd", "foo bar", "x" * 300],
    "netfw-device": ["", "a b", "../x", "x" * 40, "tapé"],
}


@pytest.mark.parametrize("mark", [(m, text) for m, texts in STRANGE.items() for text in texts])
@pytest.mark.parametrize("use_veth", [nightly(True), False], ids=["veth", "internal"])
def test_a_mark_that_cannot_be_is_drift(ovs, ovsdb, namespace, use_veth, mark):
    driver = OvsInterfaceDriver(ovsdb, use_veth=use_veth)
    key, other = port_id(), port_id()
    both = {
        key: Attachment(device="odd1", mac=MAC, netns=namespace),
        other: Attachment(device="odd2", mac="fa:16:3e:00:00:02"),
    }
    assert driver.converge(Update(put=both)).ok
    (row,) = ovsdb.ports_claiming("netfw-port", str(key))
    marks = dict(row.external_ids)

    def spoil() -> None:
        ovs.vsctl("set", "Port", row.name, f'external_ids:{mark[0]}="{mark[1]}"')
        ovsdb.sync()
        assert driver.plan(Update(put=both), driver.observe(None)), "it is noticed"
        assert driver.devices().keys() == both.keys()

    spoil()
    assert driver.converge(Update(put={other: both[other]}, complete=True, keep={key})).ok
    assert driver.converge(Update(put=both)).ok
    assert ovsdb.port(row.name).external_ids == marks
    assert not driver.plan(Update(put=both), driver.observe(None))
    spoil()
    assert driver.converge(Update(complete=True)).ok
    assert driver.present() == frozenset()
    assert not {"odd1", "odd2", row.name} & (links() | links(namespace))


def test_marks_that_are_both_strange_are_put_right(ovs, ovsdb, namespace):
    driver, key = OvsInterfaceDriver(ovsdb, use_veth=True), port_id()
    wanted = Update(put={key: Attachment(device="odd1", mac=MAC, netns=namespace)})
    assert driver.converge(wanted).ok
    (row,) = ovsdb.ports_claiming("netfw-port", str(key))
    ovs.vsctl("set", "Port", row.name, "external_ids:netfw-netns=../x",
              "external_ids:netfw-device=../y")  # fmt: skip
    ovsdb.sync()
    assert driver.converge(wanted).ok
    assert not driver.plan(wanted, driver.observe(None))
    driver.gc(())


@pytest.mark.parametrize("use_veth", [nightly(True), False], ids=["veth", "internal"])
@pytest.mark.parametrize("place", [None, PLACE])
def test_what_was_dropped_while_the_switch_was_dead_leaves_nothing(ovs, namespace, use_veth, place):
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=TIMEOUT) as ovsdb:
        driver, key = OvsInterfaceDriver(ovsdb, use_veth=use_veth), port_id()
        wanted = Update(put={key: Attachment(device="odd1", mac=MAC, netns=place)})
        before = links(), links(namespace)
        assert driver.converge(wanted).ok
        ovs.kill_switch()
        ovsdb.timeout = 1
        with pytest.raises(BackendUnavailable):
            driver.converge(Update(drop=frozenset({key})))
        ovs.start_switch()
        ovsdb.timeout = TIMEOUT
        assert driver.converge(Update(drop=frozenset({key}))).ok
        assert driver.converge(Update(complete=True)).ok
        assert (links(), links(namespace)) == before
        assert driver.converge(wanted).ok
        assert driver.converge(Update(complete=True)).ok


@pytest.mark.parametrize("place", [None, PLACE])
def test_a_device_is_removed_whose_switch_dies_while_its_port_is_dropped(ovs, namespace, place):
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=TIMEOUT) as ovsdb:
        driver, key = OvsInterfaceDriver(ovsdb), port_id()
        before = links(), links(namespace)
        assert driver.converge(
            Update(put={key: Attachment(device="odd1", mac=MAC, netns=place)})
        ).ok
        drop = Update(drop=frozenset({key}))
        plan = driver.plan(drop, driver.observe(drop))
        ovs.kill_switch()
        ovsdb.timeout = 5  # the database answers, and the switch does not
        with pytest.raises(BackendUnavailable, match="the switch has not acted"):
            driver.apply(plan, lambda _: None)
        assert driver.present() == frozenset()
        assert (links(), links(namespace)) == before


@pytest.mark.parametrize("place", [None, PLACE])
def test_a_device_is_removed_whose_switch_restarts_while_its_port_is_dropped(ovs, namespace, place):
    ovs.add_bridge("br-int")
    with Ovsdb(ovs.remote, timeout=30) as ovsdb, ThreadPoolExecutor(1) as pool:
        driver, key = OvsInterfaceDriver(ovsdb), port_id()
        before = links(), links(namespace)
        assert driver.converge(
            Update(put={key: Attachment(device="odd1", mac=MAC, netns=place)})
        ).ok
        drop = Update(drop=frozenset({key}))
        plan = driver.plan(drop, driver.observe(drop))
        ovs.kill_switch()
        restarted = pool.submit(ovs.start_switch)
        driver.apply(plan, lambda _: None)
        restarted.result()
        assert driver.present() == frozenset()
        assert (links(), links(namespace)) == before


def test_the_switch_polls_no_removed_device(ovs, ovsdb, namespace):
    driver = OvsInterfaceDriver(ovsdb)
    keys = [port_id() for _ in range(10)]
    ports = {
        key: Attachment(device=f"odd{n}", mac=f"fa:16:3e:00:00:{n:02x}", netns=namespace)
        for n, key in enumerate(keys)
    }
    assert driver.converge(Update(put=ports)).ok
    for key in keys:
        assert driver.converge(Update(drop=frozenset({key}))).ok
        assert ports[key].device not in links(namespace)
    assert "error receiving data" not in (ovs.directory / "ovs-vswitchd.log").read_text()


@pytest.mark.parametrize("mtu", [68, 65521, 65535])
@pytest.mark.parametrize("place", [None, PLACE])
def test_an_mtu_that_the_machine_does_not_take_is_an_error_for_its_port(
    ovsdb, namespace, place, mtu
):
    driver = OvsInterfaceDriver(ovsdb)
    key, other = port_id(), port_id()
    plain = Attachment(device="odd1", mac=MAC, netns=place)
    odd = Attachment(device="odd1", mac=MAC, netns=place, mtu=mtu)
    both = {key: odd, other: Attachment(device="odd2", mac="fa:16:3e:00:00:02", netns=place)}
    outcome = driver.converge(Update(put=both))
    assert other in outcome.done
    if mtu <= 65521:  # as much as a tap takes
        assert outcome.ok
        assert not driver.plan(Update(put=both), driver.observe(None))
    else:
        assert isinstance(outcome.failed[key], OperationRefused)
        assert "odd1" not in links(place) | links()
        assert driver.present() == {other}
    assert driver.converge(Update(put={key: plain})).ok
    outcome = driver.converge(Update(put=both))
    assert (key in outcome.done) == (mtu <= 65521)
    if key in outcome.failed:
        left = driver.plan(Update(put={key: plain}), driver.observe(None))
        assert not left, f"of what was refused there is something left: {left}"
    assert driver.converge(Update(put={key: plain})).ok
    assert not driver.plan(Update(put={key: plain}), driver.observe(None))
    driver.gc(())


@pytest.mark.parametrize("refused", ["mac", "mtu"])
def test_a_refused_key_leaves_no_pair(ovsdb, namespace, refused):
    # The kernel refuses an address or a size only when the pair is there already.
    driver, key, other = OvsInterfaceDriver(ovsdb, use_veth=True), port_id(), port_id()
    impossible = {"mac": Mac("00:00:00:00:00:00"), "mtu": 1 << 20}[refused]
    odd = Attachment(device="odd1", mac=MAC, netns=namespace)
    object.__setattr__(odd, refused, impossible)  # no driver would see it else
    before = links(), links(namespace)
    outcome = driver.converge(
        Update(put={key: odd, other: Attachment(device="odd2", mac=MAC, netns=namespace)})
    )
    assert isinstance(outcome.failed[key], OperationRefused)
    assert outcome.done == driver.present() == {other}
    driver.gc(())
    assert (links(), links(namespace)) == before


class LateOvsdb(Ovsdb):
    """Its mirror has everything a moment later than the database."""

    def stepped(self, tables, dirty):
        time.sleep(0.2)
        super().stepped(tables, dirty)


@pytest.mark.parametrize("look", ["held", "devices", "observe"])
def test_a_full_observation_includes_earlier_changes_of_others(ovs, look):
    ovs.add_bridge("br-int")
    with LateOvsdb(ovs.remote) as ovsdb:
        driver, key = OvsInterfaceDriver(ovsdb), port_id()
        assert driver.present() == frozenset()
        ovs.vsctl("add-port", "br-int", "odd1", "--", "set", "Interface", "odd1", "type=internal",
                  "--", "set", "Port", "odd1", f"external_ids:netfw-port={key}")  # fmt: skip
        looks = {
            "held": driver.present,
            "devices": lambda: frozenset(driver.devices()),
            "observe": lambda: frozenset(driver.observe(None).ours),
        }
        assert looks[look]() == {key}
