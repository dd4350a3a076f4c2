"""OvsInterfaceDriver: plugs ports into one bridge of an Open vSwitch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, cast
from uuid import UUID

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, Device, InterfaceCapability, InterfaceDriver
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import KeysChanged
from netfw.drivers.values.events import Sink as EventSink
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendUnavailable, NetfwError, OperationRefused
from netfw.linux import netns
from netfw.linux.ip.values import Link
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.client import Ovsdb, share_ovsdb
from netfw.ovs.ovsdb.operations import AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import OWNER, DatabaseChanged, OvsdbPort, SwitchEvent
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.ovs.common.local_vlans import LOCAL_VLANS
from netfw_drivers.ovs.common.options import OVSDB_CONNECTION, OVSDB_TIMEOUT
from netfw_drivers.ovs.common.outage import DatabaseOutage
from netfw_drivers.ovs.interface.link_executor import (
    LinkExecutor,
    read_links,
    read_named_links,
)
from netfw_drivers.ovs.interface.observed import (
    InterfaceSettings,
    Namespace,
    Observed,
    device_of,
    namespace_of,
)
from netfw_drivers.ovs.interface.plan import OVSDB, plan_interfaces

_CAPABILITIES = (
    HostCapability.PLAN,
    InterfaceCapability.NAMESPACES,
    InterfaceCapability.MTU_CHANGE,
    HostCapability.WATCH,
)


class OvsInterfaceDriver(InterfaceDriver, Reconciler[PortId, Attachment, Observed]):
    """Ports as internal ports of the bridge, or as veth pairs with one end on it.

    New ports are on the dead VLAN until the switch driver admits them; their tag is not touched
    again.  Names of internal ports are names of the switch: two in different namespaces cannot
    be the same.  Only ports of this bridge that carry netfw's mark are touched.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt(
            "integration_bridge",
            default="br-int",
            help="Bridge that ports are plugged into; it must exist.",
        ),
        OVSDB_CONNECTION,
        OVSDB_TIMEOUT,
        cfg.BoolOpt(
            "ovs_use_veth",
            default=False,
            help="Use veth pairs instead of internal ports, for kernels without namespaces there.",
        ),
    )

    def __init__(self, ovsdb: Ovsdb, bridge: str = "br-int", *, use_veth: bool = False) -> None:
        self._ovsdb = ovsdb
        self._settings = InterfaceSettings(bridge=bridge, use_veth=use_veth)
        self._stop_watching: list[Callable[[], None]] = []

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        remote, timeout = options["ovsdb_connection"], options["ovsdb_timeout"]
        ovsdb = share_ovsdb(host, remote, timeout)
        return cls(ovsdb, options["integration_bridge"], use_veth=options["ovs_use_veth"])

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("openvswitch", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        try:
            bridge = self._ovsdb.bridge(self._settings.bridge)
        except NetfwError as error:
            return (str(error),)
        if bridge is None:
            name = self._settings.bridge
            return (f"there is no bridge {name}: ovs-vsctl add-br {name}",)
        return ()

    def close(self) -> None:
        while self._stop_watching:
            self._stop_watching.pop()()

    def devices(self) -> Mapping[PortId, Device]:
        ours = self._ours()
        links = read_links({namespace_of(port) for members in ours.values() for port in members})
        return {port_id: _device(members[0], links) for port_id, members in ours.items()}

    def device(self, port: PortId) -> Device | None:
        self._ovsdb.sync()
        members = self._mine(self._ovsdb.ports_claiming(OWNER, str(port))).get(port)
        if members is None:
            return None
        links = read_named_links({namespace_of(members[0]): [device_of(members[0])]})
        return _device(members[0], links)

    def device_name(self, port: PortId, prefix: str = "tap") -> str:
        """Return the device name of a port; a veth pair has its ``tap`` end on the bridge."""
        return device_name("ns-" if self._settings.use_veth and prefix == "tap" else prefix, port)

    def mark_initialized(self, service: Service) -> None:
        """Set ``external_ids:<service>-initialized`` of the bridge."""
        mark = {"external_ids": {f"{service}-initialized": "true"}}
        try:
            self._ovsdb.run(
                [SetColumns(table=OvsdbTable.BRIDGE, record=self._settings.bridge, keys=mark)]
            )
        except OperationRefused as refusal:
            reason = "; ".join(refusal.reasons.values())
            raise BackendUnavailable(
                f"{service} cannot be marked as initialized: {reason}"
            ) from refusal

    def present(self) -> frozenset[PortId]:
        return frozenset(self._ours())

    def observe(self, scope: Update[PortId, Attachment] | None) -> Observed:
        if scope is not None and not scope.complete:
            return self._observe_slice(scope)
        if scope is None:
            self._ovsdb.sync()
        wanted = {value.netns for value in scope.put.values()} if scope else netns.names()
        snapshot = self._ovsdb.snapshot()
        ours = self._mine(snapshot.ports.values())
        recorded = {namespace_of(port) for members in ours.values() for port in members}
        return Observed(
            bridge=snapshot.bridges.get(self._settings.bridge),
            ours=ours,
            named=snapshot.ports,
            links=read_links({None} | recorded | wanted),
        )

    def plan(self, update: Update[PortId, Attachment], observed: Observed) -> Plan:
        return plan_interfaces(update, observed, self._settings)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        with LinkExecutor() as networks:
            for stage in plan.stages:
                try:
                    self._execute(stage, networks)
                except OperationRefused as refusal:
                    self._take_back(_made(plan) & _owners(refusal.reasons), networks)
                    raise
                checkpoint(stage)

    def watch(self, sink: EventSink) -> None:
        self._stop_watching.append(self._ovsdb.watch(_Watcher(self._settings.bridge, sink)))

    def _observe_slice(self, scope: Update[PortId, Attachment]) -> Observed:
        """Observe the ports of the keys in *scope*, and what has the names that they want."""
        named: dict[str, OvsdbPort] = {}
        for port_id in scope:
            for port in self._ovsdb.ports_claiming(OWNER, str(port_id)):
                named[port.name] = port
        for port_id, attachment in scope.put.items():
            holder = self._ovsdb.port(self._settings.port_name(port_id, attachment))
            if holder is not None:
                named[holder.name] = holder
        ours = self._mine(named.values())
        return Observed(
            bridge=self._ovsdb.bridge(self._settings.bridge),
            ours=ours,
            named=named,
            links=read_named_links(self._settings.names(scope.put, ours)),
        )

    def _mine(self, ports: Iterable[OvsdbPort]) -> dict[PortId, tuple[OvsdbPort, ...]]:
        """Return the ports that this driver made, by key."""
        found: dict[PortId, tuple[OvsdbPort, ...]] = {}
        for port in ports:
            owner = _owner(port) if port.bridge == self._settings.bridge else None
            if owner is not None:
                found[owner] = (*found.get(owner, ()), port)
        return found

    def _ours(self) -> dict[PortId, tuple[OvsdbPort, ...]]:
        self._ovsdb.sync()
        return self._mine(self._ovsdb.snapshot().ports.values())

    def _execute(self, stage: Stage, networks: LinkExecutor) -> None:
        if stage.backend == OVSDB:
            self._transact(stage, networks)
        else:
            networks.execute(stage)

    def _take_back(self, owners: frozenset[PortId], networks: LinkExecutor) -> None:
        """Remove what was made for *owners*: a key that is refused has nothing."""
        if not owners:
            return
        drop: Update[PortId, Attachment] = Update(drop=owners)
        for stage in self.plan(drop, self.observe(drop)).stages:
            self._execute(stage, networks)

    def _transact(self, stage: Stage, networks: LinkExecutor) -> None:
        by_payload: dict[Any, Operation] = {o.payload: o for o in stage.operations}
        sizes = {o: self._size_of(o.record) for o in by_payload if _changes_size(o)}
        removed = [self._ovsdb.port(o.name) for o in by_payload if isinstance(o, RemovePort)]
        try:
            self._ovsdb.run(list(by_payload))
        except OperationRefused as refusal:
            reasons = {by_payload.get(key, key): why for key, why in refusal.reasons.items()}
            raise OperationRefused(reasons) from refusal
        finally:  # the switch may have ended, or been restarted, since the plan was made
            networks.delete_abandoned(port for port in removed if port is not None)
        broken: dict[object, str] = {
            by_payload[o]: why for o, why in self._ignored(by_payload, networks)
        }
        if broken:
            self._ovsdb.run([_set_size(change, size) for change, size in sizes.items()])
            added = (o for payload, o in by_payload.items() if isinstance(payload, AddPort))
            self._take_back(_owners(added), networks)
            raise OperationRefused(broken)

    def _size_of(self, name: str) -> int | None:
        port = self._ovsdb.port(name)
        return port.interface.mtu_request if port else None

    def _ignored(
        self, operations: Iterable[object], networks: LinkExecutor
    ) -> Iterator[tuple[object, str]]:
        """Return what the database accepted and the switch then could not do, and why.

        A device whose name is taken it does not make, and a size that is too large it does not set.
        """
        for operation in operations:
            match operation:
                case AddPort(type="internal", name=name, mtu_request=size):
                    port = self._ovsdb.port(name)
                    if port is not None and port.interface.error:
                        yield operation, port.interface.error
                        continue
                case SetColumns(record=name, values={"mtu_request": int() as size}):
                    pass
                case _:
                    continue
            found = networks.home.link(name) if size is not None else None
            if found is not None and found.mtu != size:
                yield operation, f"the switch left the MTU of {name} at {found.mtu}, not {size}"


class _Watcher:
    """Maps events of the switch to the keys that they concern."""

    def __init__(self, bridge: str, sink: EventSink) -> None:
        self._bridge = bridge
        self._sink = sink
        self._outage = DatabaseOutage(sink)
        self._owners: dict[str, PortId] = {}

    def __call__(self, event: SwitchEvent) -> None:
        self._outage.handle(event)
        if isinstance(event, DatabaseChanged) and (keys := self._keys(event)):
            self._sink(KeysChanged("the switch changed their ports", keys))

    def _keys(self, event: DatabaseChanged) -> frozenset[PortId]:
        gone = {self._owners.pop(name) for name in event.ports_gone if name in self._owners}
        for name, port in event.ports.items():
            owner = _owner(port)
            before = self._owners.pop(name, None)
            if before is not None:
                gone.add(before)
            if owner is not None and port.bridge == self._bridge:
                self._owners[name] = owner
                gone.add(owner)
        return frozenset(gone)


def _owner(port: OvsdbPort) -> PortId | None:
    """Return the port id of netfw's mark, or ``None`` unless it is a UUID."""
    try:
        return PortId(UUID(port.external_ids.get(OWNER, "")))
    except ValueError:
        return None


def _made(plan: Plan) -> frozenset[PortId]:
    """Return the keys that the plan makes a new port for."""
    return _owners(operation for operation in plan if isinstance(operation.payload, AddPort))


def _owners(operations: Iterable[object]) -> frozenset[PortId]:
    known = (operation for operation in operations if isinstance(operation, Operation))
    return frozenset(cast(PortId, owner) for operation in known for owner in operation.owners)


def _changes_size(operation: object) -> bool:
    return isinstance(operation, SetColumns) and "mtu_request" in operation.values


def _set_size(change: SetColumns, size: int | None) -> SetColumns:
    return evolve(change, values={"mtu_request": size})


def _device(port: OvsdbPort, links: Mapping[Namespace, Mapping[str, Link]]) -> Device:
    name = device_of(port)
    link = links.get(namespace_of(port), {}).get(name)
    ofport = port.interface.ofport
    return Device(
        name=name,
        mac=link.mac if link else None,
        ofport=ofport if ofport is not None and ofport > 0 else None,
        wired=port.tag in LOCAL_VLANS,
    )
