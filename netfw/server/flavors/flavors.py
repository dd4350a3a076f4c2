"""Handlers of flavors and service profiles, and their service plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors.flavors import (
    FlavorDisabled,
    FlavorInUse,
    FlavorServiceProfileBindingExists,
    FlavorServiceProfileBindingNotFound,
    ServiceProfileEmpty,
    ServiceProfileInUse,
    ServiceProfileNotFound,
)
from netfw.model.resource import Kind
from netfw.server.core.document_handler import DocumentHandler
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import (
    Reader,
    ResourceHandler,
    apply_query,
    select_page,
)
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.flavors.providers import RouterKind, find_router_kind, list_providers

PROFILES = "service_profiles"


class FlavorHandler(DocumentHandler):
    """Flavors; all projects see them, administrators change them."""

    def __init__(self, profiles: ServiceProfileHandler) -> None:
        super().__init__("flavor", public=True)
        self._profiles = profiles

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            self._lock_profiles(unit, body)
        return super().create(unit, bodies)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        self._lock_profiles(unit, body)
        return super().update(unit, id, body, revision)

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        id = str(before["id"])
        query = Query(filters={"flavor_id": (id,)}, limit=1)
        if users := unit.tx.resources.find(Kind.ROUTER, query):
            raise FlavorInUse(f"router {users[0].ref.id} has flavor {id}; delete it first")
        super().do_delete(unit, before)

    def find_router_kind(self, unit: UnitOfWork, id: str) -> RouterKind:
        """Return the kind of routers with that flavor, which is locked until they are stored.

        :raises FlavorNotFound: there is no such flavor.
        :raises FlavorDisabled: it or its service profile is disabled.
        :raises ServiceProfileNotFound: it has no service profile with a driver.
        """
        flavor = self.get_for_update(unit, id)
        if not flavor["enabled"]:
            raise FlavorDisabled(f"flavor {id} is disabled")
        for profile in cast(list[str], flavor[PROFILES]):
            found = self._profiles.show(unit.tx, unit.requester, profile)
            if found["driver"]:
                if not found["enabled"]:
                    raise FlavorDisabled(f"service profile {profile} of flavor {id} is disabled")
                return find_router_kind(str(found["driver"]))
        raise ServiceProfileNotFound(f"flavor {id} has no service profile with a driver")

    def _lock_profiles(self, unit: UnitOfWork, body: Body) -> None:
        for profile in sorted(set(cast(list[str], body.get(PROFILES) or []))):
            self._profiles.get_for_update(unit, profile)


class ServiceProfileHandler(DocumentHandler):
    """Service profiles; each names the provider of a flavor."""

    def __init__(self) -> None:
        super().__init__("service_profile", public=True)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            _check_profile(body)
        return super().create(unit, bodies)

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        _check_profile({**before, **body})
        if str(body.get("driver", before["driver"])) != before["driver"]:
            self._refuse_use(unit, before["id"])
        return super().do_update(unit, before, body)

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        self._refuse_use(unit, str(before["id"]))
        super().do_delete(unit, before)

    def _refuse_use(self, unit: UnitOfWork, id: str) -> None:
        """Refuse a change of a profile that a flavor has; the profile is locked."""
        flavors = unit.context.handler("flavor").find(unit.tx, unit.requester, Query())
        for flavor in flavors:
            if id in cast(list[str], flavor[PROFILES]):
                raise ServiceProfileInUse(
                    f"flavor {flavor['id']} has service profile {id}; disassociate it first"
                )


class FlavorServiceProfileHandler(ResourceHandler):
    """Associations of flavors with service profiles; a member's id is ``<flavor>/<profile>``."""

    name: ClassVar[str] = "flavor_service_profile"

    def __init__(self, flavors: FlavorHandler, profiles: ServiceProfileHandler) -> None:
        self._flavors, self._profiles = flavors, profiles

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        return tuple(self._add(unit, str(body["flavor_id"]), str(body["id"])) for body in bodies)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        flavor, _, profile = id.partition("/")
        found = self._flavors.get_for_update(unit, flavor, revision)
        present = cast(list[str], found[PROFILES])
        if profile not in present:
            raise FlavorServiceProfileBindingNotFound(
                f"flavor {flavor} does not have service profile {profile[:80]}"
            )
        rest = [each for each in present if each != profile]
        self._flavors.do_update(unit, found, {PROFILES: rest})

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        (flavor,) = query.filters["flavor_id"]
        present = cast(list[str], self._flavors.show(reader, requester, str(flavor))[PROFILES])
        found = self._profiles.find(reader, requester, Query(filters={"id": tuple(present)}))
        in_order = sorted(found, key=lambda each: present.index(str(each["id"])))
        return select_page(in_order, query)

    def _add(self, unit: UnitOfWork, flavor: str, profile: str) -> Body:
        added = self._profiles.get_for_update(unit, profile)
        found = self._flavors.get_for_update(unit, flavor)
        present = cast(list[str], found[PROFILES])
        if profile in present:
            raise FlavorServiceProfileBindingExists(
                f"flavor {flavor} has service profile {profile} already"
            )
        self._flavors.do_update(unit, found, {PROFILES: [*present, profile]})
        return added


class ServiceProviderHandler(ResourceHandler):
    """The providers of this server."""

    name: ClassVar[str] = "service_provider"

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        providers = cast("list[Body]", list(list_providers(self._context.settings)))
        return apply_query(providers, query, identity="name")


class FlavorsPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for flavors, service profiles and service providers."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        profiles = ServiceProfileHandler()
        flavors = FlavorHandler(profiles)
        bindings = FlavorServiceProfileHandler(flavors, profiles)
        super().__init__(context, (flavors, profiles, bindings, ServiceProviderHandler(context)))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("flavors")


def _check_profile(body: Body) -> None:
    driver = str(body.get("driver") or "")
    if not driver and not body.get("metainfo"):
        raise ServiceProfileEmpty({"driver": "is required, or metainfo"})
    if driver:
        find_router_kind(driver)
