"""The interface driver on a real switch, beyond what the suite asks of every driver."""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import TypeVar
from uuid import uuid4

import pytest

from netfw.drivers.interface import Attachment, InterfaceDriver
from netfw.drivers.reconciler import no_checkpoint
from netfw.drivers.registry.loader import load
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.events import BackendRecovered, Event, FeedLost, KeysChanged
from netfw.errors import BackendBroken, BackendUnavailable, Conflict, OperationRefused
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, DelLink
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Update
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver

MAC = "fa:16:3e:00:00:01"
E = TypeVar("E", bound=Event)


@pytest.fixture
def ovsdb(ovs: PrivateOvs) -> Iterator[Ovsdb]:
    with Ovsdb(ovs.remote, timeout=5) as ovsdb:
        yield ovsdb


@pytest.fixture
def namespace() -> Iterator[str]:
    netns.ensure("qdhcp-test")
    yield "qdhcp-test"
    netns.delete("qdhcp-test")


def port_id() -> PortId:
    return PortId(uuid4())


def external_ids(ovs: PrivateOvs, table: str, name: str) -> dict[str, str]:
    row = json.loads(ovs.vsctl("--format=json", "--columns=external_ids", "list", table, name))
    return dict(row["data"][0][0][1])


@pytest.mark.spec("DHCP-23")
def test_the_switch_has_the_ids_of_plugged_ports(ovs, ovsdb, namespace):
    ovs.add_bridge("br-int")
    key = port_id()
    driver = OvsInterfaceDriver(ovsdb)
    driver.converge(Update(put={key: Attachment(device="tap1", mac=MAC, netns=namespace)}))
    assert external_ids(ovs, "Interface", "tap1") == {
        "iface-id": str(key),
        "iface-status": "active",
        "attached-mac": MAC,
    }
    assert external_ids(ovs, "Port", "tap1") == {"netfw-port": str(key), "netfw-netns": namespace}
    assert ovs.vsctl("get", "Port", "tap1", "tag") == "4095\n"
    assert driver.devices()[key].ofport == int(ovs.vsctl("get", "Interface", "tap1", "ofport"))


@pytest.mark.spec("DHCP-23")
def test_a_missing_bridge_is_reported_with_what_to_do(ovs, ovsdb):
    driver = OvsInterfaceDriver(ovsdb, "br-none")
    key = port_id()
    outcome = driver.converge(Update(put={key: Attachment(device="tap1", mac=MAC)}))
    assert isinstance(outcome.failed[key], BackendBroken)
    assert "ovs-vsctl add-br br-none" in str(outcome.failed[key])
    assert driver.problems() == ("there is no bridge br-none: ovs-vsctl add-br br-none",)
    ovs.add_bridge("br-none")
    assert driver.converge(Update(put={key: Attachment(device="tap1", mac=MAC)})).ok
    assert driver.problems() == ()


def test_a_port_of_another_bridge_is_foreign_even_with_our_mark(ovs, ovsdb):
    ovs.add_bridge("br-int")
    ovs.add_bridge("br-other")
    one, two = OvsInterfaceDriver(ovsdb), OvsInterfaceDriver(ovsdb, "br-other")
    first, second = port_id(), port_id()
    assert one.converge(Update(put={first: Attachment(device="tap1", mac=MAC)})).ok
    outcome = two.converge(Update(put={second: Attachment(device="tap1", mac=MAC)}, complete=True))
    assert isinstance(outcome.failed[second], Conflict)
    assert one.present() == {first}
    assert two.present() == frozenset()


def test_one_name_in_two_namespaces_needs_veth_pairs(ovs, ovsdb):
    ovs.add_bridge("br-int")
    for name in ("one", "two"):
        netns.ensure(name)
    both = {
        port_id(): Attachment(device="eth0", mac="fa:16:3e:00:00:01", netns="one"),
        port_id(): Attachment(device="eth0", mac="fa:16:3e:00:00:02", netns="two"),
    }
    internal = OvsInterfaceDriver(ovsdb)
    assert [type(error) for error in internal.converge(Update(put=both)).failed.values()] == [
        Conflict
    ]
    internal.gc(())
    pairs = OvsInterfaceDriver(ovsdb, use_veth=True)
    assert pairs.converge(Update(put=both)).ok
    assert {device.name for device in pairs.devices().values()} == {"eth0"}
    pairs.gc(())
    for name in ("one", "two"):
        netns.delete(name)


