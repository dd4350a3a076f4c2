"""Networks, subnets, ports, routers and floating IPs: a whole core, for the tests of layer 3."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, cast

from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.server.query import Query, RequestContext
from netfw.drivers.server.type_driver import TypeDriver
from netfw.model.segment import NetworkType
from netfw.server.core.settings import Settings
from netfw.server.db import Database
from netfw.server.l3.floating_ips.port_forwardings import PortForwardingPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.ml2.builder import Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from netfw_drivers.ipam.internal import InternalIpamDriver
from netfw_drivers.type_drivers.local import LocalTypeDriver

ANNA = RequestContext(project_id="anna")
BERT = RequestContext(project_id="bert")
ADMIN = RequestContext(project_id="root", admin=True)

Json = dict[str, Any]

_DEFAULTS = {option.name: option.default for option in LocalTypeDriver.OPTIONS}


class Layer3:
    """A core with routers, and short words for requests."""

    def __init__(
        self,
        database: Database,
        quotas: dict[str, int] | None = None,
        types: Sequence[TypeDriver] = (),
        mechanisms: Sequence[MechanismDriver] = (),
        **options: Any,
    ) -> None:
        local = LocalTypeDriver.from_conf(_DEFAULTS, cast(Any, None))
        drivers = Drivers(
            ipam=InternalIpamDriver(), types=types or (local,), mechanisms=tuple(mechanisms)
        )
        settings = Settings(tenant_network_types=(NetworkType.LOCAL,), max_routes=5, **options)
        core = self.core = build_core(database, drivers, settings, quotas)
        self.context = core.context
        self.plugins = (
            Ml2Plugin(core.context, core.handlers()),
            SecurityGroupsPlugin(core.context),
            RouterPlugin(core.context),
            PortForwardingPlugin(core.context),
        )
        for start in core.context.startup_steps:
            start()
        self._numbers = count(1)

    def plugin(self, name: str) -> Any:
        return next(each for each in self.plugins if name in each.resource_names)

    def create(self, name: str, who: RequestContext = ANNA, /, **body: Any) -> Json:
        attributes = {"project_id": who.project_id, **body}
        return dict(self.plugin(name).create(who, name, [attributes])[0])

    def update(self, name: str, id: str, who: RequestContext = ANNA, /, **body: Any) -> Json:
        return dict(self.plugin(name).update(who, name, id, body))

    def delete(self, name: str, id: str, who: RequestContext = ANNA) -> None:
        self.plugin(name).delete(who, name, id)

    def show(self, name: str, id: str, who: RequestContext = ADMIN) -> Json:
        return dict(self.plugin(name).show(who, name, id))

    def find(self, name: str, who: RequestContext = ADMIN, /, **filters: Any) -> list[Json]:
        query = Query(filters={key: (value,) for key, value in filters.items()})
        return [dict(each) for each in self.plugin(name).find(who, name, query)]

    # What most tests need.

    def network(self, who: RequestContext = ANNA, **body: Any) -> str:
        named = {"name": f"net{next(self._numbers)}", "admin_state_up": True, **body}
        return cast(str, self.create("network", who, **named)["id"])

    def subnet(self, network: str, cidr: str, who: RequestContext = ANNA, **body: Any) -> str:
        version = 6 if ":" in cidr else 4
        attributes = {"network_id": network, "cidr": cidr, "ip_version": version, **body}
        return cast(str, self.create("subnet", who, **attributes)["id"])

    def inside(self, cidr: str = "10.0.0.0/24", who: RequestContext = ANNA) -> tuple[str, str]:
        """Create a network of a project with a subnet."""
        network = self.network(who)
        return network, self.subnet(network, cidr, who)

    def outside(self, cidr: str = "203.0.113.0/24") -> tuple[str, str]:
        """Create an external network with a subnet."""
        network = self.network(ADMIN, **{"router:external": True})
        return network, self.subnet(network, cidr, ADMIN)

    def port(self, network: str, who: RequestContext = ANNA, **body: Any) -> Json:
        return self.create("port", who, network_id=network, **body)

    def router(self, who: RequestContext = ANNA, **body: Any) -> str:
        return cast(str, self.create("router", who, **{"name": "r", **body})["id"])

    def act(self, router: str, action: str, who: RequestContext = ANNA, **body: Any) -> Json:
        return dict(self.plugin("router").member_action(who, "router", router, action, body))

    def connect(self, router: str, who: RequestContext = ANNA, **body: Any) -> Json:
        return self.act(router, "add_router_interface", who, **body)

    def disconnect(self, router: str, who: RequestContext = ANNA, **body: Any) -> Json:
        return self.act(router, "remove_router_interface", who, **body)

    def lead_out(self, router: str, network: str, who: RequestContext = ANNA, **info: Any) -> Json:
        body = {"external_gateway_info": {"network_id": network, **info}}
        return self.update("router", router, who, **body)

    def ports_of(self, device: str) -> list[Json]:
        return self.find("port", device_id=device)
