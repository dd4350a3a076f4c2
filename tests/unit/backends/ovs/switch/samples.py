"""A switch's database as values, and what is wanted of it."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any
from uuid import UUID, uuid5

from attrs import evolve

from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.ids import NetworkId, PortId, SegmentId
from netfw.ovs.ovsdb.operations import AddBridge, AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import Bridge, Interface, OvsdbPort, Snapshot, Switch
from netfw.plan import Operation
from netfw_drivers.ovs.common.local_vlans import LocalVlans
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.switch.plan.observed import Observed, port_id_of
from netfw_drivers.ovs.switch.plan.outline import PlanOutline
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState

SPACE = UUID(int=0xABC)
SETTINGS = Settings(
    mappings={"physnet1": "br-ex"},
    tunnel_types=frozenset({NetworkType.VXLAN}),
    local_ip=ip_address("192.0.2.1"),
    datapath_type="netdev",
)


def network_key(number: int) -> NetworkKey:
    return NetworkKey(NetworkId(UUID(int=number << 64)))


def port_key(number: int) -> PortKey:
    return PortKey(PortId(UUID(int=number)))


def network(number: int, kind: str = "local", **provider: Any) -> dict[SwitchKey, SwitchValue]:
    key = network_key(number)
    segment = Segment(
        id=SegmentId(UUID(int=number << 64 | 1)),
        network_id=key.network,
        provider=Provider(network_type=NetworkType(kind), **provider),
    )
    return {key: LocalNetwork(segments=(segment,), mtu=1450)}


def wiring(
    number: int, net: int, admission: Admission = Admission.LIVE, **more: Any
) -> dict[SwitchKey, SwitchValue]:
    value = Wiring(
        network=network_key(net).network,
        mac=f"fa:16:3e:00:00:{number:02x}",
        admission=admission,
        **more,
    )
    return {port_key(number): value}


def peer(number: int) -> Endpoint:
    return Endpoint(NetworkType.VXLAN, ip_address("192.0.2.0") + number)


def tunnel(number: int, *, mesh: bool = False) -> dict[SwitchKey, SwitchValue]:
    return {peer(number): Tunnel(f"host{number}", mesh)}


class Database:
    """The rows that an executor would have made, kept in step with operations."""

    def __init__(self) -> None:
        self.bridges: dict[str, Bridge] = {}
        self.ports: dict[str, OvsdbPort] = {}
        self.admissions: dict[int, int] = {}
        self.add_bridge(AddBridge(name="br-ex"))

    def add_bridge(self, wanted: AddBridge) -> None:
        self.bridges[wanted.name] = Bridge(
            uuid=uuid5(SPACE, wanted.name),
            name=wanted.name,
            datapath_type=wanted.datapath_type,
            fail_mode=wanted.fail_mode,
            protocols=wanted.protocols,
            external_ids=dict(wanted.external_ids),
        )

    def plug(self, number: int, ofport: int | None = None, **columns: Any) -> None:
        """Add a device for a port, as a hypervisor plugs it."""
        mac = f"fa:16:3e:00:00:{number:02x}"
        ids = {"iface-id": str(port_key(number).port), "attached-mac": mac}
        name = f"tap{number}"
        interface = Interface(
            uuid=uuid5(SPACE, f"i{name}"), name=name, ofport=ofport, external_ids=ids
        )
        self.ports[name] = OvsdbPort(
            uuid=uuid5(SPACE, name),
            name=name,
            bridge="br-int",
            interfaces=(interface,),
            **columns,
        )

    def run(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            match operation.payload:
                case AddBridge() as wanted:
                    self.add_bridge(wanted)
                case AddPort() as wanted:
                    self.add_port(wanted)
                case RemovePort(name=name):
                    del self.ports[name]
                case SetColumns() as wanted:
                    self.set_columns(wanted)

    def add_port(self, wanted: AddPort) -> None:
        assert wanted.name not in self.ports
        self.ports[wanted.name] = OvsdbPort(
            uuid=uuid5(SPACE, wanted.name),
            name=wanted.name,
            bridge=wanted.bridge,
            external_ids=dict(wanted.port_external_ids),
            interfaces=(
                Interface(
                    uuid=uuid5(SPACE, f"i{wanted.name}"),
                    name=wanted.name,
                    type=wanted.type,
                    ofport=wanted.ofport_request,
                    options=dict(wanted.options),
                    external_ids=dict(wanted.external_ids),
                ),
            ),
        )

    def set_columns(self, wanted: SetColumns) -> None:
        rows: dict[str, Any] = self.bridges if wanted.table is OvsdbTable.BRIDGE else self.ports
        row = rows[wanted.record]
        inner = row.interface if wanted.table is OvsdbTable.INTERFACE else row
        values = dict(wanted.values)
        for column, keys in wanted.keys.items():
            values[column] = changed(getattr(inner, column), keys)
        inner = evolve(inner, **values)
        changed_row = (
            evolve(row, interfaces=(inner,)) if wanted.table is OvsdbTable.INTERFACE else inner
        )
        rows[wanted.record] = changed_row

    def observed(
        self, state: SwitchState | None = None, members: DomainMembers | None = None
    ) -> Observed:
        bridge = self.bridges.get("br-int")
        plugged: dict[PortId, tuple[OvsdbPort, ...]] = {}
        for port in self.ports.values():
            port_id = port_id_of(port)
            if port_id is not None:
                plugged[port_id] = (*plugged.get(port_id, ()), port)
        return Observed(
            snapshot=Snapshot(
                switch=Switch(uuid=SPACE), bridges=dict(self.bridges), ports=dict(self.ports)
            ),
            plugged=plugged,
            admission=self.admissions.get,
            vlans=LocalVlans.recorded(bridge.external_ids if bridge else {}),
            layout=ExtensionLayout(),
            state=state or SwitchState(),
            members=members or DomainMembers(),
        )


def changed(have: Mapping[str, str], keys: Mapping[str, str | None]) -> dict[str, str]:
    kept = {key: value for key, value in have.items() if key not in keys}
    return {**kept, **{key: value for key, value in keys.items() if value is not None}}


def rows(found: PlanOutline) -> list[str]:
    """Return every change of the database, stage by stage."""
    stages = (*found.draft.before(), *found.draft.after())
    return [operation.text for stage in stages for operation in stage.operations]
