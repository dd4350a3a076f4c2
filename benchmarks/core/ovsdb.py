"""Ports by plan against one ``ovs-vsctl``: the same ports, columns and waiting for the switch.

Each side works on a bridge of its own of the same private switch, in turns; the best of the rounds
counts.  Run it with ``python -m benchmarks.core.ovsdb``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from benchmarks.figure import Figure, ratio
from netfw.drivers.interface import Attachment
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.plan import Update
from netfw.testing.lab import sandbox
from netfw.testing.lab.openvswitch import PrivateOvs
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver

PORTS = 200
ROUNDS = 3
TARGET = 2.0


def wanted() -> dict[PortId, Attachment]:
    return {
        PortId(UUID(int=number << 96)): Attachment(
            device=f"our{number}", mac=f"fa:16:3e:00:{number >> 8:02x}:{number & 255:02x}", up=False
        )
        for number in range(PORTS)
    }


def vsctl_add(bridge: str) -> Iterator[str]:
    """Yield the words of one command for the ports that the driver makes, column by column."""
    for port_id, attachment in wanted().items():
        name = attachment.device.replace("our", "raw")
        yield from (
            "--",
            "add-port",
            bridge,
            name,
            "tag=4095",
            f"external_ids:netfw-port={port_id}",
        )
        yield from ("--", "set", "Interface", name, "type=internal")
        yield from (f'mac="{attachment.mac}"', f"mtu_request={attachment.mtu}")
        yield from (f"external_ids:iface-id={port_id}", "external_ids:iface-status=active")
        yield f'external_ids:attached-mac="{attachment.mac}"'


def vsctl_remove(bridge: str) -> Iterator[str]:
    for attachment in wanted().values():
        yield from ("--", "del-port", bridge, attachment.device.replace("our", "raw"))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(ovs: PrivateOvs) -> tuple[Figure, Figure]:
    """Measure how `PORTS` internal ports are added and removed."""
    ovs.add_bridge("br-raw")
    ovs.add_bridge("br-our")
    times: dict[str, list[float]] = {"raw+": [], "our+": [], "raw-": [], "our-": []}
    with Ovsdb(ovs.remote, timeout=60) as ovsdb:
        driver = OvsInterfaceDriver(ovsdb, "br-our")
        ovsdb.snapshot()
        update = Update(put=wanted())

        def add() -> None:
            assert driver.converge(update).ok

        for _ in range(ROUNDS):
            times["raw+"].append(seconds(lambda: ovs.vsctl(*vsctl_add("br-raw"))))
            times["raw-"].append(seconds(lambda: ovs.vsctl(*vsctl_remove("br-raw"))))
            times["our+"].append(seconds(add))
            times["our-"].append(seconds(lambda: driver.gc(())))
            assert driver.present() == frozenset()
    best = {name: min(values) for name, values in times.items()}
    return (
        ratio(
            f"{PORTS} internal ports by one plan / one ovs-vsctl",
            own=best["our+"],
            raw=best["raw+"],
            target=TARGET,
        ),
        ratio(
            f"removing {PORTS} internal ports by one plan / one ovs-vsctl",
            own=best["our-"],
            raw=best["raw-"],
            target=TARGET,
        ),
    )


def figures() -> tuple[Figure, Figure]:
    """Measure in a private switch, which needs a sandbox around this process."""
    with tempfile.TemporaryDirectory(prefix="netfw-bench-", dir="/run") as directory:
        ovs = PrivateOvs(Path(directory) / "ovs").start()
        try:
            return measure(ovs)
        finally:
            ovs.stop()


def main() -> None:
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "benchmarks.core.ovsdb"])
    for figure in figures():
        print(figure.line())


if __name__ == "__main__":
    main()
