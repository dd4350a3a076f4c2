"""Executor of the steps of namespaces, of services and routers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import assert_never, cast

from attrs import evolve

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import BackendBroken, BackendUnavailable, NetfwError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.conntrack import PROTOCOLS, Conntrack, Filter
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import DelLink
from netfw.linux.iptables import Iptables, IptablesBinaries
from netfw.linux.iptables.refusal import RulesRefused
from netfw.linux.process import kill_in_namespace
from netfw.linux.service_netns.steps import (
    ChangeNetwork,
    Clear,
    DeleteNamespace,
    MakeNamespace,
    PlugPort,
    RemoveConnections,
    RestoreTables,
    Step,
    Unplug,
)
from netfw.linux.service_netns.values import ObservedNetns
from netfw.linux.service_netns.veth_tracker import VethTracker
from netfw.model.values.address import IpAddress
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.plan import Operation, Stage, Update


class NetnsExecutor:
    """Executes the steps of namespaces; *interface* plugs their ports.

    :param prefixes: of the names of devices, beside that of the interface driver.
    """

    def __init__(
        self,
        interface: InterfaceDriver,
        *,
        prefixes: tuple[str, ...] = (),
        tool: IptablesBinaries | None = None,
    ) -> None:
        self._interface = interface
        self._prefixes = prefixes
        self._interface_lock = threading.Lock()
        self._tool = tool or IptablesBinaries()
        watched = HostCapability.WATCH in interface.describe().capabilities
        self._pairs = VethTracker(self._device_names, watched=watched)
        interface.watch(self._pairs.handle_event)

    def namespaces(self, prefix: str) -> frozenset[str]:
        """Return the namespaces whose names begin with *prefix*, with remains of deleted ones."""
        return frozenset(name for name in netns.file_names() if name.startswith(prefix))

    def devices(self) -> Mapping[PortId, Device]:
        """Return the ports that the interface driver has on this host.

        :raises BackendUnavailable: its backend does not answer.
        """
        with self._interface_lock:
            return self._interface.devices()

    def ports(self) -> frozenset[PortId]:
        """Return the ports that the interface driver has on this host, without their devices.

        :raises BackendUnavailable: its backend does not answer.
        """
        with self._interface_lock:
            return self._interface.present()

    def device(self, port: PortId) -> Device | None:
        """Return the device of a port, if the interface driver has it on this host.

        :raises BackendUnavailable: its backend does not answer.
        """
        with self._interface_lock:
            return self._interface.device(port)

    def handles(self, stage: Stage) -> bool:
        """Return whether *stage* is one of a service namespace."""
        return isinstance(stage.operations[0].payload, Step)

    def apply(self, stage: Stage) -> None:
        """Execute one stage: one step, or several of one kind in one namespace.

        Several are changes of the network, or removals of connections.

        :raises OperationRefused: it was refused; the reason is that of the refusing backend.
        :raises BackendUnavailable: the interface driver's backend, or the kernel, does not answer.
        """
        if len(stage.operations) > 1:
            _execute_together(stage)
            return
        (operation,) = stage.operations
        try:
            self.execute(cast(Step, operation.payload))
        except BackendUnavailable:
            raise
        except RulesRefused as error:
            raise _rules_refusal(operation, error) from error
        except NetfwError as error:
            raise _refusal(operation, error) from error

    def execute(self, step: Step) -> None:
        """Execute one step; errors are those of its backend."""
        match step:
            case MakeNamespace(name):
                if netns.ensure(name):
                    self._record_new_namespace(name)
            case DeleteNamespace(name):
                _delete(name)
                self._forget_namespace(name)
            case PlugPort(port, attachment):
                self._converge(port, Update(put={port: attachment}))
            case Unplug(port):
                self._converge(port, Update(drop=frozenset({port})))
                for device in self._device_names(port):
                    self._pairs.forget(device)
            case Clear():
                self._clear(step)
                self._pairs.forget(step.device)
            case ChangeNetwork():
                with changing_network(step.netns, [step]) as network:
                    network.apply([step.operation])
            case RestoreTables():
                self._restore_tables(step)
            case RemoveConnections():
                _remove_connections(step.netns, [_ended(step)])
            case _:
                assert_never(step)

    def _converge(self, port: PortId, update: Update[PortId, Attachment]) -> None:
        with self._interface_lock:
            outcome = converge_isolated(self._interface, update)
        outcome.raise_failed()
        if outcome.waiting:
            raise OperationRefused({f"port {port} waits": outcome.waiting[port]})

    def _clear(self, step: Clear) -> None:
        with NetlinkClient(step.netns) as network:
            if network.link(step.device) is None:
                return  # it went with its port
            port = self._holder(step)
            if port is not None:
                self._converge(port, Update(drop=frozenset({port})))
            elif step.kind is None:
                raise BackendBroken(
                    f"{step.device} in {step.netns} is hardware that netfw did not put there; move "
                    f"it out: ip -n {step.netns} link set {step.device} netns 1"
                )
            else:
                network.apply([DelLink(step.device)])

    def _holder(self, step: Clear) -> PortId | None:
        """Return the port of a device: by its name, which is cheap, or by the driver's devices."""
        with self._interface_lock:
            named = [
                port
                for port in self._interface.present()
                if step.device in self._device_names(port)
            ]
            if len(named) == 1:
                return named[0]
            for port, device in self._interface.devices().items():
                if (device.name, device.mac) == (step.device, step.mac):
                    return port
        return None

    def _present_ports(self) -> frozenset[PortId] | None:
        try:
            return self.ports()
        except BackendUnavailable:
            return None

    def _restore_tables(self, step: RestoreTables) -> None:
        tables = Iptables(step.chain_owner, namespace=step.netns, tool=self._tool)
        tables.restore(step.changes)

    def _record_new_namespace(self, namespace: str) -> None:
        """Record what is known of a namespace that was created."""

    def _forget_namespace(self, namespace: str) -> None:
        """Drop what is cached of a namespace that was deleted."""

    def _device_names(self, port: PortId) -> frozenset[str]:
        return frozenset(
            {self._interface.device_name(port)}
            | {device_name(prefix, port) for prefix in self._prefixes}
        )

    def _with_ports(self, observed: ObservedNetns) -> ObservedNetns:
        """Add what the interface driver knows, if a device seems to be dead or lost."""
        links = observed.links.values()
        dead = any(link.up and not link.carrier for link in links)
        return evolve(
            observed,
            present=self._present_ports() if dead or not observed.exists else None,
            lost=self._pairs.lost(links, self._present_ports),
        )


