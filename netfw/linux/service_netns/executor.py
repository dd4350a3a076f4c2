"""Executor of service namespaces: observes them, and executes what was planned for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from netfw.errors import BackendBroken, NotFound
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.connected_routes import mark_unrouted
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.iptables import Family
from netfw.linux.iptables.mirror import ChainMirror, parse_save
from netfw.linux.service_netns.device_plan import LOOPBACK
from netfw.linux.service_netns.netns_executor import NetnsExecutor
from netfw.linux.service_netns.plan import (
    CHAIN_OWNER,
    CHECKSUMS,
    SETTINGS,
    device_settings,
    plan_removal,
    plan_service_netns,
)
from netfw.linux.service_netns.steps import Step
from netfw.linux.service_netns.values import ObservedNetns, ServiceNetns
from netfw.model.values.device_names import is_device_name
from netfw.model.values.ids import PortId
from netfw.plan import Stage


class ServiceNetnsExecutor(NetnsExecutor):
    """The service namespaces of this host; *interface* plugs their ports.

    1. Any number of threads may call for different namespaces at once; the interface driver is
       called by one of them at a time.
    2. A present device with the right MAC address and MTU is used as it is: the interface driver
       is called for one that is missing, wrong, or has lost its switch.
    3. A veth pair whose port is removed from the switch is made anew, once the interface driver
       has reported it; a pair that never was a port of that driver is used as any other device.
    4. Namespaces are those of the calling thread; none is kept open.
    """

    def observe(self, namespace: str, *, devices_only: bool = False) -> ObservedNetns:
        """Observe a namespace; one that does not exist is a value, too.

        :param devices_only: read devices, addresses and routes, without kernel parameters and
            packet filter rules.
        :raises BackendUnavailable: the kernel was too busy to answer.
        :raises BackendBroken: netfw may not read it.
        """
        try:
            with NetlinkClient(namespace) as network:
                observed = network.run(
                    lambda: self._read(namespace, network, devices_only=devices_only)
                )
        except NotFound:
            observed = ObservedNetns(netns=namespace, has_remains=netns.has_file(namespace))
        return self._with_ports(observed)

    def plan(self, wanted: ServiceNetns) -> tuple[Stage, ...]:
        """Observe the namespace, and return the stages that make it as *wanted*."""
        return plan_service_netns(wanted.netns, wanted, self.observe(wanted.netns))

    def make(self, wanted: ServiceNetns) -> None:
        """Observe, plan and apply in one call, for drivers without a dry run.  Idempotent.

        :raises Conflict: something that netfw did not make has a name that it needs.
        :raises BackendError: the interface driver or the kernel refused, or does not answer.
        """
        self._execute_all(self.plan(wanted))

    def remove(self, namespace: str, port: PortId | None = None) -> None:
        """Remove a service namespace; see :func:`plan_removal` and :meth:`make`.  Idempotent."""
        self._execute_all(plan_removal(namespace, self.observe(namespace), port))

    def _execute_all(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            for operation in stage.operations:
                self.execute(cast(Step, operation.payload))

    def _read(self, namespace: str, network: NetlinkClient, *, devices_only: bool) -> ObservedNetns:
        """Read in the thread that is in the namespace: entering it is a good part of the cost."""
        links, addresses, routes = network.links(), network.addresses(), network.routes()
        return ObservedNetns(
            netns=namespace,
            exists=True,
            links=links,
            addresses=mark_unrouted(addresses, links, routes),
            routes=routes,
            sysctls={} if devices_only else sysctl.read_many(_parameters(links)),
            rules=None if devices_only else self._read_rules(),
            devices_only=devices_only,
            no_ipv6=network.why_no_ipv6(),
        )

    def _read_rules(self) -> ChainMirror | None:
        try:
            text = self._tool.save(Family.IPV4, None, CHECKSUMS.table)
            return parse_save(text, Family.IPV4, CHAIN_OWNER)
        except BackendBroken:
            return None


def _parameters(devices: Iterable[str]) -> list[str]:
    named = filter(is_device_name, devices)  # others are of other programs
    own = (device_settings(device) for device in named if device != LOOPBACK)
    return [*SETTINGS, *(name for settings in own for name in settings)]
