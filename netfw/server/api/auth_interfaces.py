"""Protocols of authentication and policy, as the API uses them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from netfw.drivers.server.query import Body, RequestContext
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb

PolicyOperation = Verb | ApiAction
"""An operation on a resource."""


class Authenticator(Protocol):
    """Authenticates requests."""

    def __call__(self, environ: Mapping[str, Any]) -> RequestContext:
        """Return the requester, from the WSGI environment.

        Called by the request's thread, several at once, for every request but those for the
        versions of the API and the health of the process.  ``netfw.peer_credentials`` in *environ*
        is ``(pid, uid, gid)`` on a unix socket, and absent elsewhere; ``netfw.request_id`` is the
        id of the request, which the requester gets.

        :raises Unauthorized: the request is not authenticated; the text says what is missing.
        :raises BackendUnavailable: the identity service does not answer.
        """


class Authorizer(Protocol):
    """Authorizes requests.  Called by several threads at once."""

    def needs_target(
        self,
        requester: RequestContext,
        resource: ApiResource,
        operation: PolicyOperation,
        requested: Body,
    ) -> bool:
        """Return whether :meth:`authorize` needs the resource as it is.

        Called for operations on existing resources, which are read only if needed.
        """

    def is_possible(
        self, requester: RequestContext, resource: ApiResource, operation: PolicyOperation
    ) -> bool:
        """Return whether the operation may be allowed on some target."""

    def authorize(
        self,
        requester: RequestContext,
        resource: ApiResource,
        operation: PolicyOperation,
        target: Body | None,
        requested: Body,
    ) -> None:
        """Raise unless the operation is allowed.

        *target* is the resource as it is; for a create request the new resource, complete with
        defaults and owner; ``None`` for a list, and where it is not needed.  *requested* has the
        attributes of the request itself, without defaults: attribute-level rules apply to it.

        :raises Forbidden: the requester sees the resource, and may not do this.
        :raises NotFound: the requester does not see the resource.
        """

    def authorize_creation(
        self,
        requester: RequestContext,
        resource: ApiResource,
        targets: Sequence[Body],
        requested: Sequence[Body],
    ) -> None:
        """Authorize the creation of all *targets* like :meth:`authorize`, each with what was asked
        for it.

        Their parents are read once for all of them.
        """

    def hidden(self, requester: RequestContext, resource: ApiResource) -> frozenset[str]:
        """Return the attributes that are hidden from the requester in every row."""

    def conditional(self, requester: RequestContext, resource: ApiResource) -> frozenset[str]:
        """Return the attributes that are hidden from the requester in some rows."""

    def showing(
        self,
        requester: RequestContext,
        resource: ApiResource,
        bodies: Sequence[Body],
        names: Collection[str],
    ) -> Sequence[Body]:
        """Return those of *bodies* in which no attribute of *names* is hidden, in order."""

    def visible(
        self, requester: RequestContext, resource: ApiResource, bodies: Sequence[Body]
    ) -> Sequence[Body]:
        """Return *bodies* without the rows and attributes that the requester may not see, in order.

        Rules that do not depend on the row are evaluated once for all rows; if everything is
        visible, *bodies* are returned unchanged.
        """
