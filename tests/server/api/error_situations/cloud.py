"""A server with small pools, and what the situations need of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from netfw.model.segment import NetworkType
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.core.extension_drivers import ExtensionDrivers
from netfw.server.core.quotas import QuotaHandler
from netfw.server.core.settings import Settings
from netfw.server.db import Database
from netfw.server.l3.conntrack_helpers import ConntrackHelperPlugin
from netfw.server.l3.floating_ips.port_forwardings import PortForwardingPlugin
from netfw.server.l3.ndp_proxies import NdpProxyPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from netfw_drivers.extension_drivers.port_security import PortSecurityDriver
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from netfw_drivers.type_drivers.flat import FlatTypeDriver
from netfw_drivers.type_drivers.tunnel import VxlanTypeDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.server.api.environment import Client, Reply, api
from tests.server.core.agent_samples import beat

NOWHERE = str(uuid4())
"""An id that no resource has."""

VXLANS = range(1000, 1010)


class Cloud:
    """The API as Alice and as an administrator use it."""

    def __init__(self, alice: Client, heartbeats: HeartbeatHandler) -> None:
        self.alice, self.admin = alice, alice.as_("ops/admin")
        self._heartbeats = heartbeats

    def create(self, singular: str, /, **attributes: Any) -> Reply:
        """Request a new resource as the administrator."""
        named = {name.replace("__", ":"): value for name, value in attributes.items()}
        collection = f"{singular}s".replace("_", "-")
        return self.admin.post(collection, {singular: named})

    def change(self, collection: str, id: str, /, **attributes: Any) -> Reply:
        """Request a change as the administrator."""
        named = {name.replace("__", ":"): value for name, value in attributes.items()}
        singular = collection.removesuffix("s").replace("-", "_")
        return self.admin.put(f"{collection}/{id}", {singular: named})

    def make(self, singular: str, /, **attributes: Any) -> dict[str, Any]:
        """Create a resource, and return it."""
        reply = self.create(singular, **attributes)
        assert reply.status == 201, reply.data
        return dict(reply.json[singular])

    def network(self, **attributes: Any) -> str:
        return str(self.make("network", **attributes)["id"])

    def subnet(self, network: str, cidr: str = "10.0.0.0/24", **attributes: Any) -> str:
        return str(self.make("subnet", network_id=network, cidr=cidr, **attributes)["id"])

    def port(self, network: str, **attributes: Any) -> dict[str, Any]:
        return self.make("port", network_id=network, **attributes)

    def outside(self) -> str:
        """Create an external network with a subnet."""
        network = self.network(router__external=True)
        self.subnet(network, "203.0.113.0/24")
        return network

    def router(self, *subnets: str, outside: str | None = None) -> str:
        """Create a router with interfaces, and a gateway."""
        gateway = {} if outside is None else {"external_gateway_info": {"network_id": outside}}
        id = str(self.make("router", **gateway)["id"])
        for subnet in subnets:
            added = self.interface(id, subnet_id=subnet)
            assert added.status == 200, added.data
        return id

    def interface(self, router: str, action: str = "add", /, **body: Any) -> Reply:
        """Add or remove an interface of a router."""
        return self.admin.put(f"routers/{router}/{action}_router_interface", body)

    def agent(self, host: str, kind: str, **reported: Any) -> str:
        """Have an agent send a heartbeat, and return its id."""
        sample = beat(host, kind, **reported)
        self._heartbeats([sample])
        return str(sample.agent.id)


Situation = Callable[[Cloud], Reply]
SITUATIONS: list[tuple[str, int, Situation]] = []
"""Type, status, and the function that returns the response."""


def situation(word: str, status: int) -> Callable[[Situation], Situation]:
    """Register a function whose response is an error of that type and status."""

    def register(function: Situation) -> Situation:
        SITUATIONS.append((word, status, function))
        return function

    return register


@contextmanager
def start_cloud(tables: Path, folder: Path) -> Iterator[Cloud]:
    """Start a server on a copy of empty *tables*."""
    shutil.copy(tables, folder / "netfw.db")
    database = Database(f"sqlite:///{folder}/netfw.db")
    extensions = (PortSecurityDriver(),)
    drivers = Drivers(
        ipam=InternalIpamDriver(),
        types=(
            VxlanTypeDriver([(VXLANS.start, VXLANS.stop - 1)], 1450),
            VlanTypeDriver({"physnet1": [(100, 100)]}),
            FlatTypeDriver(("physnet1",)),
        ),
        mechanisms=(OvsMechanismDriver(),),
        extensions=extensions,
    )
    limits = {"network": 100, "router": 1}
    settings = Settings(max_allowed_address_pairs=2, max_routes=1, base_mac="fa:16:3e:00:00:00")
    assert settings.tenant_network_types == (NetworkType.VXLAN,)
    core = build_core(database, drivers, settings, quotas=limits)
    handlers = [each for each in core.handlers() if each.name != "quota"]
    handlers.append(QuotaHandler(core.context.quotas))
    services = core.agent_services
    plugins = [
        Ml2Plugin(core.context, handlers, [services.agents], services.request_handlers),
        SecurityGroupsPlugin(core.context),
        RouterPlugin(core.context),
        PortForwardingPlugin(core.context),
        ConntrackHelperPlugin(core.context),
        NdpProxyPlugin(core.context),
    ]
    core.context.start()
    declared = ExtensionDrivers(extensions).declared()
    yield Cloud(api(plugins, extending=declared), HeartbeatHandler(core.context))
    database.close()
