"""Service providers: the kinds of routers, by the names that service profiles use.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from netfw.errors.flavors import ServiceProfileDriverNotFound
from netfw.server.core.settings import Settings

ROUTERS: Final = "L3_ROUTER_NAT"
"""The service type of routers."""
FLAVORS: Final = "FLAVORS"
SERVICE_TYPES: Final = (ROUTERS, FLAVORS)
"""The service types that a flavor can have; only that of routers has providers."""


class RouterKind(NamedTuple):
    """How the routers of a provider run."""

    ha: bool
    distributed: bool


PROVIDERS: Final[Mapping[str, RouterKind]] = MappingProxyType(
    {
        "single_node": RouterKind(ha=False, distributed=False),
        "ha": RouterKind(ha=True, distributed=False),
        "dvr": RouterKind(ha=False, distributed=True),
        "dvrha": RouterKind(ha=True, distributed=True),
    }
)
"""The providers of routers."""

_PATH = re.compile(r"neutron\.services\.l3_router\.service_providers\.(\w+)\.\w+")
"""The driver of a service profile as Neutron names it."""


def find_router_kind(driver: str) -> RouterKind:
    """Return the kind of routers that *driver* of a service profile names.

    It is the name of a provider; the name of the class that Neutron has for it is accepted, too.

    :raises ServiceProfileDriverNotFound: there is no such provider.
    """
    path = _PATH.fullmatch(driver)
    name = driver if path is None else path[1]
    if name not in PROVIDERS:
        raise ServiceProfileDriverNotFound(
            f"no provider is named {driver[:80]!r}; there are {', '.join(PROVIDERS)}"
        )
    return PROVIDERS[name]


def list_providers(settings: Settings) -> Iterator[dict[str, object]]:
    """Yield the providers as the API shows them; the default makes routers without a flavor."""
    usual = RouterKind(ha=settings.l3_ha, distributed=settings.router_distributed)
    for name, kind in PROVIDERS.items():
        yield {"service_type": ROUTERS, "name": name, "default": kind == usual}
