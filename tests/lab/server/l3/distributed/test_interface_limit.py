"""How many interfaces distributed routers can have on one network."""

from __future__ import annotations

from uuid import uuid4

import pytest

from netfw.errors import Conflict
from netfw.model.router import MAX_ROUTER_INTERFACES
from netfw.model.values.device_owner import DeviceOwner
from netfw.server.db import Database
from netfw.server.l3.interface_limit import MAX_INTERFACES
from tests.lab.server.l3.distributed.samples import dvr_router
from tests.lab.server.l3.environment import ADMIN, ANNA, BERT, Layer3
from tests.lab.server.l3.ha_samples import record

OWNER = DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value


@pytest.mark.spec("L2-60")
def test_users_of_a_shared_network_cannot_bring_too_many_routers(file_database: Database) -> None:
    # A switch would refuse the whole network, with the ports of all other projects.
    core = Layer3(file_database)
    network = core.network(ADMIN, shared=True)
    core.subnet(network, "10.0.0.0/16", ADMIN)
    port = {"network_id": network, "project_id": ADMIN.project_id, "device_owner": OWNER}
    bodies = [{**port, "device_id": str(uuid4())} for _ in range(MAX_INTERFACES - 1)]
    core.plugin("port").create(ADMIN, "port", bodies)
    core.connect(dvr_router(core, ANNA), ANNA, port_id=core.port(network, ANNA)["id"])
    router, mine = dvr_router(core, BERT), core.port(network, BERT)["id"]
    before = record(core)
    with pytest.raises(Conflict, match="interfaces of distributed routers, and can have no more"):
        core.connect(router, BERT, port_id=mine)
    assert record(core) == before
    plain = core.router(BERT, admin_state_up=False)
    core.connect(plain, BERT, port_id=mine)
    with pytest.raises(Conflict, match="have no more"):
        core.update("router", plain, ADMIN, distributed=True)
    assert len(core.find("port", device_owner=OWNER)) == MAX_INTERFACES < MAX_ROUTER_INTERFACES
