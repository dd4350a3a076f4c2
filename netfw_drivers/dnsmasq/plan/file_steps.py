"""Changes of a network's files.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from netfw.drivers.dhcp import DhcpKey
from netfw.drivers.values.keys import PortKey
from netfw_drivers.dnsmasq.config.file_parsers import render_tombstone
from netfw_drivers.dnsmasq.plan.observed import Reload
from netfw_drivers.dnsmasq.plan.steps import (
    DropPort,
    MarkReload,
    PutNetwork,
    PutPort,
    RemoveTombstone,
    SeedLeases,
    Step,
)
from netfw_drivers.dnsmasq.plan.target import NetworkTarget

SEED_LIMIT: Final = 200
"""Ports for which the first lease file is filled, at most.  Each lease makes each later port more
expensive, and a dnsmasq that starts gives every client its address with or without a lease."""


def plan_files(
    target: NetworkTarget, reload: Reload | None, *, marked: bool
) -> Iterator[tuple[Step, DhcpKey]]:
    """Yield the steps that change files, each with its owner, in the order in which dnsmasq may
    read them by inotify.

    :param reload: how dnsmasq will be notified.
    :param marked: an earlier stage has written the reload marker.
    """
    starts = target.starts
    reads_all = reload is not None or not target.found.process or starts
    mark = Reload.RESTART if starts and target.found.process else reload
    if mark is not None and mark is not target.found.files.reload and not marked:
        yield MarkReload(target.paths, mark), target.key
    yield from _written(target)
    yield from _removed(target, reads_all=reads_all)
    if (starts or target.found.stale_watches) and not target.found.files.has_lease_file:
        few = len(target.found.files.ports) + len(target.changed) <= SEED_LIMIT
        yield SeedLeases(target.paths, tuple(target.entries()) if few else ()), target.key


def _written(target: NetworkTarget) -> Iterator[tuple[Step, DhcpKey]]:
    files = target.found.files
    if target.spec is not None and target.value is not None:
        text, value = target.spec.text, target.value
        present = (files.opts, files.interface, files.server)
        if present != (text.opts, text.interface, value.server.id):
            yield PutNetwork(files=target.paths, wanted=text, value=value), target.key
    for port, new in target.changed.items():
        former = files.ports.get(port)
        put_port = PutPort(
            files=target.paths, port=port, wanted=new.text, former=former, value=new.value
        )
        yield put_port, new.owner


def _removed(target: NetworkTarget, *, reads_all: bool) -> Iterator[tuple[Step, DhcpKey]]:
    """Yield removals; a dnsmasq that reads everything again needs no tombstones."""
    files = target.found.files
    for port in sorted(target.gone & files.ports.keys(), key=str):
        entry = files.entry(port)
        tombstone = None if reads_all or not entry.macs else render_tombstone(entry)
        drop = DropPort(files=target.paths, port=port, tombstone=tombstone, entry=entry)
        yield drop, PortKey(port)
    for port in files.tombstones if reads_all else ():
        yield RemoveTombstone(target.paths, port), target.key