def _delete(namespace: str) -> None:
    with suppress(NotFound):  # a name without a namespace is removed, too
        kill_in_namespace(namespace)
    netns.delete(namespace)


def _execute_together(stage: Stage) -> None:
    try:
        if isinstance(stage.operations[0].payload, RemoveConnections):
            removals = [cast(RemoveConnections, each.payload) for each in stage.operations]
            _remove_connections(removals[0].netns, [_ended(each) for each in removals])
        else:
            _change_networks(stage)
    except (BackendUnavailable, OperationRefused):
        raise
    except NetfwError as error:
        raise OperationRefused(dict.fromkeys(stage.operations, str(error))) from error


def _change_networks(stage: Stage) -> None:
    """Execute several changes by one client, up to the first that is refused."""
    steps = [cast(ChangeNetwork, each.payload) for each in stage.operations]
    with changing_network(steps[0].netns, steps) as network:
        for operation, step in zip(stage.operations, steps, strict=True):
            try:
                network.apply([step.operation])
            except BackendUnavailable:
                raise
            except NetfwError as error:
                raise _refusal(operation, error) from error


@contextmanager
def changing_network(namespace: str, steps: Iterable[ChangeNetwork]) -> Iterator[NetlinkClient]:
    """Yield a client; before and after its use, remove the connections that *steps* forget.

    The second time removes those that began while their address was still there.
    """
    forgotten = [_connections_of(step.forget) for step in steps if step.forget is not None]
    with NetlinkClient(namespace) as network:
        _remove_connections(namespace, forgotten)
        try:
            yield network
        finally:
            _remove_connections(namespace, forgotten)


def _connections_of(address: IpAddress) -> Filter:
    return Filter(family=address.version, address=ip_network(address))


def _ended(step: RemoveConnections) -> Filter:
    """Return the connections of the address; with ports, only those to these ports of it."""
    if step.protocol is None:
        return _connections_of(step.address)
    return Filter(
        family=step.address.version,
        protocol=PROTOCOLS[step.protocol],
        destination=ip_network(step.address),
        destination_ports=step.ports,
    )


def _remove_connections(namespace: str, ended: Sequence[Filter]) -> None:
    if ended:
        with Conntrack(namespace) as conntrack:
            conntrack.remove(*ended)


def _refusal(operation: Operation, error: NetfwError) -> OperationRefused:
    return OperationRefused({operation: str(error)})


def _rules_refusal(operation: Operation, error: RulesRefused) -> OperationRefused:
    """Return a refusal that concerns the owners of the refused rules, where they are known."""
    reasons: dict[object, str] = {}
    for table_operation, why in error.reasons.items():
        rule = error.rules.get(table_operation)
        owners = operation.owners if rule is None or rule.owner is None else {rule.owner}
        text = str(table_operation)
        reasons[Operation(operation.backend, text, frozenset(owners), table_operation)] = why
    refusal = OperationRefused(reasons)
    for note in getattr(error, "__notes__", ()):
        refusal.add_note(note)
    return refusal
