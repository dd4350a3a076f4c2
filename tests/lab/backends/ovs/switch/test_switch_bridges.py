"""What the switch driver finds when it starts: bridges of others, and other drivers."""

import threading

import pytest

from netfw.drivers.reconciler import no_checkpoint
from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import BackendUnavailable
from netfw.plan import Update
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from tests.lab.backends.ovs.switch.environment import network, port


def made(kind, host, ovs):
    options = check_options("openvswitch", kind, {"ovsdb_connection": ovs.remote})
    return kind.from_conf(options, host)


def test_interface_and_switch_driver_of_one_host_share_one_connection(ovs):
    with LocalHostResources() as host:
        before = threading.active_count()
        for kind in (OvsInterfaceDriver, OvsSwitchDriver):
            made(kind, host, ovs).problems()
        assert threading.active_count() == before + 1


@pytest.mark.parametrize("versions", ["", "OpenFlow10,OpenFlow13,OpenFlow14", "OpenFlow15"])
@pytest.mark.spec("L2-02")
def test_a_bridge_that_was_there_before_is_taken_over_in_one_call(one, versions):
    setting = [f"protocols={versions}"] if versions else []
    one.ovs.vsctl(
        "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev", *setting
    )
    one.instance(1)
    wanted = Update(put={**network(1), **port(1, 1)}, complete=True)
    outcome = one.driver.converge(wanted)
    assert outcome.ok, outcome
    assert "priority=0 actions=NORMAL" not in "\n".join(one.flows("br-int"))
    assert one.driver.plan(wanted, one.driver.observe(None)).stages == ()
    kept = one.ovs.vsctl("get", "Bridge", "br-int", "fail_mode", "protocols")
    assert "secure" in kept
    assert "OpenFlow14" in kept


def test_a_bridge_with_other_protocols_is_repaired_in_one_call(one):
    # The switch hangs up when the row changes; it may take a while until this side sees it.
    wanted = Update(put=network(1), complete=True)
    assert one.driver.converge(wanted).ok
    heard = []
    one.driver.watch(heard.append)
    for versions in ("OpenFlow14", "OpenFlow13,OpenFlow14", "OpenFlow14", "OpenFlow15"):
        heard.clear()
        one.ovs.vsctl("set", "Bridge", "br-int", f"protocols={versions}", "fail_mode=standalone")
        wait_until(lambda: any("the bridges" in event.reason for event in heard))
        assert one.driver.converge(wanted).ok
        assert one.driver.plan(wanted, one.driver.observe(None)).stages == ()


def _protocols(one) -> int:
    """Return how many the driver sees; 0 while the switch hangs up because they change."""
    try:
        return len(one.driver.observe(None).snapshot.bridges["br-int"].protocols)
    except BackendUnavailable:
        return 0


def test_flows_that_go_when_a_row_changes_come_back_though_the_plan_had_none(one):
    # The switch empties the bridge, and this side is not yet informed when it plans.
    wanted = Update(put=network(1), complete=True)
    assert one.driver.converge(wanted).ok
    one.ovs.vsctl("set", "Bridge", "br-int", "protocols=OpenFlow14")
    wait_until(lambda: _protocols(one) == 1)
    plan = one.driver.plan(wanted, one.driver.observe(None))
    assert [stage.backend for stage in plan.stages] == ["ovsdb"]
    for mode in ("standalone", "secure"):
        one.ovs.vsctl("set", "Bridge", "br-int", f"fail_mode={mode}")
    assert len(one.flows("br-int")) <= 1
    one.driver.apply(plan, no_checkpoint)
    assert one.driver.plan(wanted, one.driver.observe(None)).stages == ()


def test_a_switch_that_hangs_up_unnoticed_is_spoken_with_anew(one):
    # The row's change ends our own connection; here that is not noticed before flows are due.
    assert one.driver.converge(Update(put=network(1), complete=True)).ok
    one.instance(1)
    wanted = Update(put={**network(1), **port(1, 1)}, complete=True)
    one.ovs.vsctl("set", "Bridge", "br-int", "protocols=OpenFlow14")
    wait_until(lambda: _protocols(one) == 1)
    plan = one.driver.plan(wanted, one.driver.observe(None))
    deaf, hears = threading.Event(), threading.Event()
    one.driver.watch(lambda _: (deaf.set(), hears.wait(60)))
    one.ovs.ofctl("-OOpenFlow14", "del-flows", one.ovs.management("br-int"), "table=23")
    assert deaf.wait(60)
    threading.Timer(0.3, hears.set).start()
    one.driver.apply(plan, no_checkpoint)
    assert hears.is_set()
    assert one.driver.plan(wanted, one.driver.observe(None)).stages == ()
