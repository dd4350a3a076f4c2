"""Planner of ports on a bridge.  Pure: values in, values out.

A port is known as ours by a mark on its row in the switch's database, which is made before anything
else and removed after everything else: whatever a crash leaves behind is found by it again.  That
holds for a dead switch too, which would remove no device: it goes before its row.  A switch that is
alive removes the device with the row.
Rules found by trying (Open vSwitch 3.1, userspace datapath):

* A switch matches ports by name: one that is removed and added in one transaction keeps its device,
  or the lack of one.  So removal and addition are different stages.
* A device that is deleted, alone or with its namespace, is not made again, and no column shows it.
  Until its row is removed, the switch polls the dead descriptor without a pause: a core is busy.
* A restarted switch makes new devices in its own namespace; those in other namespaces are dead.
* The switch sets MAC and MTU of devices in its own namespace alone, and there insists on them.
  It leaves an MTU that it cannot set as it is, and no column shows it: each is a stage of its own,
  to be checked afterwards.
* When it opens a device it reads and later writes the flags: a device that is set up meanwhile is
  down again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field, frozen

from netfw.drivers.interface import Attachment
from netfw.errors import Conflict
from netfw.linux.ip.operations import (
    AddVeth,
    DelLink,
    MoveLink,
    NetworkOperation,
    SetChecksumOffload,
    SetMac,
    SetMtu,
    SetUp,
)
from netfw.linux.ip.values import Link
from netfw.model.values.ids import PortId
from netfw.ovs.ovsdb.operations import (
    REMOVE_AT_ONCE,
    AddPort,
    OvsdbOperation,
    OvsdbTable,
    RemovePort,
    SetColumns,
    Value,
)
from netfw.ovs.ovsdb.values import IFACE_ID, OWNER, OvsdbPort
from netfw.plan import Operation, Plan, Stage, Update
from netfw_drivers.ovs.common.local_vlans import DEAD_VLAN
from netfw_drivers.ovs.interface.name_conflicts import refusals
from netfw_drivers.ovs.interface.observed import (
    ATTACHED_MAC,
    DEVICE,
    MADE_BY_SWITCH,
    NETNS,
    STATUS,
    InterfaceSettings,
    Namespace,
    Observed,
    device_of,
    is_abandoned,
    is_pair,
    is_stranded,
    is_unusable,
    leaving,
    namespace_of,
)

OVSDB = "ovsdb"


@frozen
class LinkStep:
    """One operation on a device of one namespace."""

    namespace: Namespace
    operation: NetworkOperation


def plan_interfaces(
    update: Update[PortId, Attachment], observed: Observed, settings: InterfaceSettings
) -> Plan:
    """Plan what turns *observed* into *update*; refusals are in the plan."""
    refused = refusals(update, observed, settings)
    draft = _Draft(observed=observed, settings=settings)
    for port_id in leaving(update, observed):
        for port in observed.ours.get(port_id, ()):
            draft.remove(port_id, port)
    for port_id, attachment in update.put.items():
        if port_id not in refused:
            draft.put(port_id, attachment)
        elif isinstance(refused[port_id], Conflict):
            draft.abandon(port_id)
    return Plan(stages=tuple(draft.stages()), waiting=draft.waiting, refused=refused)


@define
class _Draft:
    """Collects operations by the stage they belong to."""

    observed: Observed
    settings: InterfaceSettings
    clearing: list[Operation] = field(factory=list)
    removals: list[Operation] = field(factory=list)
    additions: list[Operation] = field(factory=list)
    database: list[Operation] = field(factory=list)
    sizes: list[Operation] = field(factory=list)
    links: list[Operation] = field(factory=list)
    ready: list[Operation] = field(factory=list)
    finishing: list[Operation] = field(factory=list)
    waiting: dict[PortId, str] = field(factory=dict)

    def stages(self) -> Iterator[Stage]:
        yield from (Stage((operation,)) for operation in self.clearing)
        for start in range(0, len(self.removals), REMOVE_AT_ONCE):
            yield Stage(tuple(self.removals[start : start + REMOVE_AT_ONCE]))
        for batch in (self.additions, self.database):
            if batch:
                yield Stage(tuple(batch))
        yield from (Stage((operation,)) for operation in (*self.sizes, *self.links))
        if self.ready:
            yield Stage(tuple(self.ready))
        yield from (Stage((operation,)) for operation in self.finishing)

    def remove(self, port_id: PortId, port: OvsdbPort) -> None:
        for namespace in sorted({None, namespace_of(port)}, key=str):
            if self._goes_along(port, namespace):
                self.clearing.append(_link(port_id, namespace, DelLink(port.name)))
        expect = {OWNER: str(port_id)}
        self.removals.append(_ovsdb(port_id, RemovePort(name=port.name, expect=expect)))

    def _goes_along(self, port: OvsdbPort, namespace: Namespace) -> bool:
        """Return whether the device of the port's name there is to go before the port."""
        found = self.observed.link(namespace, port.name)
        if found is None:
            return False
        if is_pair(port):  # its ends come and go together
            other = self.observed.link(namespace_of(port), device_of(port))
            return namespace is None and (other is not None or not is_unusable(port))
        return is_abandoned(port, found) or self._is_dead(port, namespace)

    def abandon(self, port_id: PortId) -> None:
        """Leave no mark on a name that turned out to be another's."""
        for port in self.observed.ours.get(port_id, ()):
            if is_unusable(port) or is_stranded(port, self.observed):
                self.remove(port_id, port)

    def put(self, port_id: PortId, wanted: Attachment) -> None:
        name = self.settings.port_name(port_id, wanted)
        kept = None
        for port in self.observed.ours.get(port_id, ()):
            if port.name == name and self._can_stay(port, wanted):
                kept = port
            else:
                self.remove(port_id, port)
        if kept is None:
            self._add(port_id, wanted, name)
        elif self.settings.use_veth:
            self._repair_veth(port_id, wanted, kept)
        else:
            self._repair_internal(port_id, wanted, kept)

    def _can_stay(self, port: OvsdbPort, wanted: Attachment) -> bool:
        """Return whether *port* can be repaired; a device that is gone or must come back is new."""
        if self.settings.use_veth:
            return self._veth_can_stay(port, wanted)
        if port.interface.type != "internal":
            return False
        found = self._internal_link(port, wanted)
        return found is not None and (found[0] is None or wanted.netns is not None)

    def _veth_can_stay(self, port: OvsdbPort, wanted: Attachment) -> bool:
        if not is_pair(port) or device_of(port) != wanted.device:
            return False
        ends = self.observed.link(None, port.name), self._veth_link(wanted, port)
        if STATUS in port.interface.external_ids:
            return None not in ends
        return True  # we did not come to make them, last time

    def _internal_link(self, port: OvsdbPort, wanted: Attachment) -> tuple[Namespace, Link] | None:
        root_link = self.observed.link(None, port.name)
        if root_link is not None and root_link.kind in MADE_BY_SWITCH:
            return None, root_link
        for namespace in (wanted.netns, namespace_of(port)):
            link = self.observed.link(namespace, port.name) if namespace is not None else None
            if link is not None:
                return namespace, link
        return None

    def _is_dead(self, port: OvsdbPort, namespace: Namespace) -> bool:
        """Return whether the device in *namespace* is left from before a restart of the switch."""
        root_link = self.observed.link(None, port.name)
        there = self.observed.link(namespace, port.name) if namespace is not None else None
        return (
            root_link is not None
            and root_link.kind in MADE_BY_SWITCH
            and there is not None
            and there.kind in MADE_BY_SWITCH
        )

    def _add(self, port_id: PortId, wanted: Attachment, name: str) -> None:
        veth = self.settings.use_veth
        ids = {IFACE_ID: str(port_id), ATTACHED_MAC: str(wanted.mac)}
        port = AddPort(
            bridge=self.settings.bridge,
            name=name,
            type="" if veth else "internal",
            mac=None if veth else wanted.mac,
            mtu_request=self._mtu_request(wanted),
            tag=DEAD_VLAN,
            external_ids=ids if veth else {**ids, STATUS: "active"},
            port_external_ids={
                key: value for key, value in self._marks(port_id, wanted).items() if value
            },
        )
        self.additions.append(_ovsdb(port_id, port))
        if veth:
            self._make_veth(port_id, wanted, name)
            return
        if wanted.netns is not None:
            self._on(port_id, None, MoveLink(name=name, namespace=wanted.netns))
            self._on(port_id, wanted.netns, SetMtu(name, wanted.mtu))
        if wanted.up:
            self._on(port_id, wanted.netns, SetUp(name))

    def _make_veth(self, port_id: PortId, wanted: Attachment, name: str) -> None:
        pair = AddVeth(name=name, peer=wanted.device, peer_namespace=wanted.netns)
        self._on(port_id, None, pair, SetMtu(name, wanted.mtu))
        device, namespace = wanted.device, wanted.netns
        self._on(port_id, namespace, SetMac(device, wanted.mac), SetMtu(device, wanted.mtu))
        self._spare_checksums(port_id, namespace, device)
        if wanted.up:
            self._on(port_id, namespace, SetUp(device))
        self._make_ready(port_id, name)
        self._raise_end(port_id, name)

    def _raise_end(self, port_id: PortId, name: str) -> None:
        """Set the end of the switch up once the switch has found it.

        The switch reads and writes the flags of a device that it opens; a change in between would
        be lost.
        """
        self.finishing.append(_link(port_id, None, SetUp(name)))

    def _make_ready(self, port_id: PortId, name: str) -> None:
        """Record, last of all, that the pair is complete; the switch then opens its end again."""
        status = SetColumns(
            table=OvsdbTable.INTERFACE,
            record=name,
            keys={"external_ids": {STATUS: "active"}},
            expect={OWNER: str(port_id)},
        )
        self.ready.append(_ovsdb(port_id, status))

    def _spare_checksums(self, port_id: PortId, namespace: Namespace, device: str) -> None:
        bridge = self.observed.bridge
        if bridge is not None and bridge.datapath_type == "netdev":
            self._on(port_id, namespace, SetChecksumOffload(device, on=False))

    def _repair_internal(self, port_id: PortId, wanted: Attachment, port: OvsdbPort) -> None:
        found = self._internal_link(port, wanted)
        assert found is not None
        namespace, link = found
        for other in {wanted.netns, namespace_of(port)} - {namespace}:
            if self._is_dead(port, other):
                self.clearing.append(_link(port_id, other, DelLink(port.name)))
        self._repair_rows(port_id, wanted, port, {"mac": (port.interface.mac, str(wanted.mac))})
        size = self._mtu_request(wanted)
        if size != port.interface.mtu_request:
            change = SetColumns(
                table=OvsdbTable.INTERFACE,
                record=port.name,
                values={"mtu_request": size},
                expect={OWNER: str(port_id)},
            )
            self.sizes.append(_ovsdb(port_id, change))
        moved = namespace != wanted.netns
        if moved:
            assert wanted.netns is not None
            self._on(port_id, namespace, MoveLink(name=port.name, namespace=wanted.netns))
        self._repair_link(port_id, wanted, link, moved=moved)

    def _repair_veth(self, port_id: PortId, wanted: Attachment, port: OvsdbPort) -> None:
        end = self.observed.link(None, port.name)
        found = self._veth_link(wanted, port)
        ready = STATUS in port.interface.external_ids
        self._repair_rows(port_id, wanted, port, {}, ready=ready)
        if end is None or found is None:
            if end is not None:
                self.clearing.append(_link(port_id, None, DelLink(port.name)))
            self._make_veth(port_id, wanted, port.name)
            return
        if not ready:
            self._spare_checksums(port_id, found[0], wanted.device)
            self._make_ready(port_id, port.name)
        elif port.interface.error:
            self._make_ready(port_id, port.name)
            self.waiting[port_id] = f"the switch looks for {port.name}: {port.interface.error}"
        if end.mtu != wanted.mtu:
            self._on(port_id, None, SetMtu(end.name, wanted.mtu))
        if not end.up:
            self._raise_end(port_id, end.name)
        namespace, link = found
        if namespace != wanted.netns:
            assert wanted.netns is not None
            self._on(port_id, namespace, MoveLink(name=wanted.device, namespace=wanted.netns))
        self._repair_link(port_id, wanted, link, moved=namespace != wanted.netns)

    def _veth_link(self, wanted: Attachment, port: OvsdbPort) -> tuple[Namespace, Link] | None:
        """Return where the owner's end is; one that must come back here counts as missing."""
        namespaces = (wanted.netns,) if wanted.netns is None else (wanted.netns, namespace_of(port))
        for namespace in namespaces:
            link = self.observed.link(namespace, wanted.device)
            if link is not None:
                return namespace, link
        return None

    def _repair_link(self, port_id: PortId, wanted: Attachment, link: Link, *, moved: bool) -> None:
        if link.mac != wanted.mac:
            self._on(port_id, wanted.netns, SetMac(link.name, wanted.mac))
        if link.mtu != wanted.mtu or moved:
            self._on(port_id, wanted.netns, SetMtu(link.name, wanted.mtu))
        if link.up != wanted.up or (moved and wanted.up):
            self._on(port_id, wanted.netns, SetUp(link.name, wanted.up))

    def _repair_rows(
        self,
        port_id: PortId,
        wanted: Attachment,
        port: OvsdbPort,
        columns: Mapping[str, tuple[Value, Value]],
        *,
        ready: bool = True,
    ) -> None:
        """Repair the rows of *port*; never its tag, which belongs to the switch driver."""
        status = {STATUS: "active"} if ready else {}
        ids = {IFACE_ID: str(port_id), ATTACHED_MAC: str(wanted.mac), **status}
        self._set(
            port_id,
            OvsdbTable.PORT,
            port.name,
            _differing(port.external_ids, self._marks(port_id, wanted)),
        )
        self._set(
            port_id,
            OvsdbTable.INTERFACE,
            port.name,
            _differing(port.interface.external_ids, ids),
            {column: want for column, (have, want) in columns.items() if have != want},
        )

    def _set(
        self,
        port_id: PortId,
        table: OvsdbTable,
        name: str,
        ids: Mapping[str, str | None],
        values: Mapping[str, Value] | None = None,
    ) -> None:
        if ids or values:
            change = SetColumns(
                table=table,
                record=name,
                values=values or {},
                keys={"external_ids": ids} if ids else {},
                expect={OWNER: str(port_id)},
            )
            self.database.append(_ovsdb(port_id, change))

    def _marks(self, port_id: PortId, wanted: Attachment) -> dict[str, str | None]:
        device = wanted.device if self.settings.use_veth else None
        return {OWNER: str(port_id), NETNS: wanted.netns, DEVICE: device}

    def _mtu_request(self, wanted: Attachment) -> int | None:
        """Return the MTU to request; the switch sets that of devices in its own namespace."""
        return wanted.mtu if wanted.netns is None and not self.settings.use_veth else None

    def _on(self, port_id: PortId, namespace: Namespace, *operations: NetworkOperation) -> None:
        self.links += [_link(port_id, namespace, operation) for operation in operations]


def _differing(have: Mapping[str, str], want: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in want.items() if have.get(key) != value}


def _ovsdb(port_id: PortId, payload: OvsdbOperation) -> Operation:
    return Operation(OVSDB, payload.text, frozenset({port_id}), payload)


def _link(port_id: PortId, namespace: Namespace, operation: NetworkOperation) -> Operation:
    backend = f"links/{namespace}" if namespace is not None else "links"
    return Operation(backend, operation.text, frozenset({port_id}), LinkStep(namespace, operation))
