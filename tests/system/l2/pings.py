"""Pings that run while something is done to the hosts, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from attrs import field, frozen

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.ping import BackgroundPing, Ping
from netfw.testing.lab.wait import wait_until
from tests.system.l2.environment import SOON, Couple

CONTROL = "control"
INTERVAL = 0.01


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


@frozen
class Pings:
    """Pings under way; results once they have been stopped."""

    running: Mapping[str, BackgroundPing]
    results: dict[str, Ping] = field(factory=dict)

    def stop(self) -> dict[str, Ping]:
        if not self.results:
            with ThreadPoolExecutor(len(self.running)) as pool:
                stopped = pool.map(BackgroundPing.stop, self.running.values())
                self.results.update(zip(self.running, stopped, strict=True))
        return self.results

    def lost(self) -> dict[str, int]:
        """Who lost how many; nobody: nothing was lost."""
        return {name: ping.lost for name, ping in self.stop().items() if ping.lost}

    def report(self) -> str:
        return "; ".join(
            f"{name}: {ping.lost} of {ping.sent} lost, outage {ping.outage:.2f} s, "
            f"longest round trip {1000 * (ping.longest or 0):.0f} ms"
            for name, ping in self.stop().items()
        )


@contextmanager
def pinging(couples: Mapping[str, Couple], control: Control) -> Iterator[Pings]:
    """Ping within all *couples* every 10 ms, both IP versions by turns, and the control too."""
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                couple.instances[0].pinging(
                    couple.ports[1].v6 if number % 2 else couple.ports[1].v4, INTERVAL
                )
            )
            for number, (name, couple) in enumerate(couples.items())
        }
        running[CONTROL] = stack.enter_context(control.one.pinging("10.9.0.2", INTERVAL))
        yield Pings(running)


def await_reach(couples: Mapping[str, Couple], control: Control) -> None:
    for couple in couples.values():
        couple.await_reach()
    wait_until(lambda: not control.one.ping("10.9.0.2", timeout=SOON).lost)
