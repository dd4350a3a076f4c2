"""Pings that run while something is done to the hosts, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from attrs import field, frozen

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import BackgroundPings, Ping, Pinger

INTERVAL = 0.01
GRACE = 2.0
"""Seconds for answers that are under way at the end."""


@frozen
class Pings:
    """Pings under way; results once they have been stopped."""

    names: Sequence[str]
    running: BackgroundPings
    results: dict[str, Ping] = field(factory=dict)

    def stop(self) -> dict[str, Ping]:
        if not self.results:
            self.results.update(zip(self.names, self.running.stop(), strict=True))
        return self.results

    def lost(self) -> dict[str, int]:
        """Return how many each flow lost; flows that lost nothing are left out."""
        return {name: ping.lost for name, ping in self.stop().items() if ping.lost}

    def outage(self, *names: str) -> float:
        """Return the longest outage of any of them, or of those of *names*, by the clock."""
        results = self.stop()
        return max(results[name].outage_by_clock for name in names or results)

    def report(self) -> str:
        return "; ".join(
            f"{name}: {ping.lost} of {ping.sent} lost{_since(ping)}, "
            f"outage {ping.outage_by_clock:.2f} s, "
            f"longest round trip {1000 * (ping.longest or 0):.0f} ms"
            for name, ping in self.stop().items()
        )


@contextmanager
def pinging_all(
    targets: Mapping[str, tuple[Instance, str]], interval: float = INTERVAL
) -> Iterator[Pings]:
    """Ping each address from its instance while the block runs, all at the same times."""
    pingers = [instance.call(Pinger, address, interval) for instance, address in targets.values()]
    pings = Pings(tuple(targets), BackgroundPings(pingers, GRACE))
    try:
        yield pings
    finally:
        pings.stop()


def _since(ping: Ping) -> str:
    """Say when the first and the last lost request were sent, in seconds after the first one."""
    sent = zip(ping.sent_at, ping.times, strict=True)
    lost = [at - ping.sent_at[0] for at, took in sent if took is None]
    return f" (after {lost[0]:.2f} to {lost[-1]:.2f} s)" if lost else ""
