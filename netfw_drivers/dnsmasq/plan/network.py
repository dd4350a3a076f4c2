"""Stages of the plan for one network, in the order in which they are applied.  Pure.

1. The service namespace: device, addresses, routes.
2. For a bulk change, dnsmasq is stopped: it reads all files at its start faster than one by one.
3. The files.
4. The process: start, restart or SIGHUP.
5. Released leases, where a running dnsmasq handles the release.  Without one, or across a start,
   they are removed from the lease file instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from netfw.drivers.dhcp import DhcpKey
from netfw.drivers.values.keys import PortKey
from netfw.plan import Operation, Stage
from netfw_drivers.dnsmasq.config.file_parsers import Lease
from netfw_drivers.dnsmasq.plan.file_steps import plan_files
from netfw_drivers.dnsmasq.plan.observed import Reload
from netfw_drivers.dnsmasq.plan.released_leases import is_served, plan_released_leases
from netfw_drivers.dnsmasq.plan.reload import PendingChanges
from netfw_drivers.dnsmasq.plan.steps import (
    ForgetLeases,
    MarkReload,
    RunServer,
    SignalServer,
    Step,
    StopServer,
)
from netfw_drivers.dnsmasq.plan.target import NetworkTarget


def network_stages(target: NetworkTarget, *, all_leases: bool) -> Iterator[Stage]:
    """Yield the stages that bring a network to *target*; none if it is there.

    :param all_leases: release also the leases that belong to no port.
    """
    yield from target.netns_stages
    pending = _pending_changes(target)
    reload = pending.reload_method() if pending is not None else None
    stops_first = reload is Reload.RESTART and pending is not None and pending.is_bulk
    if stops_first:
        yield from _stop_stages(target)
    releases = plan_released_leases(target, all_leases=all_leases)
    forget = tuple(step.lease for step, _ in releases)
    file_steps = [*plan_files(target, reload, marked=stops_first)]
    if forget and not target.will_run:
        file_steps.append((ForgetLeases(target.paths, forget), target.key))
    if file_steps:
        yield _stage(target, "files", file_steps)
    process_step = _process_step(target, reload, forget)
    if process_step is not None:
        yield _stage(target, "dnsmasq", [(process_step, target.key)])
    handled = [(step, owner) for step, owner in releases if is_served(target, step.lease)]
    if handled and target.will_run and not isinstance(process_step, RunServer):
        yield _stage(target, "leases", handled)


def _pending_changes(target: NetworkTarget) -> PendingChanges | None:
    """Return the changes for a dnsmasq that keeps running; ``None``: there are none for it."""
    is_concerned = target.spec is not None or target.changed or target.gone
    if not is_concerned or target.starts or target.value is None:
        return None
    opts = target.spec.text.opts if target.spec is not None else None
    return PendingChanges(found=target.found, changed=target.changed, gone=target.gone, opts=opts)


def _stop_stages(target: NetworkTarget) -> Iterator[Stage]:
    """Yield the stages that stop dnsmasq; the marker has a start follow, whatever happens."""
    if target.found.files.reload is not Reload.RESTART:
        mark = MarkReload(target.paths, Reload.RESTART)
        yield _stage(target, "files", [(mark, target.key)])
    if target.found.process is not None:
        yield _stage(target, "dnsmasq", [(StopServer(target.id), target.key)])


def _process_step(
    target: NetworkTarget, reload: Reload | None, forget: tuple[Lease, ...]
) -> RunServer | SignalServer | None:
    """Return what is done to the process: start it, restart it, signal it, or nothing."""
    if target.starts and target.spec is not None:
        return RunServer(target.paths, target.spec.program, forget=forget)
    if reload is Reload.RESTART and target.value is not None:
        spec = target.spec or target.context.service_spec(target.id, target.value)
        return RunServer(target.paths, spec.program, restart=True, forget=forget)
    return SignalServer(target.paths) if reload is not None else None


def _stage(target: NetworkTarget, backend: str, steps: Iterable[tuple[Step, DhcpKey]]) -> Stage:
    """Build one stage; the text of a step is rendered only when it is read."""
    return Stage(
        Operation(f"{backend}/{target.id}", _text_of(step), _owners(target, owner), step)
        for step, owner in steps
    )


def _owners(target: NetworkTarget, owner: DhcpKey) -> frozenset[DhcpKey]:
    """Return the keys that fail with a step of *owner*.

    If the update does not concern the network itself, a step of the network is done for the ports
    that it does concern.
    """
    if owner != target.key or target.spec is not None or not (target.gone or target.changed):
        return frozenset({owner})
    return frozenset(map(PortKey, target.gone | target.changed.keys()))


def _text_of(step: Step) -> Callable[[], str]:
    return lambda: step.text
