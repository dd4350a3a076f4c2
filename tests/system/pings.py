"""Pings that run while something is done to the hosts, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from attrs import field, frozen

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import BackgroundPing, Ping

INTERVAL = 0.01


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

    def outage(self, *names: str) -> float:
        """Return the longest outage of any of them, or of those of *names*, by the clock."""
        results = self.stop()
        return max(results[name].outage_by_clock for name in names or results)

    def report(self) -> str:
        return "; ".join(
            f"{name}: {ping.lost} of {ping.sent} lost, outage {ping.outage_by_clock:.2f} s, "
            f"longest round trip {1000 * (ping.longest or 0):.0f} ms"
            for name, ping in self.stop().items()
        )


@contextmanager
def pinging_all(
    targets: Mapping[str, tuple[Instance, str]], interval: float = INTERVAL
) -> Iterator[Pings]:
    """Ping each address from its instance while the block runs."""
    with ExitStack() as stack:
        yield Pings(
            {
                name: stack.enter_context(instance.pinging(address, interval))
                for name, (instance, address) in targets.items()
            }
        )
