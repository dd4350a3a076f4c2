"""Several servers on one database: a port is in one trunk, and sub-ports follow their parent."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import NetfwError, RequestError
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.server.db import Database
from netfw.server.l2.trunks import TrunkPlugin
from tests.lab.server.db.processes import at_once
from tests.lab.server.l2.port_processes import make_environment
from tests.server.l2.environment import ADMIN

WORKERS = 3
ROUNDS = 25


def change_trunks(url: str, ports: list[str], seed: int) -> list[str]:
    """Make, fill, move and delete trunks of the same ports; return what was not a refusal."""
    database, chance = Database(url, attempts=60), random.Random(seed)
    env, problems = make_environment(database), []
    plugin = TrunkPlugin(env.context)
    for _ in range(ROUNDS):
        try:
            _change(env.plugin, plugin, ports, chance)
        except RequestError:
            pass
        except NetfwError as exc:
            problems.append(repr(exc))
    database.close()
    return problems


def _change(ports_plugin: Any, plugin: Any, ports: list[str], chance: random.Random) -> None:
    parent, *others = chance.sample(ports, 4)
    subs = [
        {"port_id": id, "segmentation_type": "vlan", "segmentation_id": chance.randrange(1, 6)}
        for id in others
    ]
    match chance.randrange(5):
        case 0:
            body = {"port_id": parent, "sub_ports": subs[:2], "project_id": "admin"}
            plugin.create(ADMIN, "trunk", [body])
        case 1:
            host = chance.choice(("h1", "h2", ""))
            ports_plugin.update(ADMIN, "port", parent, {"binding:host_id": host})
        case action:
            trunk = chance.choice(plugin.find(ADMIN, "trunk", Query()) or [{"id": "none"}])
            if action == 2:
                plugin.delete(ADMIN, "trunk", trunk["id"])
                return
            name = "add_subports" if action == 3 else "remove_subports"
            plugin.member_action(ADMIN, "trunk", trunk["id"], name, {"sub_ports": subs[:1]})


@pytest.mark.spec("API-07", "API-17", "L2-81")
def test_ports_and_trunks_agree_whatever_several_servers_do(url: str, database: Database) -> None:
    env = make_environment(database)
    plugin = TrunkPlugin(env.context)
    for host in ("h1", "h2"):
        env.host(host)
    network = env.network()
    ids = [port["id"] for port in env.bulk([{"network_id": str(network)}] * 8, ADMIN)]
    problems = at_once(WORKERS, change_trunks, url, ids)
    assert not [each for some in problems for each in some]
    trunks = {trunk["port_id"]: trunk for trunk in plugin.find(ADMIN, "trunk", Query())}
    wanted: dict[str, tuple[str, str | None, int | None]] = {}
    for parent, trunk in trunks.items():
        wanted[parent] = (trunk["id"], None, None)
        for sub in trunk["sub_ports"]:
            assert sub["port_id"] not in wanted
            wanted[sub["port_id"]] = (trunk["id"], parent, sub["segmentation_id"])
    rows = env.context.read(
        lambda view: [view.resources.get(Kind.PORT, UUID(id)).resource() for id in ids]
    )
    ports: dict[str, Port] = {str(row.id): row for row in rows if isinstance(row, Port)}
    found = {
        id: (
            str(port.trunk.trunk_id),
            None if port.trunk.parent_id is None else str(port.trunk.parent_id),
            port.trunk.segmentation_id,
        )
        for id, port in ports.items()
        if port.trunk is not None
    }
    assert found == wanted
    for id, (_, parent, _) in wanted.items():
        if parent is not None:
            assert ports[id].binding.host == ports[parent].binding.host
