"""The firewall in the switch: many ports at once, one member more, one rule more, and its flows.

CPU is that of the whole process: agent, drivers, their threads and a source in memory, from before
the change until the switch has said what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks.figure import Figure, milliseconds, ratio
from benchmarks.firewall.rig import ELSEWHERE, FirewallRig, firewall_rig, plug, port, rule
from benchmarks.l2.rig import run_alone, seconds
from netfw.model.security_group import Direction

PORTS = 200
SIZES = (10, 200, 2000)
REPEATS = 5
AT_ONCE, FLAT, MILLISECONDS = 5.0, 1.5, 10.0
FLOWS_OF_A_PORT, FLOWS_OF_A_MEMBER = 10.0, 1.0
_TCP = 6
_MORE = 5000


def figures() -> Iterator[Figure]:
    """Yield the figures of this file."""
    members: dict[int, float] = {}
    rules: dict[int, tuple[float, int]] = {}
    ports: dict[int, float] = {}
    flows: dict[int, int] = {}
    for size in SIZES:
        here = range(1, min(size, PORTS) + 1)
        with firewall_rig(here, range(here.stop, size + 1)) as rig:
            flows[size] = len(rig.flows(firewall=True))
            if size == PORTS:
                yield _all_at_once(rig)
            members[size], changed = _one_member_more(rig, size)
            rules[size] = _one_rule_more(rig)
            ports[size] = _one_port_more(rig)
    few, some, many = SIZES
    yield Figure(
        name=f"firewall: CPU for one member more, group of {many} over {few}",
        measured=members[many] / members[few], target=FLAT,
        raw_seconds=members[few], own_seconds=members[many],
        sizes={size: (members[few], spent) for size, spent in members.items()},
    )  # fmt: skip
    name = f"firewall: CPU for one member more, group of {many}"
    yield milliseconds(name, members[many], MILLISECONDS)
    yield Figure(
        name=f"firewall: CPU for one rule more, {some} ports over {few}",
        measured=rules[some][0] / rules[few][0], target=FLAT,
        raw_seconds=rules[few][0], own_seconds=rules[some][0],
    )  # fmt: skip
    yield _count(f"firewall: flows of one rule more, {some} ports", rules[some][1], rules[few][1])
    yield Figure(
        name=f"firewall: CPU for one port more, {some} ports over {few}",
        measured=ports[some] / ports[few], target=FLAT,
        raw_seconds=ports[few], own_seconds=ports[some],
    )  # fmt: skip
    each = (flows[some] - flows[few]) / (some - few)
    yield _count("firewall: flows of one port more, its member included", each, FLOWS_OF_A_PORT)
    yield _count("firewall: flows of one member more", changed, FLOWS_OF_A_MEMBER)


def _count(name: str, flows: float, target: float) -> Figure:
    return Figure(name=name, measured=flows, target=target, unit="", raw_seconds=0, own_seconds=0)


def _all_at_once(rig: FirewallRig) -> Figure:
    """Measure the first call of the driver over a bundle of the same flows by the raw tool."""
    ovs, own = rig.host.ovs, rig.spent[0]
    flows = rig.flows(firewall=True)
    text = rig.host.directory / "firewall-flows.txt"
    text.write_text("".join(f"{flow}\n" for flow in sorted(flows)))
    ovs.add_bridge("br-raw")
    target = ovs.management("br-raw")
    raw = []
    for _ in range(REPEATS):
        ovs.ofctl("del-flows", target)
        raw.append(seconds(partial(_load, rig, target, str(text))))
    return ratio(
        f"firewall: filters of {PORTS} ports ({len(flows)} flows) over ovs-ofctl --bundle",
        own=own, raw=min(raw), target=AT_ONCE,
    )  # fmt: skip


def _load(rig: FirewallRig, target: str, path: str) -> None:
    rig.host.ovs.ofctl("-O", "OpenFlow13", "--bundle", "add-flows", target, path)


def _one_member_more(rig: FirewallRig, size: int) -> tuple[float, float]:
    """Return the CPU seconds, and the number of flows that come."""
    spent, came = [], []
    for number in range(size + 1, size + 1 + REPEATS):
        cpu, _, new = rig.cost(partial(rig.source.put, port(number, ELSEWHERE)))
        spent.append(cpu)
        came.append(len(new))
    return median(spent), median(came)


def _one_port_more(rig: FirewallRig) -> float:
    """Return the CPU seconds to wire and filter a port, and to make it a member."""
    spent = []
    for number in range(_MORE, _MORE + REPEATS):
        rig.source.put(port(number, rig.host.name))
        spent.append(rig.cost(partial(plug, rig.host, [number]))[0])
    return median(spent)


def _one_rule_more(rig: FirewallRig) -> tuple[float, int]:
    """Return the CPU seconds, and the number of flows that come or go."""
    spent, changed = [], 0
    for number in range(REPEATS):
        content = {"protocol": _TCP, "port_min": 80 + number, "port_max": 80 + number}
        more = rule(100 + number, direction=Direction.INGRESS, **content)
        cpu, gone, new = rig.cost(partial(rig.source.put, more))
        spent.append(cpu)
        changed = max(changed, len(gone | new))
    return median(spent), changed


if __name__ == "__main__":
    run_alone("benchmarks.firewall.openflow", figures)