def test_pairs_on_a_userspace_datapath_compute_their_checksums(ovs, ovsdb, namespace):
    ovs.add_bridge("br-int")
    driver = OvsInterfaceDriver(ovsdb, use_veth=True)
    driver.converge(Update(put={port_id(): Attachment(device="ns-1", mac=MAC, netns=namespace)}))
    output = subprocess.run(
        ["ip", "netns", "exec", namespace, "ethtool", "-k", "ns-1"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert "tx-checksumming: off" in output
    driver.gc(())


def test_a_device_that_appears_on_the_host_after_planning_is_not_touched(ovs, ovsdb):
    # The database accepts such a port, and the switch cannot open it: it is removed again.
    ovs.add_bridge("br-int")
    driver = OvsInterfaceDriver(ovsdb)
    taken, free = port_id(), port_id()
    update = Update(
        put={
            taken: Attachment(device="taken", mac="fa:16:3e:00:00:01"),
            free: Attachment(device="free", mac="fa:16:3e:00:00:02"),
        }
    )
    plan = driver.plan(update, driver.observe(update))
    with NetlinkClient() as network:
        network.apply([AddVeth(name="taken", peer="peer")])
        before = network.link("taken")
        with pytest.raises(OperationRefused, match="could not open network device taken"):
            driver.apply(plan, no_checkpoint)
        assert driver.present() == frozenset(), "nothing of the stage is left"
        outcome = driver.converge(update)
        assert isinstance(outcome.failed[taken], Conflict)
        assert outcome.done == {free}
        assert network.link("taken") == before
        network.apply([DelLink("taken")])


def test_deleting_a_namespace_takes_the_port_along_and_the_next_pass_brings_it_back(ovs, ovsdb):
    ovs.add_bridge("br-int")
    netns.ensure("shaky")
    key = port_id()
    wanted = Update(put={key: Attachment(device="tap1", mac=MAC, netns="shaky")})
    driver = OvsInterfaceDriver(ovsdb)
    assert driver.converge(wanted).ok
    ovs.vsctl("set", "Port", "tap1", "tag=5")
    netns.delete("shaky")
    assert driver.present() == {key}, "its mark is still there"
    netns.ensure("shaky")
    assert driver.converge(wanted).ok
    assert driver.devices()[key].mac == MAC
    assert ovs.vsctl("get", "Port", "tap1", "tag") == "4095\n", "it is a new port"
    driver.gc(())
    netns.delete("shaky")


def test_watchers_receive_the_ports_that_others_changed(ovs, ovsdb):
    ovs.add_bridge("br-int")
    events: queue.Queue[Event] = queue.Queue()
    driver = OvsInterfaceDriver(ovsdb)
    key = port_id()
    driver.converge(Update(put={key: Attachment(device="tap1", mac=MAC)}))
    driver.watch(events.put)
    while not events.empty():
        events.get()
    ovs.vsctl("remove", "Interface", "tap1", "external_ids", "attached-mac")
    assert until(events, KeysChanged).keys == {key}
    ovs.vsctl("del-port", "tap1")
    assert until(events, KeysChanged).keys == {key}
    ovs.stop_database()
    assert until(events, FeedLost)
    ovs.start_database()
    assert until(events, BackendRecovered)
    driver.close()


def until(events: "queue.Queue[Event]", kind: type[E]) -> E:
    while True:
        event = events.get(timeout=60)
        if isinstance(event, kind):
            return event


@pytest.mark.spec("DRV-20")
def test_two_differently_configured_drivers_work_in_one_program(ovs, tmp_path):
    # This is all that an embedding program writes.
    ovs.add_bridge("br-one")
    ovs.add_bridge("br-two")
    before = set(threading.enumerate())
    with LocalHostResources() as host:
        plug = load(InterfaceDriver, "openvswitch")
        options = {option.dest: option.default for option in plug.OPTIONS}
        options["ovsdb_connection"] = ovs.remote
        one = plug.from_conf({**options, "integration_bridge": "br-one"}, host)
        two = plug.from_conf(
            {**options, "integration_bridge": "br-two", "ovs_use_veth": True}, host
        )
        for driver, device in ((one, "port1"), (two, "port2")):
            assert driver.converge(Update(put={port_id(): Attachment(device=device, mac=MAC)})).ok
        assert ovs.vsctl("list-ports", "br-one") == "port1\n"
        assert ovs.vsctl("list-ports", "br-two").startswith("tap")
        two.gc(())
        one.gc(())
    assert set(threading.enumerate()) == before


def options_of(ovs: PrivateOvs, **changes) -> dict[str, object]:
    defaults = {option.dest: option.default for option in OvsInterfaceDriver.OPTIONS}
    return {**defaults, "ovsdb_connection": ovs.remote, **changes}


def has_nothing(driver: OvsInterfaceDriver) -> bool:
    """Return whether the database answers in time that the driver has no port."""
    try:
        return driver.present() == frozenset()
    except BackendUnavailable:
        return False


def test_each_driver_has_its_own_timeout(ovs):
    ovs.add_bridge("br-int")
    with LocalHostResources() as host:
        patient, _, impatient = (
            OvsInterfaceDriver.from_conf(options_of(ovs, ovsdb_timeout=seconds), host)
            for seconds in (60.0, 60.0, 0.5)
        )
        assert patient.present() == frozenset()
        wait_until(lambda: has_nothing(impatient))
        ovs.stop_database()
        started = time.monotonic()
        with pytest.raises(BackendUnavailable, match=r"within 0\.5 s"):
            impatient.present()
        assert time.monotonic() - started < 10
        starting = threading.Timer(0.5, ovs.start_database)
        starting.start()
        assert patient.present() == frozenset()
        starting.join()


def test_drivers_that_wait_alike_share_one_connection(ovs):
    with LocalHostResources() as host:
        before = threading.active_count()
        for _ in range(2):
            OvsInterfaceDriver.from_conf(options_of(ovs), host).problems()
        assert threading.active_count() == before + 1


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "ten"])
def test_a_timeout_that_is_no_time_is_refused_by_the_option(seconds):
    (option,) = (o for o in OvsInterfaceDriver.OPTIONS if o.dest == "ovsdb_timeout")
    assert option.type("2.5") == 2.5
    with pytest.raises(ValueError, match=r"Should be|could not|not a number"):
        option.type(seconds)
