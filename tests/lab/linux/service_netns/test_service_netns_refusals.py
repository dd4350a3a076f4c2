"""Stations that cannot be had, and who is told why."""

from __future__ import annotations

from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.interface import Attachment
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.linux import netns
from netfw.linux.service_netns import ServiceNetnsExecutor, plan_service_netns
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Operation, Update
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.lab.linux.service_netns.samples import OWNER, converge, interfaces, plan, station


@pytest.mark.spec("DHCP-23")
def test_missing_bridge_is_reported_with_the_remedy(interface, ovsdb):
    wanted = station(interface)
    stations = ServiceNetnsExecutor(OvsInterfaceDriver(ovsdb, "br-none"))
    with pytest.raises(OperationRefused, match="ovs-vsctl add-br br-none") as refused:
        converge(stations, wanted)
    (operation,) = refused.value.reasons
    assert isinstance(operation, Operation)
    assert (operation.owners, operation.backend) == ({OWNER}, "interface")
    assert converge(ServiceNetnsExecutor(interface), wanted), (
        "with the bridge it goes on from there"
    )
    assert plan(stations, wanted) == ()


def test_a_name_that_another_port_has_is_a_refusal_that_says_so(interface, stations):
    wanted = station(interface)
    netns.ensure(wanted.netns)
    taken = Attachment(device=wanted.device, mac="fa:16:3e:00:00:09", netns=wanted.netns)
    other = PortId(uuid4())
    assert interface.converge(Update(put={other: taken})).ok
    with pytest.raises(OperationRefused, match=wanted.device):
        converge(stations, wanted)
    assert interface.present() == {other}


def test_what_needs_no_switch_is_done_while_its_database_is_away(ovs, ovsdb):
    ovs.add_bridge("br-int")
    patient = OvsInterfaceDriver(ovsdb)
    there, new = station(patient, 1), station(patient, 2)
    converge(ServiceNetnsExecutor(patient), there)
    with Ovsdb(ovs.remote, timeout=0.5) as hasty:
        stations = ServiceNetnsExecutor(OvsInterfaceDriver(hasty))
        ovs.stop_database()
        moved = evolve(there, addresses=interfaces("10.0.0.9/24"))
        converge(stations, moved)
        assert plan(stations, moved) == ()
        with pytest.raises(BackendUnavailable):
            converge(stations, new)
    ovs.start_database()
    converge(ServiceNetnsExecutor(patient), new)
    assert plan(ServiceNetnsExecutor(patient), new) == ()


@pytest.mark.spec("DHCP-23")
def test_a_station_lives_on_when_its_switch_was_restarted(interface, stations, ovs):
    wanted = station(interface)
    converge(stations, wanted)
    ovs.kill_switch()
    ovs.start_switch()
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert stations.observe(wanted.netns).links[wanted.device].carrier
    in_use = ovs.vsctl("get", "Interface", wanted.device.replace("ns-", "tap"), "ofport")
    assert int(in_use) > 0


def test_refused_stage_names_its_owners(interface, stations):
    wanted = station(interface)
    stages = plan_service_netns("somebody", wanted, stations.observe(wanted.netns))
    addressing = next(stage for stage in stages if "ip address" in str(stage.operations[0]))
    with pytest.raises(OperationRefused, match="there is no network namespace") as refused:
        stations.apply(addressing)
    (operation,) = refused.value.reasons
    assert isinstance(operation, Operation)
    assert operation.owners == {"somebody"}


class Defective(OvsInterfaceDriver):
    """An interface driver with a mistake in it."""

    def converge(self, update):
        raise ZeroDivisionError("ports / 0")


def test_a_defect_of_the_interface_driver_is_a_refusal_that_names_it(ovs, ovsdb):
    ovs.add_bridge("br-int")
    defective = Defective(ovsdb)
    with pytest.raises(OperationRefused, match="openvswitch: ZeroDivisionError: ports / 0"):
        converge(ServiceNetnsExecutor(defective), station(defective))


def test_only_checksum_filling_is_refused_without_iptables(ovs, ovsdb, monkeypatch):
    ovs.add_bridge("br-int")
    interface = OvsInterfaceDriver(ovsdb)
    stations, wanted = ServiceNetnsExecutor(interface), station(interface)
    with monkeypatch.context() as without:
        without.setenv("PATH", "/nowhere")
        converge(stations, wanted)
        assert plan(stations, wanted) == ()
        with pytest.raises(OperationRefused, match="iptables") as refused:
            converge(stations, evolve(wanted, fill_checksums=True))
    assert "install" in str(refused.value)
