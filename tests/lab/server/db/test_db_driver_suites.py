"""The type drivers and address management keep their promises on the stores of real databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from sqlalchemy import delete, select

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.ipam import IpamDriver
from netfw.drivers.server.type_driver import Pool, TypeDriver
from netfw.errors import Conflict
from netfw.model.segment import NetworkType, Provider
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import SubnetId
from netfw.server.db import Database, Limits, Transaction
from netfw.server.db.allocation.allocation_stores import SegmentIdStore, SubnetAddressStore
from netfw.server.db.engine.errors import FAILURES, ErrorKind, RetryTransaction, classify_error
from netfw.server.db.schema.tables import FREE_RANGES, OFFERS, POOLS
from netfw.testing.conformance.server.ipam import IpamDriverConformance
from netfw.testing.conformance.server.type_driver import TypeDriverConformance

IMPATIENT = Limits(lock_timeout=0.3, connect_timeout=60)


class DatabaseStores:
    """The pools of a database, none at first, and transactions that end where a block ends."""

    def __init__(self, patient: Database, impatient: Database) -> None:
        self.patient, self.impatient = patient, impatient
        self.thread = threading.local()
        with self.opened() as tx:
            for table in (FREE_RANGES, OFFERS, POOLS):
                tx.connection.execute(delete(table))

    @contextmanager
    def opened(self) -> Iterator[Transaction]:
        """Yield one transaction that is not retried: contention is a conflict.

        Within another one of the same thread it does not wait for long: it would be in vain.
        """
        within = getattr(self.thread, "within", False)
        database = self.impatient if within else self.patient
        self.thread.within = True
        try:
            with database.writing.connect() as connection:
                tx = Transaction.on(connection)
                yield tx
                tx.prepare_commit()
                connection.commit()
        except RetryTransaction as exc:
            raise Conflict(str(exc)) from exc
        except FAILURES as exc:
            if classify_error(exc) not in (ErrorKind.RETRY, ErrorKind.UNAVAILABLE):
                raise
            raise Conflict(str(exc)) from exc
        finally:
            self.thread.within = within

    def gaps(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield the numbers that are taken in the pools whose names begin with *prefix*."""
        with self.patient.reading.connect() as connection:
            rows = select(FREE_RANGES.c.pool, FREE_RANGES.c.first, FREE_RANGES.c.last)
            free = [(p, int(a, 16), int(b, 16)) for p, a, b in connection.execute(rows)]
            pools = select(POOLS.c.pool, POOLS.c.lowest, POOLS.c.highest)
            for pool, lowest, highest in connection.execute(pools).all():
                if pool.startswith(prefix):
                    start = int(lowest, 16)
                    for first, last in sorted((a, b) for p, a, b in free if p == pool):
                        yield from ((pool, number) for number in range(start, first))
                        start = last + 1
                    yield from ((pool, number) for number in range(start, int(highest, 16) + 1))


class SegmentStores(DatabaseStores):
    def __init__(self, patient: Database, impatient: Database, driver: TypeDriver) -> None:
        super().__init__(patient, impatient)
        with self.opened() as tx:
            tx.allocations.define(driver.network_type(), driver.ranges())

    @contextmanager
    def transaction(self) -> Iterator[SegmentIdStore]:
        with self.opened() as tx:
            yield tx.allocations

    def taken(self) -> frozenset[tuple[Pool, int]]:
        found = set()
        for name, number in self.gaps("segment/"):
            _, kind, physnet = name.split("/", 2)
            found.add((Pool(NetworkType(kind), physnet or None), number))
        return frozenset(found)


class SubnetStores(DatabaseStores):
    @contextmanager
    def transaction(self) -> Iterator[SubnetAddressStore]:
        with self.opened() as tx:
            yield tx.addresses

    def taken(self, subnet: Subnet) -> frozenset[IpAddress]:
        kind = type(subnet.cidr.network_address)
        return frozenset(kind(number) for _, number in self.gaps(f"subnet/{subnet.id}"))

    def define(self, subnet: Subnet) -> None:
        with self.opened() as tx:
            tx.addresses.define(subnet)

    def drop(self, subnet: SubnetId) -> None:
        with self.opened() as tx:
            tx.addresses.drop(subnet)


class OnDatabase:
    databases: tuple[Database, Database]

    @pytest.fixture(autouse=True)
    def _use(self, url: str, open_database: Callable[..., Database]) -> None:
        self.databases = open_database(url), open_database(url, IMPATIENT)


class TypeOnDatabase(OnDatabase, TypeDriverConformance):
    TYPE: ClassVar[NetworkType]
    OPTIONS: ClassVar[Mapping[str, Any]]

    def make_driver(self) -> TypeDriver:
        return create(TypeDriver, self.TYPE, self.OPTIONS, LocalHostResources())

    def make_stores(self, driver: TypeDriver) -> SegmentStores:
        return SegmentStores(*self.databases, driver)

    def provider(self, number: int | None = None, physnet: str | None = None) -> Provider:
        return Provider(network_type=self.TYPE, segmentation_id=number, physical_network=physnet)

    def impossible(self) -> Mapping[Provider, frozenset[str]]:
        return {}

    def mtus(self) -> Mapping[str | None, int]:
        return {}


@pytest.mark.spec("ML2-01")
class TestVlanOnDatabase(TypeOnDatabase):
    TYPE = NetworkType.VLAN
    OPTIONS: ClassVar = {"network_vlan_ranges": "physnet1:100:104,physnet2:100:102,physnet3"}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(101, "physnet1"), self.provider(4000, "physnet3")


@pytest.mark.spec("ML2-01")
class TestFlatOnDatabase(TypeOnDatabase):
    TYPE = NetworkType.FLAT
    OPTIONS: ClassVar = {}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(physnet="physnet1"), self.provider(physnet="physnet2")


@pytest.mark.spec("ML2-01")
class TestGreOnDatabase(TypeOnDatabase):
    TYPE = NetworkType.GRE
    OPTIONS: ClassVar = {"tunnel_id_ranges": "1:3,4294967293:4294967295"}

    def requests(self) -> tuple[Provider, Provider]:
        return self.provider(2), self.provider(7_000_000)


@pytest.mark.spec("ML2-09")
class TestInternalIpamOnDatabase(OnDatabase, IpamDriverConformance):
    def make_driver(self) -> IpamDriver:
        return create(IpamDriver, "internal", {}, LocalHostResources())

    def make_stores(self) -> SubnetStores:
        return SubnetStores(*self.databases)
