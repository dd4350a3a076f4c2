"""What the API asks of those who know who somebody is, and what he may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from netfw.drivers.query import Body, RequestContext
from netfw.server.api.schema.resource_schema import ApiAction, ApiResource, Verb

Deed = Verb | ApiAction
"""What is to be done to a resource."""


class Identity(Protocol):
    """Says whose request it is."""

    def __call__(self, environ: Mapping[str, Any]) -> RequestContext:
        """Who asks, from what the WSGI environment says.

        Called by the request's thread, several at once, for every request but those for the
        versions of the API and the health of the process.  ``netfw.peer_credentials`` in *environ*
        is ``(pid, uid, gid)`` on a unix socket, and absent elsewhere; ``netfw.request_id`` is the
        id of the request, which the requester gets.

        :raises Unauthorized: nobody who is known; the text tells what is missing.
        :raises BackendUnavailable: who could tell does not answer.
        """


class Policy(Protocol):
    """Says what somebody may do.  Asked by several threads at once."""

    def needs_target(
        self, requester: RequestContext, resource: ApiResource, deed: Deed, asked: Body
    ) -> bool:
        """Whether :meth:`authorize` has to see the resource as it is before it can answer.

        Asked of deeds on what exists.  Where it is not needed, the resource is not read.
        """

    def authorize(
        self,
        requester: RequestContext,
        resource: ApiResource,
        deed: Deed,
        target: Body | None,
        asked: Body,
    ) -> None:
        """Let the deed pass, or raise.

        *target* is the resource as it is; for a create request what is to be made, complete with
        defaults and owner; ``None`` for a list, and where it was not needed.  *asked* is what the
        request itself says, without defaults: attribute-level rules are about it.

        :raises Forbidden: he sees it, and may not do that with it.
        :raises NotFound: he does not even see it.
        """

    def hidden(self, requester: RequestContext, resource: ApiResource) -> frozenset[str]:
        """Attributes that he sees of no row."""

    def visible(
        self, requester: RequestContext, resource: ApiResource, bodies: Sequence[Body]
    ) -> Sequence[Body]:
        """*bodies* without rows, and attributes of rows, that he may not see; in their order.

        Where no rule depends on the row, rules are asked once for all rows; where he may see
        everything, *bodies* themselves are the answer.
        """
