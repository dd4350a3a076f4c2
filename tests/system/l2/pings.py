"""Pings within couples, and of a control, that run while something is done to the hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from attrs import frozen

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until
from tests.system.l2.environment import SOON, Couple
from tests.system.pings import INTERVAL, Pings, pinging_all

CONTROL = "control"


@frozen
class Control:
    """Two instances on a host without an agent, on a bridge that nobody touches.

    What they lose at the same time is the machine's doing, and not that of an agent.
    """

    one: Instance
    two: Instance

    @classmethod
    def on(cls, host: Host) -> Control:
        host.ovs.add_bridge("br-control")
        instances = [
            host.instance(
                f"control{number}",
                Plug(
                    bridge="br-control", device=f"ctl{number}", addresses=(f"10.9.0.{number}/24",)
                ),
            )
            for number in (1, 2)
        ]
        return cls(*instances)


@contextmanager
def pinging(
    couples: Mapping[str, Couple], control: Control, interval: float = INTERVAL
) -> Iterator[Pings]:
    """Ping within all *couples*, both IP versions by turns, and the control too."""
    targets = {
        name: (couple.instances[0], couple.ports[1].v6 if number % 2 else couple.ports[1].v4)
        for number, (name, couple) in enumerate(couples.items())
    }
    with pinging_all({**targets, CONTROL: (control.one, "10.9.0.2")}, interval) as pings:
        yield pings


def await_reach(couples: Mapping[str, Couple], control: Control) -> None:
    for couple in couples.values():
        couple.await_reach()
    wait_until(lambda: not control.one.ping("10.9.0.2", timeout=SOON).lost)
