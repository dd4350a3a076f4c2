"""A server for the suites of plugins: the real core on an SQLite file, with recording drivers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.attribute import Attribute, AttributeType
from netfw.drivers.server.change import Change
from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.drivers.server.ipam import IpamDriver
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.drivers.server.query import Body
from netfw.drivers.server.type_driver import TypeDriver
from netfw.model.resource import Kind, Resource
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database, migration
from netfw.server.ml2.builder import Core, Drivers, build_core, publish

REFUSED_HOST = "no-such-host"
"""The recording mechanism driver binds no port to it."""


@frozen(kw_only=True)
class ServerRecord:
    """What the drivers of a server were called for, in order."""

    calls: list[str] = field(factory=list)
    refusals: list[Exception] = field(factory=list)
    """Raised by the mechanism driver, one for each validation."""


class RecordingMechanism(MechanismDriver):
    """A mechanism driver that binds ports, delivers changes and records its calls."""

    VERSION: ClassVar[int] = 2

    def __init__(self, record: ServerRecord) -> None:
        self._record = record

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(ServerRecord())

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("recording", {MechanismCapability.DELIVERS})

    def validate(self, change: Change) -> None:
        self._record.calls.append("mechanism driver")
        if self._record.refusals:
            raise self._record.refusals.pop()

    def bind(self, request: BindingRequest) -> Binding:
        self._record.calls.append("binding")
        if request.host == REFUSED_HOST or not request.segments:
            return Refused("there is no such host")
        return Bound(segment=request.segments[0].id, vif_type="other")

    def deliver(self, change: Change) -> None:
        self._record.calls.append("outbox")


class RecordingExtension(ExtensionDriver):
    """An extension driver that records its calls."""

    VERSION: ClassVar[int] = 2

    def __init__(self, record: ServerRecord) -> None:
        self._record = record

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(ServerRecord())

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("recording")

    def attributes(self) -> Mapping[Kind, tuple[Attribute, ...]]:
        mark = Attribute(name="conformance:mark", type=AttributeType.TEXT, default="")
        return {Kind.NETWORK: (mark,), Kind.PORT: (mark,)}

    def apply_fields(self, change: Change, requested: Body) -> Resource:
        self._record.calls.append("extension driver")
        return change.resource


@frozen(kw_only=True)
class PluginServer:
    """A server without plugins: what a plugin gets from ``host``, and what its drivers record."""

    core: Core
    host: LocalHostResources
    record: ServerRecord

    def journal_position(self) -> int:
        """Return the number of the newest journal entry, which agents read."""
        return self.core.context.read(lambda view: view.journal.cursor()).seq

    def record_validation(self) -> None:
        """Record when service plugins validate changes of ports, from now on."""

        def validate(_: UnitOfWork, change: Change) -> None:
            if change.ref.kind is Kind.PORT:
                self.record.calls.append("service plugin")

        self.core.context.precommit_hooks.append(validate)

    def deliver(self) -> None:
        """Deliver what is in the outbox."""
        self.core.outbox.drain()


@contextmanager
def plugin_server(prepare: Callable[[PluginServer], None] | None = None) -> Iterator[PluginServer]:
    """Yield a server with an empty database; it is started after *prepare* has made its plugins."""
    record = ServerRecord()
    with tempfile.TemporaryDirectory(prefix="netfw-plugin-", dir=_memory()) as directory:
        file = Path(directory, "netfw.db")
        file.write_bytes(_empty_tables())
        database = Database(f"sqlite:///{file}")
        try:
            with LocalHostResources() as host:
                drivers = Drivers(
                    ipam=create(IpamDriver, "internal", {}, host),
                    types=(create(TypeDriver, "vxlan", {"vni_ranges": "1000:1999"}, host),),
                    mechanisms=(RecordingMechanism(record),),
                    extensions=(RecordingExtension(record),),
                )
                core = build_core(database, drivers)
                publish(core, host)
                server = PluginServer(core=core, host=host, record=record)
                if prepare is not None:
                    prepare(server)
                core.context.start()
                yield server
        finally:
            database.close()


@cache
def _empty_tables() -> bytes:
    """Return the file of a database with empty tables, made once in a process."""
    with tempfile.TemporaryDirectory(prefix="netfw-tables-", dir=_memory()) as directory:
        file = Path(directory, "netfw.db")
        database = Database(f"sqlite:///{file}")
        migration.upgrade(database)
        database.close()
        return file.read_bytes()


def _memory() -> str | None:
    """Return a file system in memory, where commits do not wait for a disk, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
