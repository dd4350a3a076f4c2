"""TrafficControl: reads and changes HTB classes of devices by ``tc``.  No policy."""

from __future__ import annotations

from netfw.errors import BackendBroken, OperationRefused
from netfw.linux.ip.netlink_client import device_exists
from netfw.linux.process.command import Finished, run_command
from netfw.linux.tc.text import parse_traffic, render_class, render_filter, render_root
from netfw.linux.tc.values import ClassFilter, DeviceTraffic, TrafficChange, TrafficClass
from netfw.linux.tc.values import source_program as program_of
from netfw.model.values.address import Mac

_BATCH = ["tc", "-batch", "-"]


def read_traffic(device: str) -> DeviceTraffic | None:
    """Return the classes of *device*, or ``None`` if there is no such device here.

    :raises BackendBroken: ``tc`` is not installed, or shows what cannot be read.
    """
    if not device_exists(device):
        return None
    shown = [
        run_command(["tc", *words, "show", "dev", device])
        for words in (("-j", "qdisc"), ("class",), ("-j", "filter"))
    ]
    for each in shown:
        if not each.ok:
            if not device_exists(device):
                return None
            raise BackendBroken(f"{' '.join(each.argv)}: {each.message}")
    try:
        return parse_traffic(*(each.output for each in shown))
    except (ValueError, KeyError, TypeError) as error:
        raise BackendBroken(f"the output of tc for {device} cannot be read: {error!r}") from error


def apply_traffic(change: TrafficChange) -> None:
    """Execute *change*, all of it or nothing.

    The first line is executed alone: if it is refused, nothing is undone, since what is there then
    is of another owner.

    :raises OperationRefused: the kernel refused.
    """
    done = _run(change.lines[:1])
    if done.ok and len(change.lines) > 1:
        done = _run(change.lines[1:])
        if not done.ok:
            for line in change.undo:
                _run([line])
    if not done.ok:
        raise OperationRefused({change: done.message})


def traffic_control_problem() -> str | None:
    """Return what this kernel or ``tc`` lacks for HTB classes with filters by BPF.

    Tried in a network namespace of its own, which ends with the command.
    """
    wanted = TrafficClass(minor=1, kbps=1000, ceil_kbps=1000, limit=10)
    chosen = ClassFilter(minor=1, priority=1, program=program_of(Mac("fa:16:3e:00:00:01"), 1))
    lines = [
        render_root("lo", 1, 1),
        *render_class("lo", 1, wanted),
        render_filter("lo", 1, chosen),
    ]
    done = run_command(["unshare", "--net", *_BATCH], feed="\n".join(lines) + "\n")
    return None if done.ok else done.message.replace("\n", "; ")


def _run(lines: list[str] | tuple[str, ...]) -> Finished:
    return run_command(_BATCH, feed="\n".join(lines) + "\n")
