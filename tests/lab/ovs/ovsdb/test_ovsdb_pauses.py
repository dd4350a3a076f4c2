"""How often a database that went away is looked for."""

import socket
import time
from itertools import pairwise
from pathlib import Path

import pytest

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host import LocalHostResources
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver


def pauses(ovs, count: int) -> list[float]:
    """The seconds between *count* attempts, where nobody answers."""
    path = Path(ovs.remote.removeprefix("unix:"))
    path.unlink(missing_ok=True)
    times = []
    with socket.socket(socket.AF_UNIX) as stand_in:
        stand_in.bind(str(path))
        stand_in.listen()
        stand_in.settimeout(20)
        while len(times) < count:
            stand_in.accept()[0].close()
            times.append(time.monotonic())
    return [after - before for before, after in pairwise(times)]


@pytest.mark.spec("L2-01")
@pytest.mark.parametrize(("pause", "shortest", "longest"), [(0.1, 0.05, 0.4), (60.0, 1.0, 3.0)])
def test_a_database_that_went_away_is_looked_for_as_often_as_was_configured(
    ovs, pause, shortest, longest
):
    """Pauses double from 20 ms on, up to what was configured."""
    given = {"ovsdb_connection": ovs.remote, "ovsdb_monitor_respawn_interval": pause}
    options = check_options("openvswitch", OvsSwitchDriver, given)
    with LocalHostResources() as host:
        OvsSwitchDriver.from_conf(options, host).devices()
        ovs.stop_switch()  # it would look for the database as well
        ovs.stop_database()
        assert shortest < min(pauses(ovs, 9)[-2:]) < longest
