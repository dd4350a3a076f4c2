"""Failed bindings are retried apart from each other and from the heartbeat of their agent."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.change import Change
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import ADMIN
from tests.server.scheduling.environment import OVS, Cloud


def vif_types(cloud: Cloud, *ports: dict[str, Any]) -> list[str]:
    return [cloud.calls.show("port", port["id"], ADMIN)["binding:vif_type"] for port in ports]


@pytest.mark.spec("ML2-04", "RPC-03")
def test_a_port_whose_binding_a_driver_refuses_keeps_neither_its_agent_nor_others_away(
    database: Database,
) -> None:
    cloud = Cloud(database)
    network = cloud.network()
    wanted = {"network_id": network, "binding__host_id": "h"}
    vetoed, other = (cloud.calls.make("port", ADMIN, **wanted) for _ in range(2))
    assert vif_types(cloud, vetoed, other) == ["binding_failed"] * 2

    def refuse(unit: UnitOfWork, change: Change) -> None:
        if isinstance(change.after, Port) and str(change.after.id) == vetoed["id"]:
            raise Conflict("the device is read-only")

    cloud.context.precommit_hooks.append(refuse)
    cloud.hear([beat("h", OVS, tunnel_types=["vxlan"])])
    assert [each["alive"] for each in cloud.calls.all("agent", host="h")] == [True]
    assert vif_types(cloud, vetoed, other) == ["binding_failed", "ovs"]
