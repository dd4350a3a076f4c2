"""What several server processes do to the ports of one database at once."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict
from netfw.model import NetworkId
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from netfw.server.l2 import port_macs
from netfw.server.l2.port_status import PortStatuses
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.l2.environment import ADMIN, PortsEnvironment, addresses


def make_environment(database: Database) -> PortsEnvironment:
    """Return an environment for the ports of a database."""
    return PortsEnvironment(ServerContext(database=database, ipam=InternalIpamDriver()))


class FewMacs(random.Random):
    """Chance that leaves hardly any MAC address, so that many ports want the same."""

    def getrandbits(self, bits: int) -> int:
        return super().getrandbits(6)


def make_and_change(url: str, network: str, seed: int) -> list[tuple[str, list[str]]]:
    """Make ports alone and in lists, readdress and delete some, until nothing is left to take.

    Those that stay: their MACs and addresses.
    """
    vars(port_macs)["random"] = FewMacs()
    database, chance = Database(url, attempts=60), random.Random(seed)
    env, id = make_environment(database), NetworkId(UUID(network))
    kept: list[Any] = []
    try:
        while True:
            kept += env.bulk([{"network_id": network}] * chance.choice((1, 1, 3)))
            if chance.random() < 0.3:
                at = chance.randrange(len(kept))
                kept[at] = env.update(kept[at], fixed_ips=[])
                kept[at] = env.update(kept[at], fixed_ips=[{"subnet_id": subnet_of(env, id)}])
            if chance.random() < 0.3:
                env.delete(kept.pop(chance.randrange(len(kept))))
    except Conflict:
        return [(port["mac_address"], addresses(env.show(port))) for port in kept]
    finally:
        database.close()


def subnet_of(env: PortsEnvironment, network: NetworkId) -> str:
    subnets = env.context.read(lambda view: view.resources.of_network(Kind.SUBNET, network))
    return str(subnets[0].id)


def name_these(url: str, network: str, wanted: list[str], seed: int) -> list[str]:
    """Make a port of each address, in an order of one's own; the addresses that were free."""
    database, made = Database(url), []
    env = make_environment(database)
    order = list(wanted)
    random.Random(seed).shuffle(order)
    for address in order:
        try:
            env.create(NetworkId(UUID(network)), fixed_ips=[{"ip_address": address}])
        except Conflict:
            continue
        made.append(address)
    database.close()
    return made


def report_and_rename(url: str, ports: list[str], seed: int) -> int:
    """Rename ports or report on them, by *seed*, and return how often."""
    database, chance, done = Database(url), random.Random(seed), 0
    env = make_environment(database)
    statuses = PortStatuses(env.context)
    for number in range(12):
        some = chance.sample(ports, 4)
        if seed % 2:
            env.plugin.update(ADMIN, "port", some[0], {"name": f"{seed}-{number}"})
        else:
            statuses([active_report(env.show({"id": id}, ADMIN)) for id in some])
        done += 1
    database.close()
    return done


def active_report(port: Any) -> StatusReport:
    return StatusReport(
        ref=Ref(Kind.PORT, UUID(port["id"])),
        revision=port["revision_number"],
        host="h1",
        service=Service.L2,
        status=Status.ACTIVE,
    )
