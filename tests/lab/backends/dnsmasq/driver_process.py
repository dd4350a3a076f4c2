"""A driver in a process of its own, to be killed: ``driver_process.py OVSDB CONFS UPDATE``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from netfw.ovs.ovsdb.client import Ovsdb
from netfw_drivers.dnsmasq.config.settings import Settings
from netfw_drivers.dnsmasq.driver import DnsmasqDhcpDriver
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver


def work(remote: str, confs: str, update: str) -> None:
    """Make the pickled update so, once, after a line that says that it begins."""
    with Ovsdb(remote, timeout=5) as ovsdb:
        interface = OvsInterfaceDriver(ovsdb, "br-int")
        driver = DnsmasqDhcpDriver(interface, Settings(confs=Path(confs), user="root"))
        wanted = pickle.loads(Path(update).read_bytes())
        _say("begins")
        driver.converge(wanted).raise_failed()
        _say("done")


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    work(*sys.argv[1:])
