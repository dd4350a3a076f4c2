"""Events of ports that another process plugs, numbers and unplugs."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import evolve

from netfw.drivers.values.events import KeysChanged
from netfw.errors import BackendUnavailable, NetfwError, OperationRefused
from netfw.ovs.ovsdb.operations import RemovePort
from netfw.ovs.ovsdb.values import DatabaseChanged
from netfw.plan import Operation, Stage
from netfw_drivers.ovs.switch.executor import SwitchExecutor
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OVSDB
from netfw_drivers.ovs.switch.port_tracker import PortTracker
from tests.unit.backends.ovs.switch.samples import SETTINGS, Database, port_key


class _Ports:
    """A tracker, and ports that the database announces to it; `take` returns its events."""

    def __init__(self):
        self.events = []
        self.tracker = PortTracker(SETTINGS, self.events.append)
        self.tracker.listed()
        database = Database()
        database.plug(1, ofport=1)
        self.row = database.ports["tap1"]

    def announce(self, *ports):
        self.tracker(DatabaseChanged(ports={port.name: port for port in ports}))

    def port(self, number, **interface):
        ids = {"iface-id": str(port_key(number).port)}
        members = (evolve(self.row.interface, external_ids=ids, **interface),)
        return evolve(self.row, name=f"tap{number}", interfaces=members)

    def take(self):
        taken = [(event.keys, bool(event.delay)) for event in self.events]
        assert all(isinstance(event, KeysChanged) for event in self.events)
        self.events.clear()
        return taken


@pytest.fixture
def ports():
    return _Ports()


def test_a_new_port_is_awaited_until_the_switch_has_numbered_it(ports):
    ports.announce(ports.port(1, ofport=None))
    assert ports.take() == [({port_key(1)}, True)]
    ports.announce(ports.port(1, ofport=7))
    assert ports.take() == [({port_key(1)}, False)]


@pytest.mark.parametrize(
    "interface", [{"ofport": 7}, {"ofport": -1, "error": "no such device"}, {"error": "no such"}]
)
def test_a_new_port_that_the_switch_has_handled_is_converged_at_once(ports, interface):
    ports.announce(ports.port(1, **{"ofport": None, **interface}))
    assert ports.take() == [({port_key(1)}, False)]


def test_a_port_that_loses_its_number_is_converged_at_once(ports):
    ports.announce(ports.port(1, ofport=7))
    ports.take()
    ports.announce(ports.port(1, ofport=None), ports.port(2, ofport=None))
    assert ports.take() == [({port_key(1)}, False), ({port_key(2)}, True)]


def test_a_second_device_of_a_port_does_not_delay_what_happens_to_the_first(ports):
    ports.announce(ports.port(1, ofport=7))
    ports.take()
    second = evolve(ports.port(1, ofport=None), name="tap9")
    ports.announce(ports.port(1, ofport=8), second)
    assert ports.take() == [({port_key(1)}, False)]


def test_a_port_of_another_bridge_needs_no_number(ports):
    ports.announce(evolve(ports.port(1, ofport=None), bridge="br-other"))
    assert ports.take() == [({port_key(1)}, False)]


@pytest.mark.parametrize("error", [OperationRefused({"a": "no"}), BackendUnavailable("gone")])
def test_a_removal_that_failed_hides_no_removal_by_others(ports, error):
    ports.announce(ports.port(1, ofport=7))
    ports.take()

    def run(*_: object, **_more: object) -> None:
        raise error

    nothing: Any = SimpleNamespace(acquire=lambda: None, locks=(), run=run)
    executor = SwitchExecutor(
        nothing, nothing, ports.tracker, nothing, links=nothing, traffic=nothing, plan=nothing
    )
    removal = Operation(OVSDB, "remove tap1", frozenset(), cast(Any, RemovePort(name="tap1")))
    with pytest.raises(NetfwError):
        executor.execute(Stage([removal]))
    ports.tracker(DatabaseChanged(ports_gone=frozenset({"tap1"})))
    assert ports.take() == [({port_key(1)}, False)]
