"""What it takes to serve networks with dnsmasq.  Pure: values in, values out.

Each network has its own stages, in this order: the station, the files, the process, the leases
that are given back.  The files are removed last, so that what a crash leaves is found by them.
Rules found by trying (dnsmasq 2.90):

* New files are read by inotify.  What a file said before is remembered all the same until SIGHUP:
  the MAC address of a port that is gone has to be ignored by another file, a tombstone; an address
  that was in a file before is given to nobody else, so that its reuse needs SIGHUP.
* SIGHUP costs half a second of dnsmasq's time with 5,000 ports, so that it is sent only then.
* Whether it is still to be sent is a file, too: who is killed before is succeeded by who sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from attrs import define, field

from netfw.drivers.dhcp import DhcpEntry, DhcpKey, DhcpNetwork, DhcpPort, DhcpValue
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.support.entry_validation import entry_error
from netfw.errors import NetfwError, OperationRefused
from netfw.linux.service_netns.plan import plan_removal
from netfw.model.ids import NetworkId, PortId
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.dnsmasq.plan.network import UNSERVED, NetworkPlanner, stage
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Observed
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import PutNetwork, RemoveFiles, StopServer


@define
class _NetworkUpdate:
    """What an update asks of one network."""

    network: DhcpNetwork | None = None
    dropped: bool = False
    put: dict[PortId, DhcpPort] = field(factory=dict)
    gone: set[PortId] = field(factory=set)


def plan_dhcp(update: Update[DhcpKey, DhcpValue], observed: Observed, terms: DriverContext) -> Plan:
    """What turns *observed* into *update*; nothing when they agree."""
    stages: list[Stage] = []
    waiting: dict[DhcpKey, str] = {}
    refused: dict[DhcpKey, NetfwError] = {}
    for key, value in update.put.items():
        mismatch = entry_error(DhcpEntry, key, value)
        if mismatch is not None:
            refused[key] = mismatch
    fitting = update.without(refused) if refused else update
    for id, wish in _wishes(fitting, observed).items():
        found = observed.networks.get(id) or FoundNetwork()
        if wish.dropped:
            stages += _removal(id, found, terms)
            waiting |= {PortKey(port): UNSERVED for port in wish.put}
            continue
        draft = NetworkPlanner(id=id, found=found, terms=terms, all_leases=update.complete)
        draft.serve(wish.network, wish.put, frozenset(wish.gone))
        stages += draft.stages()
        waiting |= draft.waiting
        refused |= draft.refused
    return Plan(stages, waiting=waiting, refused=refused)


def _wishes(
    update: Update[DhcpKey, DhcpValue], observed: Observed
) -> dict[NetworkId, _NetworkUpdate]:
    wishes: dict[NetworkId, _NetworkUpdate] = {}

    def of(network: NetworkId) -> _NetworkUpdate:
        return wishes.setdefault(network, _NetworkUpdate())

    for key, value in update.put.items():
        if isinstance(key, NetworkKey) and isinstance(value, DhcpNetwork):
            of(key.network).network = value
        elif isinstance(key, PortKey) and isinstance(value, DhcpPort):
            of(value.network).put[key.port] = value
            if observed.homes.get(key.port, value.network) != value.network:
                of(observed.homes[key.port]).gone.add(key.port)
    for key in update.drop:
        if isinstance(key, NetworkKey):
            of(key.network).dropped = True
        elif key.port in observed.homes:
            of(observed.homes[key.port]).gone.add(key.port)
    for network, garbage in _garbage(update, observed):
        if garbage is None:
            of(network).dropped = True
        else:
            of(network).gone |= garbage
    return wishes


def _garbage(
    update: Update[DhcpKey, DhcpValue], observed: Observed
) -> Iterator[tuple[NetworkId, set[PortId] | None]]:
    """What a complete update does not name: whole networks (``None``), or ports of one."""
    if not update.complete:
        return
    named = update.put.keys() | update.keep
    for id, found in observed.networks.items():
        if NetworkKey(id) not in named:
            yield id, None
        else:
            yield id, {port for port in found.shelf.ports if PortKey(port) not in named}


def _removal(id: NetworkId, found: FoundNetwork, terms: DriverContext) -> Iterator[Stage]:
    """The process first, the files last: as long as they are there, the network is known."""
    owner = NetworkKey(id)
    if found.process is not None or found.stray:
        step = StopServer(id)
        yield stage(Operation(f"dnsmasq/{id}", step.text, frozenset({owner}), step))
    if found.station is not None:
        yield from plan_removal(owner, found.station, found.shelf.server)
    if found.shelf.there:
        files = RemoveFiles(terms.files(id))
        yield stage(Operation(f"files/{id}", files.text, frozenset({owner}), files))


def put_networks(plan: Plan) -> frozenset[NetworkKey]:
    """The networks whose files a plan writes."""
    puts = (step for step in steps(plan.stages) if isinstance(step, PutNetwork))
    return frozenset(NetworkKey(put.files.network) for put in puts)


def steps(stages: Iterable[Stage]) -> Iterator[object]:
    return (operation.payload for stage in stages for operation in stage.operations)


def owners(refusal: OperationRefused) -> frozenset[DhcpKey]:
    """Whom that concerns which was refused."""
    operations = (each for each in refusal.reasons if isinstance(each, Operation))
    return frozenset(cast(DhcpKey, owner) for each in operations for owner in each.owners)
