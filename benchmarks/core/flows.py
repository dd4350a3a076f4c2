"""Flows: from arguments and values to a committed bundle, and what it costs if nothing changed.

Ratios of one run on one machine; ``python -m benchmarks.core.flows`` runs it alone.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.figure import Figure, ratio
from netfw import flows as of
from netfw.ovs.openflow import (
    CookieSpace,
    Encoded,
    FlowChanges,
    FlowGroup,
    FlowMirror,
    OpenFlow,
    difference,
)
from netfw.testing.lab import sandbox
from netfw.testing.lab.openvswitch import PrivateOvs

COUNT = 10_000
SMALLER = (1_000, 2_500, 5_000)
GROUPS = 200
COOKIE = 0x5EC0_0000_0000_0001
SPACE = CookieSpace(COOKIE, 0xFFFF_FFFF_0000_0000 | 1)
ZONE = of.RegisterField(6, 0, 15, "zone of the network")
REMOTE = of.RegisterField(0, 0, 31, "remote group")


def rule_flow(number: int) -> of.Flow:
    """Return the flow of one rule of a security group: six matches, three actions, all distinct."""
    return of.Flow(
        table=72,
        priority=73,
        cookie=COOKIE,
        match=of.tcp()
        & of.ct_state("+new-est+trk")
        & of.register(5, number % GROUPS + 1)
        & of.ipv4_src(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        & of.tcp_dst(1000 + number % 5000),
        actions=(of.ct(commit=True, zone=ZONE), of.load(REMOTE, number), of.goto(92)),
    )


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def figures(repeats: int = 5) -> Iterator[Figure]:
    """Yield the figures of this file, all from one run."""
    with ExitStack() as stack:
        switch = PrivateOvs(Path("/run/netfw/bench-flows")).start()
        stack.callback(switch.stop)
        switch.add_bridge("br0")
        client = OpenFlow(switch.management("br0"), timeout=60)
        stack.callback(client.close)
        client.wait_connected()
        # The shortest of each: what others do on the machine only ever makes it longer.
        raw, made, bundle, dump = map(min, zip(*_bundles(switch, client, repeats), strict=True))
        mirror = min(_mirrored(switch, client, repeats))
        sizes = {size: _shortest(switch, client, size) for size in SMALLER}
    yield ratio("core: 10,000 flows, arguments to bundle, over ovs-ofctl",
                own=made, raw=raw, target=1.5)  # fmt: skip
    yield ratio("core: 10,000 flows, values to bundle, over ovs-ofctl",
                own=bundle, raw=raw, target=1, sizes={**sizes, COUNT: (raw, bundle)})  # fmt: skip
    yield ratio("core: no change of 10,000 flows, fresh dump, over bundle",
                own=dump, raw=bundle, target=1 / 3)  # fmt: skip
    yield ratio("core: no change of 10,000 flows, mirror, over bundle",
                own=mirror, raw=bundle, target=1 / 100)  # fmt: skip


def _shortest(switch: PrivateOvs, client: OpenFlow, count: int) -> tuple[float, float]:
    raw, _, bundle, _ = map(min, zip(*_bundles(switch, client, 2, count), strict=True))
    return raw, bundle


def _bundles(
    switch: PrivateOvs, client: OpenFlow, repeats: int, count: int = COUNT
) -> Iterator[tuple[float, float, float, float]]:
    """Yield the seconds of the raw tool, of two bundles, and of a comparison with a fresh dump.

    The first bundle includes the time to make the flows.
    """
    target = switch.management("br0")
    text = switch.directory / "flows.txt"
    text.write_text("".join(f"{of.render_flow(rule_flow(n))}\n" for n in range(count)))
    for _ in range(repeats):
        switch.ofctl("del-flows", target)
        raw = timed(lambda: switch.ofctl("--bundle", "add-flows", target, str(text)))
        switch.ofctl("del-flows", target)
        made = timed(lambda: _commit(client, map(rule_flow, range(count)), []))
        switch.ofctl("del-flows", target)
        flows = [rule_flow(number) for number in range(count)]
        encoded: list[Encoded] = []
        bundle = timed(partial(_commit, client, flows, encoded))
        wanted = {flow.key: flow for flow in encoded}
        yield raw, made, bundle, timed(partial(_compare, client, wanted))


def _mirrored(switch: PrivateOvs, client: OpenFlow, repeats: int) -> Iterator[float]:
    """Yield the seconds to find by a current mirror that all groups have the desired flows."""
    switch.ofctl("del-flows", switch.management("br0"))
    mirror = FlowMirror(client)
    mirror.wait_current()
    mirror.converge({number: _group(number) for number in range(GROUPS)}, complete=SPACE)
    same: dict[Hashable, FlowGroup] = {number: _group(number) for number in range(GROUPS)}
    for _ in range(repeats):
        yield timed(lambda: _unchanged(mirror.plan(same, complete=SPACE).changes))


def _compare(client: OpenFlow, wanted: dict[bytes, Encoded]) -> None:
    _unchanged(difference(wanted, client.flows(SPACE), SPACE))


def _commit(client: OpenFlow, flows: Iterable[of.Flow], encoded: list[Encoded]) -> None:
    encoded += map(Encoded, flows)
    client.commit(FlowChanges(tuple(encoded)))


def _group(number: int) -> FlowGroup:
    members = range(number, COUNT, GROUPS)
    return FlowGroup(("group", number, members), lambda: map(rule_flow, members))


def _unchanged(changes: FlowChanges) -> None:
    if changes:
        raise RuntimeError(f"{len(changes)} changes where nothing changed")


if __name__ == "__main__":
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "benchmarks.core.flows"])
    for figure in figures():
        print(figure.line())
