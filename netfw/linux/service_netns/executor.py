"""Executor of service namespaces: observes them, and executes what was planned for them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_network
from typing import assert_never, cast

from attrs import evolve

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, InterfaceDriver
from netfw.drivers.support.fault_isolation import converge_isolated
from netfw.errors import BackendBroken, BackendUnavailable, NetfwError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.conntrack import Conntrack, Filter
from netfw.linux.ip import sysctl
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import DelLink
from netfw.linux.iptables import Family, Iptables, IptablesBinaries
from netfw.linux.iptables.mirror import Mirror, parse_save
from netfw.linux.process import kill_in_namespace
from netfw.linux.service_netns.plan import (
    CHAIN_OWNER,
    CHECKSUMS,
    LOOPBACK,
    SETTINGS,
    device_settings,
    plan_removal,
    plan_service_netns,
)
from netfw.linux.service_netns.steps import (
    ChangeNetwork,
    ChangeRules,
    Clear,
    DeleteNamespace,
    MakeNamespace,
    Plug,
    Step,
    Unplug,
)
from netfw.linux.service_netns.values import ObservedNetns, ServiceNetns
from netfw.linux.service_netns.veth_tracker import VethTracker
from netfw.model.address import IpAddress
from netfw.model.ids import PortId
from netfw.plan import Operation, Stage, Update


class ServiceNetnsExecutor:
    """The service namespaces of this host; *interface* plugs their ports.

    1. Any number of threads may call for different namespaces at once; the interface driver is
       called by one of them at a time.
    2. A present device with the right MAC address and MTU is used as it is: the interface driver
       is called for one that is missing, wrong, or has lost its switch.
    3. A veth pair whose port is removed from the switch is made anew, once the interface driver
       has reported it; a pair that never was a port of that driver is used as any other device.
    4. Namespaces are those of the calling thread; none is kept open.
    """

    def __init__(self, interface: InterfaceDriver) -> None:
        self._interface = interface
        self._interface_lock = threading.Lock()
        self._tool = IptablesBinaries()
        watched = HostCapability.WATCH in interface.describe().capabilities
        self._pairs = VethTracker(interface.device_name, watched=watched)
        interface.watch(self._pairs.handle_event)

    def namespaces(self, prefix: str) -> frozenset[str]:
        """Return the namespaces whose names begin with *prefix*."""
        return frozenset(name for name in netns.names() if name.startswith(prefix))

    def observe(self, namespace: str) -> ObservedNetns:
        """Observe a namespace; one that does not exist is a value, too.

        :raises BackendUnavailable: the kernel was too busy to answer.
        :raises BackendBroken: netfw may not read it.
        """
        try:
            with NetlinkClient(namespace) as network:
                observed = network.run(lambda: self._read(namespace, network))
        except NotFound:
            return ObservedNetns(netns=namespace, present=self._present_ports())
        links = observed.links.values()
        dead = any(link.up and not link.carrier for link in links)
        return evolve(
            observed,
            present=self._present_ports() if dead else None,
            lost=self._pairs.lost(links, self._present_ports),
        )

    def handles(self, stage: Stage) -> bool:
        """Return whether *stage* is one of a service namespace."""
        return isinstance(stage.operations[0].payload, Step)

    def apply(self, stage: Stage) -> None:
        """Execute one stage, all of it or nothing.

        :raises OperationRefused: it was refused; the reason is that of the refusing backend.
        :raises BackendUnavailable: the interface driver's backend, or the kernel, does not answer.
        """
        for operation in stage.operations:
            try:
                self._execute(cast(Step, operation.payload))
            except BackendUnavailable:
                raise
            except NetfwError as error:
                raise _refusal(operation, error) from error

    def make(self, wanted: ServiceNetns) -> None:
        """Observe, plan and apply in one call, for drivers without a dry run.  Idempotent.

        :raises Conflict: something that netfw did not make has a name that it needs.
        :raises BackendError: the interface driver or the kernel refused, or does not answer.
        """
        self._execute_all(plan_service_netns(wanted.netns, wanted, self.observe(wanted.netns)))

    def remove(self, namespace: str, port: PortId | None = None) -> None:
        """Remove a service namespace; see :func:`plan_removal` and :meth:`make`.  Idempotent."""
        self._execute_all(plan_removal(namespace, self.observe(namespace), port))

    def _execute_all(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            for operation in stage.operations:
                self._execute(cast(Step, operation.payload))

    def _execute(self, step: Step) -> None:
        match step:
            case MakeNamespace(name):
                netns.ensure(name)
            case DeleteNamespace(name):
                _delete(name)
            case Plug(port, attachment):
                self._converge(port, Update(put={port: attachment}))
            case Unplug(port):
                self._converge(port, Update(drop=frozenset({port})))
                self._pairs.forget(self._interface.device_name(port))
            case Clear():
                self._clear(step)
                self._pairs.forget(step.device)
            case ChangeNetwork():
                _change_network(step)
            case ChangeRules(namespace, change):
                Iptables(CHAIN_OWNER, namespace=namespace, tool=self._tool).apply(change)
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
                if self._interface.device_name(port) == step.device
            ]
            if len(named) == 1:
                return named[0]
            for port, device in self._interface.devices().items():
                if (device.name, device.mac) == (step.device, step.mac):
                    return port
        return None

    def _present_ports(self) -> frozenset[PortId] | None:
        try:
            with self._interface_lock:
                return self._interface.present()
        except BackendUnavailable:
            return None

    def _read(self, namespace: str, network: NetlinkClient) -> ObservedNetns:
        """Read in the thread that is in the namespace: entering it is a good part of the cost."""
        links = network.links()
        return ObservedNetns(
            netns=namespace,
            exists=True,
            links=links,
            addresses=network.addresses(),
            routes=network.routes(),
            sysctls=sysctl.read_many(_parameters(links)),
            rules=self._read_rules(),
            no_ipv6=network.why_no_ipv6(),
        )

    def _read_rules(self) -> Mirror | None:
        try:
            text = self._tool.save(Family.IPV4, None, CHECKSUMS.table)
            return parse_save(text, Family.IPV4, CHAIN_OWNER)
        except BackendBroken:
            return None


def _parameters(devices: Iterable[str]) -> list[str]:
    own = (device_settings(device) for device in devices if device != LOOPBACK)
    return [*SETTINGS, *(name for settings in own for name in settings)]


def _delete(namespace: str) -> None:
    with suppress(NotFound):  # a name without a namespace is removed, too
        kill_in_namespace(namespace)
    netns.delete(namespace)


def _change_network(step: ChangeNetwork) -> None:
    with NetlinkClient(step.netns) as network:
        if step.forget is not None:
            _remove_connections(step.netns, step.forget)
        network.apply([step.operation])
        if step.forget is not None:
            _remove_connections(step.netns, step.forget)


def _remove_connections(namespace: str, address: IpAddress) -> None:
    with Conntrack(namespace) as conntrack:
        conntrack.remove(Filter(family=address.version, address=ip_network(address)))


def _refusal(operation: Operation, error: NetfwError) -> OperationRefused:
    return OperationRefused({operation: str(error)})
