"""The API over real plugins on SQLite."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_world import Client, api

from netfw.server.db import Database, migration
from netfw.server.plugin.assembly import Drivers, assemble
from netfw.server.plugin.keeping import KeepingPlugin
from netfw.server.plugin.ml2 import Ml2Plugin
from netfw.server.plugin.quotas import QuotaKeeper
from netfw.server.plugin.security_groups import SecurityGroupsPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.null.mechanism import LoggerMechanismDriver
from netfw_drivers.segments.tunnel import VxlanTypeDriver


@pytest.fixture(scope="session")
def api_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    database = Database(f"sqlite:///{path}")
    migration.upgrade(database)
    database.close()
    return path


@contextmanager
def kept(tables: Path, folder: Path) -> Iterator[list[KeepingPlugin]]:
    """The core plugin, and that of groups, over tables of their own."""
    shutil.copy(tables, folder / "netfw.db")
    database = Database(f"sqlite:///{folder}/netfw.db")
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=(VxlanTypeDriver([(1000, 1999)], 1450),),
        mechanisms=(LoggerMechanismDriver(),),
    )
    quotas = {"network": 100, "port": 5000, "subnet": 100, "security_group": 10}
    core = assemble(database, drivers, quotas=quotas)
    keepers = [each for each in core.keepers() if each.name != "quota"]
    there = core.attendance
    plugins = [
        Ml2Plugin(core.backbone, [*keepers, QuotaKeeper(quotas)], [there.agents], there.answers),
        SecurityGroupsPlugin(core.backbone),
    ]
    core.backbone.start()
    yield plugins
    database.close()


@pytest.fixture
def plugins(api_tables: Path, tmp_path: Path) -> Iterator[list[KeepingPlugin]]:
    """Plugins of one test."""
    with kept(api_tables, tmp_path) as plugins:
        yield plugins


@pytest.fixture
def client(plugins: list[KeepingPlugin]) -> Client:
    """Alice, a member of a project of her own."""
    return api(plugins)


@pytest.fixture(scope="module")
def unmoved(api_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Alice before an API that all tests of a module share, since they change nothing."""
    with kept(api_tables, tmp_path_factory.mktemp("unmoved")) as plugins:
        yield api(plugins)
