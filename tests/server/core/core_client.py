"""A core plugin with the reference drivers, and how tests call it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.query import Query, RequestContext
from netfw.drivers.server.type_driver import TypeDriver
from netfw.model.segment import NetworkType
from netfw.server.core.settings import Settings
from netfw.server.db import Database
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.type_drivers.flat import FlatTypeDriver
from netfw_drivers.type_drivers.local import LocalTypeDriver
from netfw_drivers.type_drivers.mtu import PhysicalMtus
from netfw_drivers.type_drivers.tunnel import GeneveTypeDriver, GreTypeDriver, VxlanTypeDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver

ADMIN = RequestContext(project_id="admins", admin=True)
ALICE = RequestContext(project_id="alice")
BOB = RequestContext(project_id="bob")
MTUS = PhysicalMtus(1500, {"big": 9000})


def type_drivers() -> tuple[TypeDriver, ...]:
    """Return drivers of all six types, some with few numbers."""
    return (
        LocalTypeDriver(),
        FlatTypeDriver(("physnet1", "physnet2", "big"), MTUS),
        VlanTypeDriver({"physnet1": [(100, 102)], "big": []}, MTUS),
        GreTypeDriver([(1, 2)], 1458),
        VxlanTypeDriver([(1000, 1999)], 1450),
        GeneveTypeDriver([], 1450),
    )


def settings(*types: str, **other: Any) -> Settings:
    """Return settings in which new networks get *types*, by default VXLAN."""
    chosen = tuple(NetworkType(each) for each in types or ("vxlan",))
    return Settings(tenant_network_types=chosen, **other)


def core_plugin(
    database: Database,
    *types: str,
    mechanisms: Sequence[MechanismDriver] = (),
    extensions: Sequence[ExtensionDriver] = (),
    quotas: dict[str, int] | None = None,
    **other: Any,
) -> Ml2Plugin:
    """Return a started core plugin; *types* are the types of new networks."""
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=type_drivers(),
        mechanisms=mechanisms or (LoggerMechanismDriver(),),
        extensions=extensions,
    )
    core = build_core(database, drivers, settings(*types, **other), quotas)
    plugin = Ml2Plugin(core.context, core.handlers())
    core.context.start()
    return plugin


class Calls:
    """The verbs of a plugin, with less to write."""

    def __init__(self, plugin: Ml2Plugin) -> None:
        self.plugin = plugin

    def make(self, name: str, /, who: RequestContext = ALICE, **attributes: Any) -> dict[str, Any]:
        body = {"project_id": who.project_id, **_named(attributes)}
        return dict(self.plugin.create(who, name, [body])[0])

    def change(
        self, name: str, id: str, /, who: RequestContext = ALICE, **new: Any
    ) -> dict[str, Any]:
        return dict(self.plugin.update(who, name, id, _named(new)))

    def delete(self, name: str, id: str, who: RequestContext = ALICE) -> None:
        self.plugin.delete(who, name, id)

    def show(self, name: str, id: str, who: RequestContext = ALICE) -> dict[str, Any]:
        return dict(self.plugin.show(who, name, id))

    def all(
        self, name: str, /, who: RequestContext = ADMIN, **filters: Any
    ) -> list[dict[str, Any]]:
        query = Query(filters={key: (value,) for key, value in _named(filters).items()})
        return [dict(each) for each in self.plugin.find(who, name, query)]

    def network(self, who: RequestContext = ALICE, **attributes: Any) -> dict[str, Any]:
        return self.make("network", who, **attributes)

    def subnet(
        self, network: dict[str, Any], cidr: str, who: RequestContext = ALICE, **other: Any
    ) -> dict[str, Any]:
        return self.make("subnet", who, network_id=network["id"], cidr=cidr, **other)


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    """Rename ``provider__network_type`` to ``provider:network_type``."""
    return {name.replace("__", ":"): value for name, value in attributes.items()}


@contextmanager
def statements(database: Database, *, begins: bool = True) -> Iterator[list[str]]:
    """Record the statements that are executed meanwhile; *begins*: those of transactions too."""
    seen: list[str] = []

    def note(_conn: Any, _cursor: Any, text: str, *_: Any) -> None:
        if begins or not text.startswith("BEGIN"):
            seen.append(text)

    engines = (database.writing, database.reading)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)
