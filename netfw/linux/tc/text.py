"""Text of ``tc``: lines that change classes and filters, and what it shows.  Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from attrs import evolve

from netfw.linux.tc.values import HTB, ClassFilter, DeviceTraffic, TrafficClass

_CLASS = re.compile(
    r"^class htb ([0-9a-f]+):([0-9a-f]+) (?:root|parent [0-9a-f]+:([0-9a-f]*)) "
    r".*?rate (\d+)([KMGT]?)bit ceil (\d+)([KMGT]?)bit",
    re.MULTILINE,
)
_UNITS: Final = {"": 0.001, "K": 1, "M": 1000, "G": 1_000_000, "T": 1_000_000_000}
_SMALLEST_QUANTUM, _LARGEST_QUANTUM = 2000, 60000
_SMALLEST_BURST = 3200


def render_root(device: str, handle: int, default: int) -> str:
    """Return the line that makes *handle* the root of *device*; *default* takes what no filter
    matches."""
    return f"qdisc add dev {device} root handle {handle:x}: htb default {default:x}"


def render_class(device: str, handle: int, wanted: TrafficClass) -> Iterator[str]:
    """Yield the lines that make or change a class.

    Octets of a turn follow the rate, so that classes share what is left in proportion.
    """
    parent = f"{handle:x}:{wanted.parent:x}" if wanted.parent else f"{handle:x}:"
    quantum = min(max(wanted.kbps * 125 // 100, _SMALLEST_QUANTUM), _LARGEST_QUANTUM)
    burst, most = (max(rate // 8, _SMALLEST_BURST) for rate in (wanted.kbps, wanted.ceil_kbps))
    yield (
        f"class replace dev {device} parent {parent} classid {handle:x}:{wanted.minor:x} htb "
        f"rate {wanted.kbps}kbit ceil {wanted.ceil_kbps}kbit burst {burst} cburst {most} "
        f"quantum {quantum}"
    )
    if wanted.limit is not None:
        at = f"{handle:x}:{wanted.minor:x}"
        yield f"qdisc replace dev {device} parent {at} pfifo limit {wanted.limit}"


def render_filter(device: str, handle: int, wanted: ClassFilter) -> str:
    """Return the line that makes or changes a filter."""
    steps = ",".join(" ".join(map(str, step)) for step in wanted.program)
    return (
        f"filter replace dev {device} parent {handle:x}: protocol all prio {wanted.priority} "
        f"handle {wanted.minor:#x} bpf bytecode '{len(wanted.program)},{steps}' "
        f"flowid {handle:x}:{wanted.minor:x}"
    )


def render_class_removal(device: str, handle: int, minor: int) -> str:
    return f"class del dev {device} classid {handle:x}:{minor:x}"


def render_filter_removal(device: str, handle: int, wanted: ClassFilter) -> str:
    return (
        f"filter del dev {device} parent {handle:x}: protocol all prio {wanted.priority} "
        f"handle {wanted.minor:#x} bpf"
    )


def parse_traffic(qdiscs: str, classes: str, filters: str) -> DeviceTraffic:
    """Return what ``tc -j qdisc``, ``tc class`` and ``tc -j filter`` show of a device.

    :raises ValueError: it is not what ``tc`` writes.
    """
    shown: list[dict[str, Any]] = json.loads(qdiscs or "[]")
    roots = [each for each in shown if each.get("root")]
    if not roots:
        return DeviceTraffic(kind="noqueue")
    kind, handle = str(roots[0]["kind"]), _major(roots[0]["handle"])
    if kind != HTB:
        return DeviceTraffic(kind=kind, handle=handle)
    limits = {
        _minor(each["parent"]): each.get("options", {}).get("limit")
        for each in shown
        if "parent" in each and each["kind"] == "pfifo"
    }
    found = {
        each.minor: evolve(each, limit=limits.get(each.minor)) for each in _classes(classes, handle)
    }
    chosen = {each.minor: each for each in _filters(json.loads(filters or "[]"))}
    return DeviceTraffic(kind=kind, handle=handle, classes=found, filters=chosen)


def _classes(text: str, handle: int) -> Iterator[TrafficClass]:
    for major, minor, parent, rate, unit, ceil, ceil_unit in _CLASS.findall(text):
        if int(major, 16) == handle:
            yield TrafficClass(
                minor=int(minor, 16),
                parent=int(parent or "0", 16),
                kbps=round(int(rate) * _UNITS[unit]),
                ceil_kbps=round(int(ceil) * _UNITS[ceil_unit]),
            )


def _filters(shown: list[dict[str, Any]]) -> Iterator[ClassFilter]:
    for each in shown:
        options = each.get("options", {})
        if each.get("kind") != "bpf" or "bytecode" not in options or "flowid" not in options:
            continue
        steps = options["bytecode"]["insns"]
        yield ClassFilter(
            minor=_minor(options["flowid"]),
            priority=int(each["pref"]),
            program=tuple((s["code"], s["jt"], s["jf"], s["k"]) for s in steps),
        )


def _major(handle: str) -> int:
    return int(handle.split(":", maxsplit=1)[0] or "0", 16)


def _minor(handle: str) -> int:
    return int(handle.split(":")[1] or "0", 16)
