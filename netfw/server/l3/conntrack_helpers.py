"""ConntrackHelperHandler, and the service plugin for conntrack helpers of routers.

A conntrack helper is a part of its router.  Each change of one locks the router and gives it its
next revision, by which the hosts of the router get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self, cast
from uuid import uuid4

from attrs import evolve

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import InvalidInput
from netfw.errors.requests import BadRequest
from netfw.errors.routers import (
    ConntrackHelperNotAllowed,
    ConntrackHelperNotFound,
    InvalidProtocolForHelper,
)
from netfw.model import l3_extensions
from netfw.model.resource import Kind
from netfw.model.router import ConntrackHelper, HelperProtocol, Router
from netfw.model.wire.codec import CodecError
from netfw.model.wire.routers import CONNTRACK_HELPER
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import (
    Reader,
    ResourceHandler,
    StoredResourceHandler,
    apply_query,
)
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.scheduling.missing_l3_extensions import check_extension

PARENT: Final = "router_id"
MAX_HELPERS: Final = 64
"""Maximum per router."""


class ConntrackHelperHandler(ResourceHandler):
    """Conntrack helpers; the id of a member is ``<router>/<conntrack helper>``."""

    name: ClassVar[str] = "conntrack_helper"

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._allowed = parse_allowed(context.settings.allowed_conntrack_helpers)

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        made = []
        for body in bodies:
            router = _lock(unit, str(body[PARENT]))
            check_extension(unit, router.id, l3_extensions.CONNTRACK_HELPER)
            plain = {name: value for name, value in body.items() if name != PARENT}
            new = self._parse({**plain, "id": str(uuid4())})
            _store(unit, router, (*router.conntrack_helpers, new), new)
            made.append(_render(new))
        return tuple(made)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        parent, _, own = id.partition("/")
        router = _lock(unit, parent, revision)
        check_extension(unit, router.id, l3_extensions.CONNTRACK_HELPER)
        new = self._parse({**_render(_find(router, own)), **body})
        helpers = [new if each.id == new.id else each for each in router.conntrack_helpers]
        _store(unit, router, helpers, new)
        return _render(new)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        parent, _, own = id.partition("/")
        router = _lock(unit, parent, revision)
        gone = _find(router, own)
        helpers = tuple(each for each in router.conntrack_helpers if each.id != gone.id)
        unit.update(router, evolve(router, conntrack_helpers=helpers))

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        (parent,) = query.filters[PARENT]
        filters = {name: values for name, values in query.filters.items() if name != PARENT}
        helpers = self._read(reader, requester, str(parent)).conntrack_helpers
        return apply_query(map(_render, helpers), evolve(query, filters=filters))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        parent, _, own = id.partition("/")
        return _render(_find(self._read(reader, requester, parent), own))

    def _read(self, reader: Reader, requester: RequestContext, id: str) -> Router:
        own = _routers(self._context).identity(id)
        row = reader.resources.get(Kind.ROUTER, own, project=requester.sees)
        return cast(Router, row.resource())

    def _parse(self, body: Mapping[str, Any]) -> ConntrackHelper:
        """Return the conntrack helper of *body*.

        :raises ConntrackHelperNotAllowed: the configuration does not name it.
        :raises InvalidProtocolForHelper: the configuration names it for another protocol.
        """
        helper = str(body["helper"])
        protocols = self._allowed.get(helper)
        if protocols is None:
            known = ", ".join(sorted(self._allowed)) or "none"
            text = f"conntrack helper {helper[:64]!r} is not allowed; allowed are: {known}"
            raise ConntrackHelperNotAllowed({"helper": text})
        if body["protocol"] not in protocols:
            text = f"conntrack helper {helper} reads {' and '.join(sorted(protocols))} only"
            raise InvalidProtocolForHelper({"protocol": text})
        try:
            return CONNTRACK_HELPER.parse(body)
        except CodecError as exc:
            raise InvalidInput(exc.problems) from exc


class ConntrackHelperPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for conntrack helpers; it needs the plugin for routers."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (ConntrackHelperHandler(context),))

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("conntrack_helper")


def parse_allowed(words: Iterable[str]) -> dict[str, frozenset[HelperProtocol]]:
    """Return the protocols of each helper, from words such as ``ftp:tcp``.

    :raises ValueError: names the word that is none.
    """
    allowed: dict[str, frozenset[HelperProtocol]] = {}
    for word in words:
        helper, _, protocol = word.strip().partition(":")
        if not helper or protocol not in tuple(HelperProtocol):
            raise ValueError(f"{word!r} is not a helper with its protocol, such as ftp:tcp")
        allowed[helper] = allowed.get(helper, frozenset()) | {HelperProtocol(protocol)}
    return allowed


def show_helpers(helpers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return conntrack helpers as a router shows them: without their ids."""
    return [{name: value for name, value in each.items() if name != "id"} for each in helpers]


def _routers(context: ServerContext) -> StoredResourceHandler[Router]:
    return cast(StoredResourceHandler[Router], context.handler("router"))


def _lock(unit: UnitOfWork, id: str, revision: int | None = None) -> Router:
    return _routers(unit.context).get_for_update(unit, id, revision)


def _find(router: Router, id: str) -> ConntrackHelper:
    for each in router.conntrack_helpers:
        if str(each.id) == id:
            return each
    raise ConntrackHelperNotFound(f"router {router.id} has no conntrack helper {id[:80]!r}")


def _store(
    unit: UnitOfWork, router: Router, helpers: Sequence[ConntrackHelper], changed: ConntrackHelper
) -> None:
    """Store *helpers* as those of *router*.

    :raises BadRequest: another one is the same as the *changed* one, or there are too many.
    """
    for other in helpers:
        if other.id != changed.id and other.values == changed.values:
            text = (
                f"router {router.id} has conntrack helper {other.id} for {other.protocol} port "
                f"{other.port} and {other.helper} already"
            )
            raise BadRequest({"helper": text})
    if len(helpers) > MAX_HELPERS:
        text = f"router {router.id} has {MAX_HELPERS} conntrack helpers, the most that it can have"
        raise BadRequest({"helper": text})
    unit.update(router, evolve(router, conntrack_helpers=tuple(helpers)))


def _render(helper: ConntrackHelper) -> dict[str, Any]:
    return dict(cast(Mapping[str, Any], CONNTRACK_HELPER.render(helper)))
