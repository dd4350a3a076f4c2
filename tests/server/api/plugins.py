"""Real plugins on SQLite, for the API to stand on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netfw.drivers.server.extension_driver import ExtensionDriver
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.quotas import QuotaHandler
from netfw.server.db import Database
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from netfw_drivers.type_drivers.tunnel import VxlanTypeDriver


@contextmanager
def kept(
    tables: Path, folder: Path, extensions: Sequence[ExtensionDriver] = ()
) -> Iterator[list[HandlerPlugin]]:
    """Yield the core plugin and that of security groups, over tables of their own."""
    shutil.copy(tables, folder / "netfw.db")
    database = Database(f"sqlite:///{folder}/netfw.db")
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=(VxlanTypeDriver([(1000, 1999)], 1450),),
        mechanisms=(LoggerMechanismDriver(), OvsMechanismDriver()),
        extensions=extensions,
    )
    quotas = {"network": 100, "port": 5000, "subnet": 100, "security_group": 10}
    core = build_core(database, drivers, quotas=quotas)
    handlers = [each for each in core.handlers() if each.name != "quota"]
    there = core.agent_services
    handlers.append(QuotaHandler(core.context.quotas))
    plugins = [
        Ml2Plugin(core.context, handlers, [there.agents], there.request_handlers),
        SecurityGroupsPlugin(core.context),
    ]
    core.context.start()
    yield plugins
    database.close()
