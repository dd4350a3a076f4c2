"""Stand-ins for the core plugin of Neutron and for the context of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from neutron_lib.context import ContextBase
from neutron_lib.plugins import constants, directory

from netfw.model.subnet import Subnet
from netfw.model.wire import render
from netfw_drivers.neutron_adapter.current_call import refuse


class PluginContext(ContextBase):  # type: ignore[misc]
    """The context of a request: of an administrator, and without a database."""

    def __init__(self, request_id: str = "", subnets: tuple[Subnet, ...] = ()) -> None:
        super().__init__(
            user_id=None,
            is_admin=True,
            is_service_role=False,
            has_global_access=True,
            can_set_project_id=True,
            request_id=request_id or None,
            overwrite=False,
        )
        self.subnets: Mapping[str, Subnet] = {str(subnet.id): subnet for subnet in subnets}

    @property
    def session(self) -> NoReturn:
        """A refusal: there is no session of Neutron's database."""
        refuse("a session of Neutron's database")

    @property
    def _enginefacade_context(self) -> NoReturn:
        refuse("a transaction of Neutron's database")


class CorePluginStandIn:
    """The core plugin: it knows the subnets of a port that is being bound, and refuses all else."""

    def get_subnet(self, context: Any, id: str, fields: object = None) -> dict[str, Any]:
        """Return a subnet of the network of the port that is being bound."""
        found = context.subnets.get(id) if isinstance(context, PluginContext) else None
        if found is None:
            refuse(f"get_subnet of Neutron's core plugin outside of bind_port (subnet {id})")
        return dict(render(found))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"{name} of Neutron's core plugin")


CORE_PLUGIN = CorePluginStandIn()


def publish_core_plugin() -> None:
    """Have drivers find the stand-in in neutron-lib's directory of plugins."""
    if directory.get_plugin() is None:
        directory.add_plugin(constants.CORE, CORE_PLUGIN)
