"""Plan for the networks and ports of an update.  Pure: values in, values out.

Each network has its own stages: :mod:`netfw_drivers.dnsmasq.plan.network` has their order.  The
files are removed last, so that they lead to whatever a crash leaves behind.
Rules found by experiments (dnsmasq 2.90):

* New files are read by inotify.  dnsmasq caches what a file said before until SIGHUP: the MAC
  address of a port that is gone has to be ignored by another file, a tombstone; an address that was
  in a file before is given to no other port, so that its reuse needs SIGHUP.
* SIGHUP costs half a second of dnsmasq's time with 5,000 ports, so that it is sent only then.
* A pending SIGHUP is recorded in a file, the reload marker: if the agent is killed before it sends
  the signal, its successor sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from netfw.drivers.dhcp import DhcpEntry, DhcpKey, DhcpNetwork, DhcpPort, DhcpValue
from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import NetfwError, OperationRefused
from netfw.linux.service_netns.plan import plan_removal
from netfw.model.values.ids import NetworkId, PortId
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.dnsmasq.plan.network import network_stages
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Observed
from netfw_drivers.dnsmasq.plan.service_spec import DriverContext
from netfw_drivers.dnsmasq.plan.steps import PutNetwork, RemoveFiles, StopServer
from netfw_drivers.dnsmasq.plan.target import UNSERVED, NetworkUpdate, resolve_target


def plan_dhcp(
    update: Update[DhcpKey, DhcpValue], observed: Observed, context: DriverContext
) -> Plan:
    """Plan the stages that turn *observed* into *update*; none if they agree."""
    stages: list[Stage] = []
    waiting: dict[DhcpKey, str] = {}
    refused: dict[DhcpKey, NetfwError] = {}
    lacks_settings = False
    for key, value in update.put.items():
        mismatch = entry_error(DhcpEntry, key, value)
        if mismatch is not None:
            refused[key] = mismatch
    fitting = update.without(refused) if refused else update
    for id, network_update in _updates_by_network(fitting, observed).items():
        found = observed.networks.get(id) or FoundNetwork()
        if network_update.dropped:
            stages += _removal(id, found, context)
            waiting |= {PortKey(port): UNSERVED for port in network_update.put}
            continue
        target = resolve_target(id, found, context, network_update)
        stages += network_stages(target, all_leases=update.complete)
        waiting |= target.waiting
        refused |= target.refused
        lacks_settings |= target.lacks_settings
    return Plan(stages, waiting=waiting, refused=refused, needs_full_observation=lacks_settings)


def _updates_by_network(
    update: Update[DhcpKey, DhcpValue], observed: Observed
) -> dict[NetworkId, NetworkUpdate]:
    updates: dict[NetworkId, NetworkUpdate] = {}

    def of(network: NetworkId) -> NetworkUpdate:
        return updates.setdefault(network, NetworkUpdate())

    for key, value in update.put.items():
        if isinstance(key, NetworkKey) and isinstance(value, DhcpNetwork):
            of(key.network).network = value
        elif isinstance(key, PortKey) and isinstance(value, DhcpPort):
            of(value.network).put[key.port] = value
            if observed.port_networks.get(key.port, value.network) != value.network:
                of(observed.port_networks[key.port]).gone.add(key.port)
    for key in update.drop:
        if isinstance(key, NetworkKey):
            of(key.network).dropped = True
        elif key.port in observed.port_networks:
            of(observed.port_networks[key.port]).gone.add(key.port)
    for network, garbage in _garbage(update, observed):
        if garbage is None:
            of(network).dropped = True
        else:
            of(network).gone |= garbage
    return updates


def _garbage(
    update: Update[DhcpKey, DhcpValue], observed: Observed
) -> Iterator[tuple[NetworkId, set[PortId] | None]]:
    """Yield what a complete update omits: whole networks (``None``), or ports of a network."""
    if not update.complete:
        return
    named = update.put.keys() | update.keep
    for id, found in observed.networks.items():
        if NetworkKey(id) not in named:
            yield id, None
        else:
            yield id, {port for port in found.files.ports if PortKey(port) not in named}


def _removal(id: NetworkId, found: FoundNetwork, context: DriverContext) -> Iterator[Stage]:
    """Yield the process first and the files last: as long as they exist, the network is known."""
    owner = NetworkKey(id)
    if found.process is not None or found.orphaned:
        step = StopServer(id)
        yield Stage([Operation(f"dnsmasq/{id}", step.text, frozenset({owner}), step)])
    if found.netns is not None:
        yield from plan_removal(owner, found.netns, found.files.server)
    if found.files.exists:
        files = RemoveFiles(context.files(id))
        yield Stage([Operation(f"files/{id}", files.text, frozenset({owner}), files)])


def written_networks(plan: Plan) -> frozenset[NetworkKey]:
    """Return the networks whose files a plan writes."""
    puts = (step for step in payloads(plan.stages) if isinstance(step, PutNetwork))
    return frozenset(NetworkKey(put.files.network) for put in puts)


def payloads(stages: Iterable[Stage]) -> Iterator[object]:
    """Yield the steps of *stages*."""
    return (operation.payload for stage in stages for operation in stage.operations)


def refused_owners(refusal: OperationRefused) -> frozenset[DhcpKey]:
    """Return the keys that the refused operations belong to."""
    operations = (each for each in refusal.reasons if isinstance(each, Operation))
    return frozenset(cast(DhcpKey, owner) for each in operations for owner in each.owners)
