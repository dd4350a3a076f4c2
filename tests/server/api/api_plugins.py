"""Real plugins on SQLite, for the API to stand on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netfw.drivers.extension_driver import ExtensionDriver
from netfw.server.db import Database
from netfw.server.plugin.assembly import Drivers, assemble
from netfw.server.plugin.keeping import KeepingPlugin
from netfw.server.plugin.ml2 import Ml2Plugin
from netfw.server.plugin.quotas import QuotaKeeper
from netfw.server.plugin.security_groups import SecurityGroupsPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.null.mechanism import LoggerMechanismDriver
from netfw_drivers.segments.tunnel import VxlanTypeDriver


@contextmanager
def kept(
    tables: Path, folder: Path, extensions: Sequence[ExtensionDriver] = ()
) -> Iterator[list[KeepingPlugin]]:
    """The core plugin, and that of groups, over tables of their own."""
    shutil.copy(tables, folder / "netfw.db")
    database = Database(f"sqlite:///{folder}/netfw.db")
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=(VxlanTypeDriver([(1000, 1999)], 1450),),
        mechanisms=(LoggerMechanismDriver(),),
        extensions=extensions,
    )
    quotas = {"network": 100, "port": 5000, "subnet": 100, "security_group": 10}
    core = assemble(database, drivers, quotas=quotas)
    keepers = [each for each in core.keepers() if each.name != "quota"]
    there = core.attendance
    keepers.append(QuotaKeeper(core.backbone.quotas))
    plugins = [
        Ml2Plugin(core.backbone, keepers, [there.agents], there.answers),
        SecurityGroupsPlugin(core.backbone),
    ]
    core.backbone.start()
    yield plugins
    database.close()
