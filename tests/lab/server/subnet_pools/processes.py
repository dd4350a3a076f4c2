"""What several server processes request of subnet pools at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netfw.drivers.server.query import RequestContext
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.errors.subnet_pools import SubnetAllocationError, SubnetPoolQuotaExceeded
from netfw.server.db import Database
from netfw.server.subnet_pools.auto_topology import AutoAllocatePlugin
from netfw.server.subnet_pools.pools import SubnetPoolsPlugin
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3

TOPOLOGY = "auto_allocated_topology"


class Pools(Layer3):
    """A core with subnet pools and topologies."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        more = (SubnetPoolsPlugin(self.context), AutoAllocatePlugin(self.context))
        self.plugins = (*self.plugins, *more)  # type: ignore[assignment]

    def pool(self, *prefixes: str, who: RequestContext = ANNA, **more: Any) -> str:
        return str(self.create("subnetpool", who, name="p", prefixes=list(prefixes), **more)["id"])

    def subnet_of(self, pool: str, **more: Any) -> dict[str, Any]:
        """Create a subnet of *pool* on a network of its own."""
        return self.create("subnet", network_id=self.network(), subnetpool_id=pool, **more)

    def topology(self, project: str) -> str:
        who = RequestContext(project_id=project)
        return str(self.plugin(TOPOLOGY).show(who, TOPOLOGY, project)["id"])


@contextmanager
def pools_at(url: str) -> Iterator[Pools]:
    """Yield a core of this process on the database."""
    database = Database(url)
    try:
        yield Pools(database)
    finally:
        database.close()


def take_prefixes(url: str, pool: str, seed: int) -> list[str]:
    """Make subnets of several lengths until the pool is used up, deleting some on the way."""
    chance = random.Random(seed)
    kept: list[dict[str, Any]] = []
    with pools_at(url) as core:
        while True:
            length = chance.choice((26, 27, 28))
            try:
                kept.append(core.subnet_of(pool, prefixlen=length))
            except SubnetAllocationError:
                if length == 28:
                    return [each["cidr"] for each in kept]
                continue
            if chance.random() < 0.3:
                core.delete("subnet", kept.pop(chance.randrange(len(kept)))["id"])


def take_this_prefix(url: str, pool: str, cidrs: list[str], seed: int) -> list[str]:
    """Ask for each of *cidrs*, and return those that were free."""
    made = []
    with pools_at(url) as core:
        for cidr in cidrs:
            try:
                made.append(core.subnet_of(pool, cidr=cidr)["cidr"])
            except SubnetAllocationError:
                continue
    return made


def use_up_quota(url: str, pool: str, seed: int) -> int:
    """Make subnets until the project's quota of the pool is used up; return how many."""
    with pools_at(url) as core:
        for number in range(100):
            try:
                core.subnet_of(pool, prefixlen=28)
            except SubnetPoolQuotaExceeded:
                return number
    raise AssertionError("there is no quota")


def become_default(url: str, prefixes: list[str], seed: int) -> int:
    """Make a default pool of each of *prefixes*; return how many could be."""
    made = 0
    with pools_at(url) as core:
        for prefix in prefixes:
            try:
                core.pool(prefix, who=ADMIN, is_default=True)
            except (InvalidInput, Conflict):
                continue
            made += 1
    return made


def join_scope(url: str, scope: str, prefixes: list[str], seed: int) -> list[str]:
    """Make a pool of each of *prefixes* in a scope; return those that could be."""
    made, wanted = [], list(prefixes)
    random.Random(seed).shuffle(wanted)
    with pools_at(url) as core:
        for prefix in wanted:
            try:
                core.pool(prefix, address_scope_id=scope)
            except Conflict:
                continue
            made.append(prefix)
    return made


def use_and_delete(url: str, pools: list[str], seed: int) -> int:
    """Make subnets of pools, while other processes delete the pools; return how many."""
    made = 0
    with pools_at(url) as core:
        for pool in pools:
            try:
                if seed:
                    core.subnet_of(pool, prefixlen=28)
                    made += 1
                else:
                    core.delete("subnetpool", pool)
            except (InvalidInput, NotFound):
                continue
    return made


def get_topologies(url: str, projects: list[str], seed: int) -> dict[str, str]:
    """Return the network that each project gets."""
    with pools_at(url) as core:
        return {project: core.topology(project) for project in projects}


def rescope_and_use(
    url: str, scopes: list[str], pools: list[str], networks: list[str], seed: int
) -> int:
    """Move the first pool between scopes, while others add subnets of the second; the count."""
    done = 0
    with pools_at(url) as core:
        for number in range(12):
            network = networks[number % len(networks)]
            try:
                if seed == 0:
                    scope = scopes[number % 2]
                    core.update("subnetpool", pools[0], address_scope_id=scope)
                else:
                    body = {"network_id": network, "subnetpool_id": pools[1], "prefixlen": 28}
                    made = core.create("subnet", **body)
                    if number % 3:
                        core.delete("subnet", made["id"])
            except InvalidInput:
                continue
            done += 1
    return done
