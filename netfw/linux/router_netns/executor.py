"""Executor of router namespaces: observes them, and executes what was planned for them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, evolve, field

from netfw.drivers.interface import InterfaceDriver
from netfw.errors import BackendBroken, NotFound
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.connected_routes import mark_unrouted
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.values import PROTOCOL_KERNEL
from netfw.linux.iptables import Iptables, IptablesBinaries
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.spelling import SpellingCache
from netfw.linux.netlink.nftables_generation import FIRST_GENERATION, read_generation
from netfw.linux.router_netns.plan import SETTINGS, make_update, plan_router_netns
from netfw.linux.router_netns.values import RouterNetns
from netfw.linux.service_netns.netns_executor import NetnsExecutor
from netfw.linux.service_netns.steps import RestoreTables
from netfw.linux.service_netns.values import ObservedNetns
from netfw.plan import Stage, Update

PREFIXES = ("qr-", "qg-")


@define
class _Filters:
    birth: tuple[int, int]
    """Inode and ctime of the namespace: the kernel reuses inodes."""
    tables: Iptables
    generation: int | None = None
    """That of the rules in the mirror of *tables*; None: not known."""
    lock: threading.Lock = field(factory=threading.Lock)

    def observe(self, generation: int | None, *, mirrored: bool) -> None:
        """Read the tables, unless the mirror is accepted and of the present *generation*.

        :raises BackendBroken: they cannot be read; it names the namespace.
        """
        if not mirrored or generation != self.generation:
            try:
                self.tables.observe()
            except BackendBroken as error:
                raise BackendBroken(f"{self.tables.namespace}: {error}") from error
            self.generation = generation


class RouterNetnsExecutor(NetnsExecutor):
    """The router namespaces of this host; *interface* plugs their ports.

    1. Any number of threads may call for different namespaces at once; the interface driver is
       called by one of them at a time.
    2. A present device with the right MAC address and MTU is used as it is: the interface driver
       is called for one that is missing, wrong, or has lost its switch.
    3. The tables of a namespace are changed together, and are rolled back together; a refused
       rule is the fault of its owner.
    4. The namespace is read from the kernel at each observation; its filters are read if their
       generation is not that of the mirror.  iptables-legacy has no generation: there, the caller
       says whether the mirror of those written before is accepted.

    :param chain_owner: the prefix of the chains of routers.
    """

    def __init__(
        self,
        interface: InterfaceDriver,
        chain_owner: str,
        *,
        prefixes: tuple[str, ...] = PREFIXES,
        tool: IptablesBinaries | None = None,
    ) -> None:
        super().__init__(interface, prefixes=prefixes, tool=tool)
        self.chain_owner = chain_owner
        self._spelling = SpellingCache(self._tool, chain_owner)
        self._filters_lock = threading.Lock()
        self._filters: dict[str, _Filters] = {}

    def observe(
        self, namespace: str, wanted: RouterNetns | None = None, *, mirrored: bool = False
    ) -> ObservedNetns:
        """Observe a namespace; one that does not exist is a value, too.

        :param wanted: what will be planned: its kernel parameters are read, and its rules compared.
        :param mirrored: whether filters of the same generation may be as they were last read or
            written.
        :raises BackendUnavailable: the kernel was too busy to answer.
        :raises BackendBroken: netfw may not read it.
        """
        update = Update(complete=True) if wanted is None else make_update(wanted)
        try:
            with NetlinkClient(namespace) as network:
                with self._lock_filters(namespace) as filters:
                    filters.observe(network.run(read_generation), mirrored=mirrored)
                    rules, spelling = filters.tables.mirror(update)
                observed = network.run(lambda: _read(namespace, network, wanted))
            observed = evolve(observed, rules=rules, spelling=spelling)
        except NotFound:
            self._forget_namespace(namespace)
            observed = ObservedNetns(netns=namespace, has_remains=netns.has_file(namespace))
        return self._with_ports(observed)

    def read_filters(self, namespace: str) -> ChainMirror:
        """Return the filters of a namespace, which are read if they are not as mirrored.

        :raises NotFound: there is no such namespace.
        """
        with self._lock_filters(namespace) as filters:
            filters.observe(netns.run_in(namespace, read_generation), mirrored=True)
            return filters.tables.mirror(Update(complete=True))[0]

    def mirror(self, namespace: str) -> ChainMirror:
        """Return the filters of a namespace as they were last read or written.

        :raises NotFound: there is no such namespace.
        """
        with self._lock_filters(namespace) as filters:
            return filters.tables.mirror(Update(complete=True))[0]

    def plan(self, wanted: RouterNetns) -> tuple[Stage, ...]:
        """Observe the namespace, and plan what makes it as *wanted*."""
        found = self.observe(wanted.netns, wanted, mirrored=True)
        return plan_router_netns(wanted.netns, wanted, found, self.chain_owner)

    def _restore_tables(self, step: RestoreTables) -> None:
        """Restore, and keep the mirror if no other program has changed rules meanwhile."""
        with self._lock_filters(step.netns) as filters:
            before, filters.generation = filters.generation, None
            filters.tables.restore(step.changes)
            after = netns.run_in(step.netns, read_generation)
            if before is not None and after in (before + len(step.changes), before):
                filters.generation = after  # one for each table; none by iptables-legacy

    @contextmanager
    def _lock_filters(self, namespace: str) -> Iterator[_Filters]:
        """Yield the filters of a namespace, which a drift monitor may use at the same time."""
        birth = _birth(namespace)
        with self._filters_lock:
            filters = self._filters.get(namespace)
            if filters is None or filters.birth != birth:
                tables = Iptables(
                    self.chain_owner, namespace=namespace, tool=self._tool, spelling=self._spelling
                )
                filters = self._filters[namespace] = _Filters(birth, tables)
        with filters.lock:
            yield filters

    def _record_new_namespace(self, namespace: str) -> None:
        """Record that it has no rules, so that they need not be read before and after a restore.

        Another program may have added some since the namespace was created: then they are read.
        """
        if netns.run_in(namespace, read_generation) != FIRST_GENERATION:
            return
        with self._lock_filters(namespace) as filters:
            filters.generation = FIRST_GENERATION
            filters.tables.assume_empty()

    def _forget_namespace(self, namespace: str) -> None:
        self._filters.pop(namespace, None)


def _birth(namespace: str) -> tuple[int, int]:
    descriptor = netns.open_namespace(namespace)
    try:
        status = os.fstat(descriptor)
        return status.st_ino, status.st_ctime_ns
    finally:
        os.close(descriptor)


def _read(namespace: str, network: NetlinkClient, wanted: RouterNetns | None) -> ObservedNetns:
    """Read everything but the filters, in the thread that is in the namespace."""
    links, addresses = network.links(), network.addresses()
    routes = network.static_and_connected_routes()
    return ObservedNetns(
        netns=namespace,
        exists=True,
        links=links,
        addresses=mark_unrouted(addresses, links, routes),
        routes=tuple(route for route in routes if route.protocol != PROTOCOL_KERNEL),
        policy_rules=network.rules(),
        proxies=network.proxies(),
        sysctls=sysctl.read_many(_parameters(wanted)),
        no_ipv6=network.why_no_ipv6(),
    )


def _parameters(wanted: RouterNetns | None) -> list[str]:
    if wanted is None:
        return list(SETTINGS)
    own = (name for port in wanted.devices for name in port.sysctls)
    return [*SETTINGS, *wanted.sysctls, *own]
