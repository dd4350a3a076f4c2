"""How often a database that went away is looked for."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver

ATTEMPTS = 9


def pauses(ovs) -> Iterator[float]:
    """Yield the seconds between attempts to connect, while each connection is closed at once."""
    path = Path(ovs.remote.removeprefix("unix:"))
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as stand_in:
        stand_in.bind(str(path))
        stand_in.listen()
        stand_in.settimeout(60)
        before = None
        for _ in range(ATTEMPTS):
            connection, _ = stand_in.accept()
            now = time.monotonic()  # before the end of the connection, which a pause follows
            connection.close()
            if before is not None:
                yield now - before
            before = now


@contextmanager
def left_alone(ovs, pause: float) -> Iterator[None]:
    """Run the block beside a driver that was configured with *pause* and lost its database."""
    given = {"ovsdb_connection": ovs.remote, "ovsdb_monitor_respawn_interval": pause}
    options = check_options("openvswitch", OvsSwitchDriver, given)
    with LocalHostResources() as host:
        OvsSwitchDriver.from_conf(options, host).devices()
        ovs.stop_switch()  # it would look for the database as well
        ovs.stop_database()
        yield


@pytest.mark.spec("L2-01")
def test_pauses_end_to_grow_at_what_was_configured(ovs):
    with left_alone(ovs, 0.1):
        assert 0.05 < min(list(pauses(ovs))[-2:]) < 0.4


@pytest.mark.spec("L2-01")
def test_pauses_double_up_to_what_was_configured(ovs):
    # They start at 20 ms: one of the first nine is longer than a second, whichever it is.
    with left_alone(ovs, 60.0):
        assert any(pause > 1.0 for pause in pauses(ovs))
