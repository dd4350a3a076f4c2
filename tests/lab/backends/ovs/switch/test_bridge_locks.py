"""Two switch drivers on one real switch: one works, and the other waits."""

import queue

import pytest

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.events import FeedLost
from netfw.errors import BackendLocked
from netfw.plan import Update
from netfw_drivers.ovs.switch.bridge_locks import lock_name
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from tests.lab.backends.ovs.switch.environment import SwitchHost, network, port


@pytest.fixture
def driver_on(one: SwitchHost):
    """Return a function that makes drivers beside the host's own."""

    def make(place: LocalHostResources, **more) -> OvsSwitchDriver:
        given = {
            "datapath_type": "netdev",
            "ovsdb_connection": one.ovs.remote,
            "ovsdb_timeout": 5.0,
            **more,
        }
        options = check_options("openvswitch", OvsSwitchDriver, given)
        return OvsSwitchDriver.from_conf(options, place)

    return make


def both(one: SwitchHost, driver: OvsSwitchDriver) -> dict:
    one.instance(1)
    one.instance(2)
    driver.observe(None)  # what was plugged is known
    return {**network(1), **port(1, 1), **port(2, 1)}


@pytest.mark.parametrize("shared", [False, True], ids=["another process", "the same connection"])
def test_a_second_driver_touches_nothing_and_takes_over_when_the_first_is_closed(
    one, driver_on, shared
):
    with LocalHostResources() as mine, LocalHostResources() as own:
        first = driver_on(mine)
        assert first.converge(Update(complete=True)).ok
        things = both(one, first)
        assert first.converge(Update(put=things, complete=True)).ok
        before = one.flows("br-int")
        second = driver_on(mine if shared else own)
        heard: queue.Queue = queue.Queue()
        second.watch(heard.put)
        assert second.present() == things.keys()
        with pytest.raises(BackendLocked, match=r"br-int.*stop it.*own integration_bridge"):
            second.converge(Update(complete=True))
        plan = second.plan(Update(complete=True), second.observe(None))
        assert plan
        with pytest.raises(BackendLocked):
            second.apply(plan, lambda _: None)
        assert one.flows("br-int") == before
        first.close()
        while not isinstance(heard.get(timeout=60), FeedLost):
            pass
        assert second.converge(Update(complete=True)).ok
        assert second.present() == frozenset()
        with pytest.raises(BackendLocked):
            driver_on(own).converge(Update(put=things))
        second.close()


def test_drivers_with_bridges_of_their_own_do_not_disturb_each_other(one, driver_on):
    with LocalHostResources() as mine, LocalHostResources() as own:
        driver = driver_on(mine)
        assert driver.converge(Update(complete=True)).ok
        assert driver.converge(Update(put=both(one, driver))).ok
        before = one.flows("br-int")
        other = driver_on(own, integration_bridge="br-int2")
        assert other.converge(Update(put=network(2), complete=True)).ok
        assert one.flows("br-int") == before


@pytest.mark.parametrize(
    "option",
    [
        {"bridge_mappings": {"physnet1": "br-ex"}},
        {"tunnel_bridge": "br-int", "tunnel_types": ["vxlan"], "local_ip": "10.0.0.1"},
    ],
    ids=["bridge_mappings", "tunnel_bridge"],
)
def test_every_bridge_that_is_written_to_is_held(one, driver_on, option):
    one.ovs.add_bridge("br-ex")
    with LocalHostResources() as mine, LocalHostResources() as own:
        first = {"bridge_mappings": {"physnet1": "br-ex"}}
        assert driver_on(mine, **first).converge(Update(complete=True)).ok
        other = driver_on(own, integration_bridge="br-int2", **option)
        with pytest.raises(BackendLocked, match=f"its own .*{next(iter(option))}"):
            other.converge(Update(complete=True))


def test_a_driver_whose_lock_was_stolen_writes_nothing_until_it_has_it_back(one, driver_on):
    with LocalHostResources() as mine:
        driver = driver_on(mine)
        assert driver.converge(Update(complete=True)).ok
        assert driver.converge(Update(put=both(one, driver))).ok
        plan = driver.plan(Update(complete=True), driver.observe(None))
        before = one.flows("br-int")
        heard: queue.Queue = queue.Queue()
        driver.watch(heard.put)
        thief = one.host.spawn(["ovsdb-client", "steal", one.ovs.remote, lock_name("br-int")])
        try:
            assert isinstance(heard.get(timeout=60), FeedLost)
            for write in (
                lambda: driver.converge(Update(complete=True)),
                lambda: driver.apply(plan, lambda _: None),
            ):
                with pytest.raises(BackendLocked):
                    write()
            assert one.flows("br-int") == before
        finally:
            thief.kill()
            thief.wait(60)
        assert isinstance(heard.get(timeout=60), FeedLost)
        assert driver.converge(Update(complete=True)).ok
        assert driver.present() == frozenset()
